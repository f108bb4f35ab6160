"""Arguments as a JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from state_machines.json_schema import JsonSchemaStateMachine
from state_machines.notations.notation import Arguments, Notation, Spell

__all__ = ["JSON", "JsonNotation", "read_json_object"]


@dataclass(frozen=True)
class JsonNotation(Notation):
    """JSON as :class:`~state_machines.json_schema.JsonSchemaStateMachine` writes it."""

    name: str = "json"

    def arguments(
        self,
        schema: Mapping[str, Any] | bool,
        *,
        avoid: Iterable[str] = (),
        spell: Spell = str.encode,
        **options: Any,
    ) -> Arguments:
        del spell
        if tuple(avoid):
            raise NotImplementedError
        of_objects = {"allOf": [schema], "type": "object"}
        node = JsonSchemaStateMachine(of_objects, **options).start
        return Arguments(node, read_json_object, schema if isinstance(schema, Mapping) else {})


def read_json_object(text: str) -> dict[str, Any]:
    """Return the object that a JSON text writes; raises ``ValueError`` for any other text."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"not an object: {text[:40]!r}")
    return value


JSON = JsonNotation()
