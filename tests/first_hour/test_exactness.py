"""Schemas and tool calls of the first hour: unique items, long lists, texts beside numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy_engine import InferenceEngine
from state_machines import JsonSchemaStateMachine
from state_machines.budgets import step_budget
from state_machines.tool_calls import format_named


@pytest.mark.parametrize(
    "item",
    [
        {
            "type": "object",
            "properties": {"wifi": {"type": "boolean"}, "sound": {"type": "boolean"}},
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
        },
        {"type": "array", "items": {"enum": [1, 2]}, "contains": {"const": 1}, "maxItems": 3},
    ],
)
def test_lists_of_different_items_are_generated(
    embedded_engine: InferenceEngine, item: Any
) -> None:
    """They were refused: "there may be fewer than 2 different items"."""
    schema = {"type": "array", "uniqueItems": True, "minItems": 2, "maxItems": 3, "items": item}
    result = embedded_engine.generate("Three settings:", response_format=schema, max_tokens=60)
    items = [json.dumps(each, sort_keys=True) for each in result.parsed]
    assert len(set(items)) == len(items) >= 2


def test_long_list_of_features_is_checked_at_once() -> None:
    """A configuration file that lists 250 of 250 features took seconds."""
    areas = ("css", "dom", "svg", "es6", "net")
    features = [f"{area}/feature-{n}" for n in range(50) for area in areas]
    schema = {"type": "array", "uniqueItems": True, "items": {"enum": features}}
    machine = JsonSchemaStateMachine(schema)
    with step_budget(60_000):
        assert machine.matches(json.dumps(features))


def test_mlx_lm_reads_a_text_or_number_as_it_was_meant() -> None:
    """Texts came back with their quotes."""
    parser = pytest.importorskip("mlx_lm.tool_parsers.minicpm5")
    parameters = {"type": "object", "properties": {"id": {"type": ["string", "integer"]}}}
    notation = format_named("minicpm5").notation
    arguments = notation.compile(parameters)
    tools = [{"type": "function", "function": {"name": "find", "parameters": parameters}}]
    for value in ("Oslo", 7):
        text = notation.write({"id": value})
        assert arguments.node.matches(text.encode())
        call = parser.parse_tool_call(f'<function name="find">{text}</function>', tools)
        assert call["arguments"] == {"id": value} == arguments.read(text)
