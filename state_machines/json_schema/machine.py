"""From a schema to a state machine: the entry to all floors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, get_args

from referencing import Registry

from state_machines.budgets import step_budget
from state_machines.errors import (
    InvalidArgumentError,
    UnsatisfiableSchemaError,
    UnsupportedSchemaError,
    check_choice,
)
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
from state_machines.json_schema.grammar.value_syntax import JSON_SYNTAXES, ValueSyntax, Whitespace
from state_machines.json_schema.reader.context import Context, schema_term
from state_machines.json_schema.reader.dialects import AdditionalProperties, SchemaOptions
from state_machines.json_schema.reader.document import SchemaDocument
from state_machines.json_schema.reader.keywords import (
    KEYWORD_NAMES_BY_VOCABULARY,
    located_errors,
    scalar_values,
)
from state_machines.limits import LIMITS
from state_machines.machine import StateMachine
from state_machines.quotes import QuoteSources

__all__ = ["AdditionalProperties", "Compilation", "JsonSchemaStateMachine", "PropertyOrder"]

PropertyOrder = Literal["schema", "any"]


class Compilation:
    """One schema as a term.

    Attributes:
        schema: The schema, copied.
        context: The options, and the results about the terms.
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

        The budget has the steps that the reading of the schema has left.
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


class JsonSchemaStateMachine(StateMachine):
    """Accepts the JSON texts whose values satisfy a JSON Schema.

    Strings are spelled as :mod:`state_machines.grammar.encoding` describes, numbers as
    :mod:`state_machines.reader_languages.numbers.number_text` describes, names as ``json.dumps``
    writes them.

    Args:
        schema: A parsed JSON Schema (a ``dict`` or a Boolean) of draft 4, 6, 7, 2019-09 or 2020-12.
            ``$schema`` selects the draft; the default is 2020-12. The schema is copied.
        property_order: ``"schema"`` generates listed properties in the order of the schema, then
            required properties that are not listed, then others. ``"any"`` accepts every order. No
            name is ever generated twice.
        whitespace: ``"json"`` accepts an optional space after ``,`` and ``:``, and ``"spaced"``
            requires it. ``"compact"`` accepts no whitespace, and ``"indented"`` the output of
            ``json.dumps(indent=2)``. Only ``"json"`` accepts integers as ``1.0``.
        assert_formats: Whether ``format`` constrains strings, for the formats of
            :mod:`state_machines.reader_languages.formats`. Others are annotations.
        strict: Whether to refuse keywords that the draft does not define. The default is to ignore
            them, as the specification says.
        registry: The documents that references may lead to. Nothing is fetched.
        sources: The texts that strings with ``x-substring-of`` are quoted from, by name.
        additional_properties: ``"schema"`` accepts the properties that the schema permits, as the
            specification says. ``"closed"`` is for generation: an object whose schema lists
            properties and says nothing about others has no others.
        excluding: JSON values that are not accepted although they satisfy the schema.

    Raises:
        InvalidSchemaError: The schema violates its specification.
        UnsupportedSchemaError: A keyword cannot be enforced.
        UnsatisfiableSchemaError: No value satisfies the schema.
        MissingSourceError: ``x-substring-of`` names a source that is not in ``sources``.
        InvalidArgumentError: ``whitespace`` or ``property_order`` is unknown, a source is no text
            that can be quoted from, or a value of ``excluding`` is not JSON.

    A schema error has the keyword and its JSON Pointer.
    """

    has_values = True

    def __init__(
        self,
        schema: Any,
        *,
        property_order: PropertyOrder = "schema",
        whitespace: Whitespace = "json",
        assert_formats: bool = True,
        strict: bool = False,
        registry: Registry[Any] | None = None,
        sources: Mapping[str, str] | None = None,
        additional_properties: AdditionalProperties = "schema",
        excluding: Iterable[Any] = (),
    ) -> None:
        check_choice("whitespace", whitespace, JSON_SYNTAXES)

        options = SchemaOptions(
            assert_formats=assert_formats,
            strict=strict,
            registry=registry,
            sources=sources,
            additional_properties=additional_properties,
            excluding=list(excluding),
        )

        def compiled(options: SchemaOptions) -> tuple[Compilation, Translator, Node]:
            compilation = Compilation(schema, options)
            translator = compilation.translator(JSON_SYNTAXES[whitespace], property_order)
            term = compilation.term
            with compilation.bounded(term):
                compilation.check(term, "no JSON value satisfies the schema")
                return compilation, translator, translator.value(term)

        try:
            compilation, translator, start = compiled(options)
        except UnsupportedSchemaError as error:
            if additional_properties == "schema" or error.keyword != "uniqueItems":
                raise
            # Closed objects can be too few for an array of different items.
            compilation, translator, start = compiled(
                replace(options, additional_properties="schema")
            )
        super().__init__(start, translator.forget)
        self._schema = compilation.schema
        self._registry = registry
        self._sources = compilation.context.sources.used

    @property
    def schema(self) -> Any:
        """A copy of the schema, as parsed JSON."""
        return json.loads(json.dumps(self._schema))

    @property
    def registry(self) -> Registry[Any] | None:
        """The registry that was passed."""
        return self._registry

    @property
    def sources(self) -> dict[str, str]:
        """The sources that the schema quotes from, by name."""
        return dict(self._sources)
