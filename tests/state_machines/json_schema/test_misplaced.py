"""Hints at constraints that stand at the wrong place."""

from __future__ import annotations

from typing import Any

import pytest

from state_machines import JsonSchemaStateMachine
from state_machines.errors import UnsatisfiableSchemaError


@pytest.mark.parametrize(
    ("part", "hint"),
    [
        ({"type": "array", "enum": ["a", "b"]}, "Did you mean items.enum?"),
        (
            {"type": "array", "items": {"type": "string"}, "enum": ["a"]},
            "Did you mean items.enum?",
        ),
        ({"type": ["array"], "const": 3}, "Did you mean items.const?"),
        ({"type": "object", "enum": ["a"]}, "Did you mean additionalProperties.enum?"),
        (
            {"type": "array", "items": {"type": "integer"}, "enum": ["a"]},
            "No value of enum is of the type 'array'",
        ),
        ({"type": "integer", "enum": ["1", "2"]}, "No value of enum is of the type 'integer'"),
        ({"type": "integer", "enum": [True]}, "No value of enum is of the type 'integer'"),
        ({"type": "integer", "minimum": 3, "maximum": 1}, "Every value of the whole schema"),
        ({"type": "array", "enum": [["a"]], "maxItems": 0}, "Every value of the whole schema"),
    ],
)
def test_unsatisfiable_schema_names_the_likely_place(part: dict[str, Any], hint: str) -> None:
    schema = {"type": "object", "properties": {"p": part}, "required": ["p"]}
    with pytest.raises(UnsatisfiableSchemaError) as caught:
        JsonSchemaStateMachine(schema)
    assert caught.value.pointer == "/properties/p"
    assert caught.value.hint.startswith(hint) or caught.value.hint.endswith(hint)
