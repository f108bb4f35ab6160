"""Compile a JSON Schema to the language of its objects in a notation.

A notation cannot write every value: a string that contains a marker, a name with a bracket. Such
restrictions are terms like those of schemas and are intersected with the schema's term. So they
are resolved before there is a grammar, and a property without a writable value is no dead end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any, Self

from state_machines.argument_notations.notation import (
    INPUT,
    CompiledArguments,
    NotationOptions,
    Schema,
)
from state_machines.argument_notations.property_names import PropertyNames, property_pointer
from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.boolean import complement
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import concatenation, literal, union
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.grammar.text_languages import contains_word, word_language
from state_machines.grammar.tokens import Spell
from state_machines.json_schema.algebra.array_shape import ArrayShape
from state_machines.json_schema.algebra.names import listed_names
from state_machines.json_schema.algebra.object_shape import NameRule, ObjectShape
from state_machines.json_schema.algebra.terms import FALSE, Evaluated, Term
from state_machines.json_schema.algebra.value_sets import (
    ANY_TEXT,
    ANY_VALUE,
    ValueSet,
    constant,
    disjoin,
)
from state_machines.json_schema.emptiness.evaluation import generated, is_empty, shape_is_inhabited
from state_machines.json_schema.emptiness.unique_items import Cardinality
from state_machines.json_schema.grammar.object_grammar import ObjectPlan
from state_machines.json_schema.grammar.value_syntax import MemberSyntax, ValueSyntax
from state_machines.json_schema.machine import Compilation
from state_machines.json_schema.reader.assertions import VALUES_BY_TYPE
from state_machines.reader_languages.numbers.doubles import EXACT_LIMIT
from state_machines.reader_languages.numbers.intervals import Interval
from state_machines.reader_languages.numbers.number_sets import NumberSet

NO_ALIASES = PropertyNames()

EXACT_NUMBERS = NumberSet.of((Interval(Fraction(1 - EXACT_LIMIT), Fraction(EXACT_LIMIT - 1)),))
"""The numbers among which every integer is exact as a double."""


class ArgumentCompiler:
    """Compiles the objects that one schema admits.

    Attributes:
        term: The objects of the schema, as a term.
        property_values: The values of each property that the schema lists, in its order. A property
            that cannot have a value is left out.
        parser_schema: The schema, for parsers that get the type of each property from it.
        compilation: The compilation of the schema, with its tables and budgets.
        context: The context of the compilation.
        terms: Builds the terms of the compilation.
        translator: Translates terms to nodes.
        names: The properties that are written under other names.
        left_out: Why optional properties are left out, an error for each.

    Raises:
        SchemaError: As for :class:`~state_machines.json_schema.JsonSchemaStateMachine`.
    """

    def __init__(
        self,
        schema: Schema,
        options: NotationOptions,
        syntax: ValueSyntax,
        names: PropertyNames = NO_ALIASES,
    ) -> None:
        if isinstance(schema, Mapping):
            schema = dict(schema)
        self.names = names
        self.left_out: list[UnsupportedSchemaError] = []
        self._schema = schema
        self.compilation = compilation = Compilation(schema, options)
        written = names.write_schema(schema)
        self.parser_schema: Mapping[str, Any] = written if isinstance(written, Mapping) else {}
        self.context = context = compilation.context
        self.terms = context.terms
        self.translator = compilation.translator(syntax, options.property_order)
        texts = {}
        if options.input is not None:
            texts[INPUT] = self.terms.evaluated(ValueSet(strings=options.input))
        self.term = self._objects_in(compilation.term, ObjectShape(properties=texts))
        with compilation.bounded(self.term):
            compilation.check(self.term, "no JSON object satisfies the schema")
            self._shapes = self._inhabited_shapes(self.term)
            listed = dict.fromkeys(name for shape in self._shapes for name in listed_names(shape))
            self.property_values: dict[str, list[ValueSet]] = {}
            for name in listed:
                terms = self._property_terms(name)
                found = [generated(context, t) for t in terms if not is_empty(context, t)]
                if found:
                    self.property_values[name] = found

    def _objects_in(self, term: Term, shape: ObjectShape) -> Term:
        """Return the values of a term that are objects of a shape."""
        return self.terms.all_of((term, self.terms.evaluated(ValueSet(objects=(shape,)))))

    def _inhabited_shapes(self, term: Term) -> list[ObjectShape]:
        shapes = generated(self.context, term).objects
        return [shape for shape in shapes if shape_is_inhabited(self.context, shape)]

    def _property_terms(self, name: str) -> list[Term]:
        return list(dict.fromkeys(shape.value_of(name, self.terms) for shape in self._shapes))

    def admits_only_strings(self, name: str, *, or_null: bool = False) -> bool:
        """Return whether all values of a listed property are strings, or ``null`` if allowed."""
        with self.compilation.bounded(self.term):
            return all(
                not values.booleans
                and values.numbers.is_empty
                and (or_null or not values.null)
                and not any(shape_is_inhabited(self.context, each) for each in values.arrays)
                and not any(shape_is_inhabited(self.context, each) for each in values.objects)
                for values in self.property_values[name]
            )

    def restrict(
        self, term_of: Callable[[str], Term], names: Node, others: Term, notation: str
    ) -> Term:
        """Return the objects of the schema that the notation can write.

        Args:
            term_of: Returns the writable values of a listed property.
            names: The language of the writable names.
            others: The writable values of properties that the schema does not list.
            notation: What errors call the notation.

        Raises:
            UnsupportedSchemaError: A required property cannot be written at all.
        """
        names = self._with_aliased(names)
        listed = {
            name: term_of(name) if contains_word(names, name) else FALSE
            for name in self.property_values
        }
        shape = ObjectShape(properties=listed, name_rules=_name_rules(names, others))
        term = self._objects_in(self.term, shape)
        with self.compilation.bounded(term):
            for name, writable in listed.items():
                terms = self._property_terms(name)
                if all(self._is_empty(each, writable) for each in terms):
                    self.left_out.append(self._refusal(name, writable, notation))
            if self.left_out and is_empty(self.context, term):
                raise self._required_refusal(listed)
            self.compilation.check(term, f"no arguments of the schema can be written as {notation}")
        return term

    def _with_aliased(self, names: Node) -> Node:
        """Return the names that can be written, some of them as aliases."""
        return union((names, word_language(self.names.aliases))) if self.names else names

    def _is_empty(self, *terms: Term) -> bool:
        return is_empty(self.context, self.terms.all_of(terms))

    def _refusal(self, name: str, writable: Term, notation: str) -> UnsupportedSchemaError:
        """Return the error of a property without a name or a value that can be written."""
        what, hint = f"called {name!r}", "Give the property another name"
        if writable is not FALSE:
            hint = "Change its schema, or use another notation"
        return UnsupportedSchemaError(
            f"{notation} cannot write a property {what}"
            if writable is FALSE
            else f"{notation} cannot write any value of the property {name!r}",
            pointer=property_pointer(self._schema, name),
            keyword="properties",
            hint=hint,
        )

    def _required_refusal(self, listed: Mapping[str, Term]) -> UnsupportedSchemaError:
        """Return the error of a property without which there are no arguments."""
        for error, (name, term) in product(self.left_out, listed.items()):
            if error.pointer == property_pointer(self._schema, name):
                without = ObjectShape(properties={name: term})
                if is_empty(self.context, self._objects_in(self.term, without)):
                    return error
        return self.left_out[0]

    def compiled_values(
        self,
        values: Term | None,
        names: Node,
        notation: str,
        read: Callable[[str], dict[str, Any]],
        members: MemberSyntax | None = None,
        also: Sequence[ValueSyntax] = (),
    ) -> CompiledArguments:
        """Return the arguments of the schema in the syntax of values.

        Args:
            values: The writable values of all properties; ``None`` for all values.
            names: The language of the writable names.
            notation: Its name in errors.
            read: Returns the arguments of a text.
            members: How the members of the arguments are written, if otherwise than in values.
            also: Other syntaxes, each of which the arguments may be written in as a whole.
        """
        term = self.term
        if values is not None:
            term = self.restrict(lambda _: values, names, values, notation)

        def node(compiler: Self, some: Term) -> Node:
            if members is None:
                others = map(compiler.translator.in_syntax, also)
                return union(each.value(some) for each in (compiler.translator, *others))
            value = compiler.translator.value
            return compiler.object_node(some, members, lambda each, _: value(each, 1))

        return self.compiled(term, read, node)

    def compiled(
        self,
        term: Term,
        read: Callable[[str], dict[str, Any]],
        node: Callable[[Self, Term], Node] = lambda compiler, some: compiler.translator.value(some),
        parser_schema: Mapping[str, Any] | None = None,
    ) -> CompiledArguments:
        """Return the arguments of a restricted term.

        Args:
            term: The arguments that can be written.
            read: Returns the arguments of a text.
            node: Returns the language of a term's objects, by default in the syntax of values.
            parser_schema: As for :class:`CompiledArguments`; by default the schema.
        """

        def language(compiler: Self, some: Term) -> Node:
            with compiler.compilation.bounded(some):
                return node(compiler, some)

        return CompiledArguments(
            language(self, term),
            read,
            self.parser_schema if parser_schema is None else parser_schema,
            lambda arguments: language(*self.for_value(arguments)),
            partial(self.count, term),
            tuple(self.left_out),
        )

    def count(self, term: Term, limit: int) -> int:
        """Return a lower bound on the number of values of a term, up to a limit."""
        with self.compilation.bounded(term):
            return Cardinality(self.context).count(term, limit)

    def for_value(self, arguments: Mapping[str, Any]) -> tuple[Self, Term]:
        """Return a compiler that writes one object in every spelling and order, and its term.

        Its terms are new, because the number of objects that may be written is unbounded.
        """
        twin = copy(self)
        twin.translator = self.translator.of_constants()
        twin.context = twin.translator.context
        twin.terms = twin.context.terms
        return twin, twin.terms.evaluated(constant(arguments, twin.terms))

    def object_node(
        self, term: Term, members: MemberSyntax, value_node: Callable[[Term, str | None], Node]
    ) -> Node:
        """Return the language of a restricted term's objects.

        Args:
            term: The objects.
            members: How the members of the object are written.
            value_node: Returns the language of a property's values. The name is ``None`` for
                properties that the schema does not list.
        """
        with self.compilation.bounded(term):
            shapes = self._inhabited_shapes(term)
            return union(
                ObjectPlan(shape, self.translator, members, 0, value_node).node()
                for shape in shapes
            )

    def values_by_kind(
        self,
        term: Term,
        kinds: Mapping[str, str],
        spell: Spell,
        others: Callable[[Term], Node],
    ) -> Node:
        """Return the language of values after texts that say their types. Strings are raw.

        Args:
            term: The values.
            kinds: The text before a value by its JSON type.
            spell: Returns the bytes of such a text.
            others: Returns the language of values other than strings.
        """
        nodes = []
        for text in dict.fromkeys(kinds.values()):
            types = [each for each, before in kinds.items() if before == text]
            of_types = self.terms.evaluated(disjoin(VALUES_BY_TYPE[each] for each in types))
            some = self.terms.all_of((term, of_types))
            if types == ["string"]:
                node = encoded(generated(self.context, some).strings, RAW)
            else:
                node = others(some)
            if node is not EMPTY:
                nodes.append(concatenation(literal(spell(text)), node))
        return union(nodes)


def values_of(strings: Node, names: Node, numbers: NumberSet = ANY_VALUE.numbers) -> Term:
    """Return all values that contain strings, names and numbers of the given languages only."""
    term = Evaluated(ANY_VALUE)
    shape = ObjectShape(name_rules=_name_rules(names, term))
    arrays = (ArrayShape(rest=term),)
    values = replace(ANY_VALUE, strings=strings, numbers=numbers, arrays=arrays, objects=(shape,))
    # The term is recursive: it is the term of the items and members of its containers.
    object.__setattr__(term, "values", values)
    return term


def _name_rules(names: Node, term: Term) -> tuple[NameRule, ...]:
    if names is ANY_TEXT:
        return (NameRule(names, term),)
    return NameRule(names, term), NameRule(complement(names, ANY_CODE_POINT), FALSE)
