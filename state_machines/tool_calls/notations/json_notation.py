"""Arguments as a JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from state_machines.json_schema.value_syntax import JSON_SYNTAXES, Whitespace
from state_machines.tool_calls.notations.notation import (
    CompiledArguments,
    Notation,
    NotationOptions,
    Schema,
    unique_members,
)
from state_machines.tool_calls.notations.raw_text import without
from state_machines.tool_calls.notations.restrictions import everywhere
from state_machines.tool_calls.notations.writing import Writing

__all__ = ["JSON", "JsonNotation", "read_json", "read_json_object"]


@dataclass(frozen=True)
class JsonNotation(Notation):
    """JSON as :class:`~state_machines.json_schema.JsonSchemaStateMachine` writes it."""

    name: str = "json"
    whitespace: Whitespace = "spaced"
    has_json: ClassVar[bool] = True

    def _arguments(self, schema: Schema, options: NotationOptions) -> CompiledArguments:
        syntax = JSON_SYNTAXES[options.whitespace or self.whitespace]
        writing = Writing(schema, options, syntax)
        avoid = frozenset(options.avoid)
        term = writing.given
        if avoid:
            texts = without(avoid)
            inner = everywhere(texts, texts)
            term = writing.restricted(lambda _: inner, texts, inner, "JSON")
        with writing.compilation.bounded(term):
            node = writing.translator.value(term)
        return CompiledArguments(
            node, read_json_object, schema if isinstance(schema, Mapping) else {}
        )


def read_json(text: str) -> Any:
    """Return the value that a JSON text writes; raises ``ValueError`` for any other text."""
    try:
        return json.loads(text, object_pairs_hook=unique_members)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def read_json_object(text: str) -> dict[str, Any]:
    """Return the object that a JSON text writes; raises ``ValueError`` for any other text."""
    value = read_json(text)
    if not isinstance(value, dict):
        raise ValueError(f"not an object: {text[:40]!r}")
    return value


JSON = JsonNotation()
