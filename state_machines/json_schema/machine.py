"""The state machine of a JSON Schema."""

from __future__ import annotations

import json
from typing import Any

from referencing import Registry

from state_machines.errors import InvalidArgumentError
from state_machines.json_schema.compiler import Compilation, PropertyOrder
from state_machines.json_schema.value_syntax import JSON_SYNTAXES, Whitespace
from state_machines.machine import StateMachine

__all__ = ["JsonSchemaStateMachine", "PropertyOrder"]


class JsonSchemaStateMachine(StateMachine):
    """Admits the JSON texts whose value a schema admits.

    ``schema`` is a parsed JSON Schema (a ``dict`` or a Boolean) of draft 4, 6, 7, 2019-09 or
    2020-12; ``$schema`` says which, 2020-12 is the default. It is copied.

    * ``property_order``: ``"schema"`` writes listed properties in the schema's order, then others
      (required ones that ``properties`` does not list come after those it lists); ``"any"``
      admits every order. No name is ever written twice.
    * ``whitespace``: ``"json"`` admits the space that ``json.dumps`` writes after ``,`` and ``:``
      and admits leaving it out, ``"spaced"`` wants it, ``"compact"`` admits none, ``"indented"``
      is ``json.dumps(indent=2)``.
    * ``assert_formats``: whether ``format`` is asserted, for the formats of
      :data:`~state_machines.json_schema.formats.FORMATS`; others are annotations always.
    * ``strict`` refuses keywords that the draft does not know instead of ignoring them.
    * ``registry`` holds documents that references lead to; nothing is fetched.

    Numbers are spelled as :mod:`state_machines.json_schema.numbers.number_text` says, strings as
    :mod:`state_machines.grammar.encoding` says; names are written as ``json.dumps`` does.

    Raises :class:`~state_machines.errors.InvalidSchemaError`,
    :class:`~state_machines.errors.UnsupportedSchemaError` for what would not be enforced, and
    :class:`~state_machines.errors.UnsatisfiableSchemaError` when no value is admitted; each
    carries the keyword and its JSON Pointer.
    """

    def __init__(
        self,
        schema: Any,
        *,
        property_order: PropertyOrder = "schema",
        whitespace: Whitespace = "json",
        assert_formats: bool = True,
        strict: bool = False,
        registry: Registry[Any] | None = None,
    ) -> None:
        if not isinstance(whitespace, str) or whitespace not in JSON_SYNTAXES:
            raise InvalidArgumentError(
                f"whitespace is one of {sorted(JSON_SYNTAXES)}, not {whitespace!r}",
                argument="whitespace",
            )
        compilation = Compilation(
            schema, strict=strict, assert_formats=assert_formats, registry=registry
        )
        translator = compilation.translator(JSON_SYNTAXES[whitespace], property_order)
        term = compilation.term
        with compilation.bounded(term):
            compilation.check(term, "no JSON value satisfies the schema")
            start = translator.value(term)
        super().__init__(start, translator.forget)
        self._schema = compilation.root.schema
        self._registry = registry

    @property
    def schema(self) -> Any:
        """A copy of the schema, as parsed JSON."""
        return json.loads(json.dumps(self._schema))

    @property
    def registry(self) -> Registry[Any] | None:
        """The documents that references may lead to."""
        return self._registry
