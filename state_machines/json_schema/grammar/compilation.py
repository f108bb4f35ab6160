"""From a schema to a checked term: the entry to all floors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

from state_machines.budgets import step_budget
from state_machines.errors import InvalidArgumentError, UnsatisfiableSchemaError, check_choice
from state_machines.grammar.decoding import ascii_text
from state_machines.grammar.node import Node
from state_machines.json_schema.algebra.array_shape import ArrayShape
from state_machines.json_schema.algebra.object_shape import ObjectShape
from state_machines.json_schema.algebra.terms import Term
from state_machines.json_schema.algebra.value_sets import constants, is_json_value
from state_machines.json_schema.emptiness.checks import (
    check_reachable,
    has_idle_nullable,
    misplaced_hint,
    smallest_empty_schema,
)
from state_machines.json_schema.emptiness.evaluation import is_empty
from state_machines.json_schema.grammar.array_grammar import ArrayPlan
from state_machines.json_schema.grammar.object_grammar import ObjectPlan
from state_machines.json_schema.grammar.translator import Translator
from state_machines.json_schema.grammar.value_syntax import JSON_SYNTAXES, ValueSyntax
from state_machines.json_schema.reader.context import Context, schema_term
from state_machines.json_schema.reader.dialects import SchemaOptions
from state_machines.json_schema.reader.document import SchemaDocument
from state_machines.json_schema.reader.keywords import (
    KEYWORD_NAMES_BY_VOCABULARY,
    located_errors,
    scalar_values,
)
from state_machines.limits import LIMITS
from state_machines.quotes import QuoteSources

PropertyOrder = Literal["schema", "any"]


class Compilation:
    """One schema as a term.

    Attributes:
        schema: The schema, copied.
        context: The options, and what is known of the terms.
        root: The location of the whole schema.
        term: The term of the whole schema.

    Raises:
        SchemaError: The schema is not JSON, or its root is malformed.
    """

    def __init__(self, schema: Any, options: SchemaOptions | None = None) -> None:
        options = options or SchemaOptions()
        sources = QuoteSources(options.sources)
        budget = step_budget(LIMITS.compile_steps)
        with located_errors(None), budget:
            document = SchemaDocument(schema, options.registry, KEYWORD_NAMES_BY_VOCABULARY)
            self.schema = document.contents
            self.root = document.root
            plain_integers = self.root.dialect.plain_integers
            self.context = Context(options, sources, scalar_values, _json_texts, plain_integers)
            self.term = schema_term(self.context, self.root)
            if options.excluding:
                if not all(map(is_json_value, options.excluding)):
                    raise InvalidArgumentError(
                        "excluding has a value that is not JSON",
                        argument="excluding",
                        hint="Numbers are finite, and names of properties are strings.",
                    )
                terms = self.context.terms
                values = terms.evaluated(constants(options.excluding, terms))
                self.term = terms.all_of((self.term, terms.negation(values)))
        self._steps_taken = budget.steps_taken

    def translator(
        self, syntax: ValueSyntax, property_order: PropertyOrder = "schema"
    ) -> Translator:
        """Return a translator of this schema's terms into ``syntax``.

        Raises:
            InvalidArgumentError: ``property_order`` is unknown.
        """
        check_choice("property_order", property_order, get_args(PropertyOrder))
        return Translator(self.context, syntax, unfold, any_order=property_order == "any")

    @contextmanager
    def bounded(self, term: Term) -> Iterator[None]:
        """Apply the step budget of a compilation, and locate errors at the schemas of ``term``.

        The budget is what the reading of the schema has left.
        """
        budget = step_budget(LIMITS.compile_steps, taken=self._steps_taken)
        # The outer block locates a RecursionError that the inner one raises in turn.
        with located_errors(None), budget, located_errors(term):
            yield

    def check(self, term: Term, unsatisfiable: str) -> None:
        """Check everything that is reachable from ``term``.

        Args:
            term: The term to check.
            unsatisfiable: The message of the error that is raised if the term is empty.

        Raises:
            SchemaError: Something reachable is malformed or unsupported, or the term is empty.
        """
        translator = Translator(self.context, JSON_SYNTAXES["compact"], unfold, any_order=False)
        check_reachable(self.context, term, translator.check_distinct)
        if not is_empty(self.context, term):
            return
        pointer = hint = ""
        # The term may be narrower than the schema.
        if is_empty(self.context, self.term):
            location = smallest_empty_schema(self.context, self.root)
            pointer, hint = location.pointer, misplaced_hint(location.schema)
        if has_idle_nullable(self.root):
            hint = (
                "OpenAPI 3.0 defines nullable beside type alone; elsewhere write "
                '"anyOf": [..., {"type": "null"}]'
            )
        if pointer and not hint:
            hint = "Every value of the whole schema needs a value of this part"
        raise UnsatisfiableSchemaError(unsatisfiable, pointer=pointer, hint=hint)


def unfold(translator: Translator, shape: ArrayShape | ObjectShape, depth: int) -> Node:
    """Return the node of the arrays or objects of a shape, at a nesting level."""
    if isinstance(shape, ArrayShape):
        return ArrayPlan(shape, translator, depth).node()
    members = translator.syntax.members

    def value(term: Term, _: str | None) -> Node:
        return translator.value(term, depth + 1)

    return ObjectPlan(shape, translator, members, depth, value).node()


def _json_texts(context: Context, term: Term) -> Node:
    """Return the JSON texts of a term's values, for strings that contain JSON."""
    translator = Translator(context, JSON_SYNTAXES["spaced"], unfold, any_order=False)
    return ascii_text(translator.value(term))
