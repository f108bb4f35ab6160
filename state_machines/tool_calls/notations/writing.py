"""From a schema to the node of its objects in some syntax, less what that cannot write."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import union
from state_machines.grammar.words import contains_word
from state_machines.json_schema.compiler import Compilation
from state_machines.json_schema.objects.object_shape import ObjectShape
from state_machines.json_schema.terms import Term
from state_machines.json_schema.value_sets import ValueSet
from state_machines.json_schema.value_syntax import MemberSyntax, ValueSyntax
from state_machines.tool_calls.notations.notation import NotationOptions, Schema
from state_machines.tool_calls.notations.restrictions import (
    objects_of,
    property_pointer,
    root_names,
    root_shapes,
)

__all__ = ["Writing"]

_ANY_OBJECT = (ObjectShape(),)
_NO_OBJECT = "no JSON object satisfies the schema"


class Writing:
    """The arguments of one schema on their way to a notation.

    ``values_of`` has the values of each property that the schema lists, in its order; a property
    that can have no value is not among them.
    """

    def __init__(self, schema: Schema, options: NotationOptions, syntax: ValueSyntax) -> None:
        if isinstance(schema, Mapping):
            schema = dict(schema)
        self.schema = schema
        self.compilation = compilation = Compilation(
            schema,
            assert_formats=options.assert_formats,
            strict=options.strict,
            registry=options.registry,
        )
        self.evaluator = evaluator = compilation.evaluator
        self.translator = compilation.translator(syntax, options.property_order)
        any_object = compilation.table.evaluated(ValueSet(objects=_ANY_OBJECT))
        self.given = given = compilation.table.all_of((compilation.term, any_object))
        with compilation.bounded(given):
            compilation.check(given, _NO_OBJECT)
            shapes = root_shapes(given, evaluator)
            self.values_of: dict[str, list[ValueSet]] = {}
            for name in root_names(shapes):
                terms = dict.fromkeys(shape.value_of(name, compilation.table) for shape in shapes)
                found = [evaluator.values(t) for t in terms if not evaluator.is_empty(t)]
                if found:
                    self.values_of[name] = found
        self._shapes = shapes

    def admits_only_strings(self, name: str, *, or_null: bool = False) -> bool:
        """Whether a listed property has strings alone for its values, or ``null`` beside them."""
        with self.compilation.bounded(self.given):
            return all(
                not values.booleans
                and values.numbers.is_empty
                and (or_null or not values.null)
                and not any(map(self.evaluator.shape_is_inhabited, values.arrays))
                and not any(map(self.evaluator.shape_is_inhabited, values.objects))
                for values in self.values_of[name]
            )

    def restricted(
        self, term_of: Callable[[str], Term], names: Node, others: Term, notation: str
    ) -> Term:
        """Return the objects that can be written: their terms are those given for their names.

        ``names`` is the language of all names. Raises :class:`UnsupportedSchemaError` for a listed
        property that cannot be written at all.
        """
        table = self.compilation.table
        listed = {name: term_of(name) for name in self.values_of}
        writable = objects_of(table, listed, names, others)
        term = table.all_of((self.given, writable))
        with self.compilation.bounded(term):
            for name, wanted in listed.items():
                self._check_property(name, wanted, names, notation)
            self.compilation.check(term, f"no arguments of the schema can be written as {notation}")
        return term

    def _check_property(self, name: str, writable: Term, names: Node, notation: str) -> None:
        pointer = property_pointer(self.schema, name)
        if not contains_word(names, name):
            raise UnsupportedSchemaError(
                f"{notation} cannot write a property called {name!r}",
                pointer=pointer,
                keyword="properties",
                hint="Give the property another name",
            )
        table = self.compilation.table
        terms = dict.fromkeys(shape.value_of(name, table) for shape in self._shapes)
        if all(self.evaluator.is_empty(table.all_of((term, writable))) for term in terms):
            raise UnsupportedSchemaError(
                f"{notation} cannot write any value of the property {name!r}",
                pointer=pointer,
                keyword="properties",
                hint="Change its schema, or use another notation",
            )

    def node(
        self, term: Term, members: MemberSyntax, value_node: Callable[[Term, str | None], Node]
    ) -> Node:
        """Return the objects of a restricted term, in a syntax of their own."""
        with self.compilation.bounded(term):
            shapes = root_shapes(term, self.evaluator)
            return union(self.translator.object(shape, members, value_node) for shape in shapes)
