"""The state machine of a JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from referencing import Registry

from state_machines.errors import UnsupportedSchemaError, check_choice
from state_machines.grammar.node import Node
from state_machines.json_schema.grammar.compilation import Compilation, PropertyOrder
from state_machines.json_schema.grammar.translator import Translator
from state_machines.json_schema.grammar.value_syntax import JSON_SYNTAXES, Whitespace
from state_machines.json_schema.reader.dialects import AdditionalProperties, SchemaOptions
from state_machines.machine import StateMachine

__all__ = ["AdditionalProperties", "JsonSchemaStateMachine", "PropertyOrder"]


class JsonSchemaStateMachine(StateMachine):
    """Accepts the JSON texts whose values satisfy a JSON Schema.

    Strings are spelled as :mod:`state_machines.grammar.encoding` describes, numbers as
    :mod:`state_machines.json_schema.grammar.numbers.number_text` describes, names as ``json.dumps``
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
            :mod:`state_machines.json_schema.reader.formats`. Others are annotations.
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
