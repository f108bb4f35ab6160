"""The style ``json`` of a JSON schema: a JSON text, with the options of structural tags."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from state_machines.argument_notations.argument_compiler import values_of
from state_machines.argument_notations.raw_text import texts_without
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import concatenation, literal
from state_machines.json_schema.closed_schema import closed_schema
from state_machines.json_schema.compiler import Compilation, PropertyOrder
from state_machines.json_schema.value_syntax import (
    JSON_SYNTAXES,
    ValueSyntax,
    WhitespaceLayout,
    white_space,
)
from state_machines.machine import StateMachine


class BoundedWhitespace(WhitespaceLayout):
    """Up to a number of white space characters between any two tokens of JSON."""

    def __init__(self, max_chars: int) -> None:
        object.__setattr__(self, "_run", white_space(max_chars))
        super().__init__("json")
        run: Node = self._run  # type: ignore[attr-defined]
        object.__setattr__(self, "colon", concatenation(run, literal(b":"), run))
        object.__setattr__(self, "_spaced_comma", concatenation(run, literal(b","), run))

    def opening(self, depth: int) -> Node:
        """Return the white space after a bracket."""
        return self._run  # type: ignore[attr-defined,no-any-return]

    closing = opening


def json_syntax(max_whitespace: int | None) -> ValueSyntax:
    """Return the syntax of JSON with a bound on consecutive white space."""
    if max_whitespace is None:
        return JSON_SYNTAXES["json"]
    if max_whitespace == 0:
        return JSON_SYNTAXES["compact"]
    return ValueSyntax(BoundedWhitespace(max_whitespace), plain_integers=False)


class JsonValueStateMachine(StateMachine):
    """The JSON texts of a schema.

    Args:
        schema: The schema. Objects that list properties have no others, unless the schema says so.
        any_order: Whether properties may come in any order.
        max_whitespace: The greatest number of consecutive white space characters; ``None`` for
            an optional space after ``,`` and ``:``.
        excludes: Texts that no string and no name contains.

    Raises:
        SchemaError: As for :class:`~state_machines.json_schema.JsonSchemaStateMachine`.
    """

    def __init__(
        self,
        schema: Any,
        *,
        any_order: bool,
        max_whitespace: int | None,
        excludes: Iterable[str],
    ) -> None:
        order: PropertyOrder = "any" if any_order else "schema"
        compilation = Compilation(closed_schema(schema))
        translator = compilation.translator(json_syntax(max_whitespace), order)
        term = compilation.term
        if excludes:
            texts = texts_without(excludes)
            term = compilation.table.all_of((term, values_of(texts, texts)))
        with compilation.bounded(term):
            compilation.check(term, "no JSON value satisfies the schema")
            start = translator.value(term)
        super().__init__(start, translator.forget)
