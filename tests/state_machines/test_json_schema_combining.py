"""Alternatives, conjunctions, negations and conditions; annotations and Boolean schemas."""

from __future__ import annotations

from typing import Any

import pytest
from schema_checks import assert_texts

from state_machines import JsonSchemaStateMachine, UnsatisfiableSchemaError, UnsupportedSchemaError


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"not": {}},
        {"not": True},
        {"enum": []},
        {"anyOf": [False, False]},
        {"allOf": [{"type": "string"}, {"type": "null"}]},
        {"type": "null", "not": {"type": "null"}},
        {"oneOf": [{"type": "null"}, {"const": None}]},
        {"oneOf": [True, True]},
        {"if": True, "then": False},
        {"if": False, "else": False},
        {"const": 1, "enum": [2, "1"]},
        {"allOf": [{"anyOf": [{"const": 1}, {"const": 2}]}, {"not": {"enum": [1, 2]}}]},
    ],
)
def test_contradictions_are_unsatisfiable(schema: Any) -> None:
    with pytest.raises(UnsatisfiableSchemaError) as caught:
        JsonSchemaStateMachine(schema)
    assert caught.value.pointer == ""


def test_common_prefix_of_alternatives_leads_to_no_dead_end() -> None:
    schema = {
        "anyOf": [
            {"properties": {"a": {"const": "xy"}, "b": {"const": 1}}, "required": ["a", "b"]},
            {"properties": {"a": {"const": "xz"}, "b": {"const": 2}}, "required": ["a", "b"]},
        ],
        "type": "object",
    }
    start = JsonSchemaStateMachine(schema).start
    assert start.compute_word_derivative(b'{"a": "xy", "b": ').first_bytes == 1 << ord("1")
    assert start.compute_word_derivative(b'{"a": "xz", "b": ').first_bytes == 1 << ord("2")


def test_forbidden_member_is_rejected_before_it_is_complete() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"enum": [1, 2]}, "b": {"enum": [1, 2]}},
        "required": ["a", "b"],
        "additionalProperties": False,
        "not": {"properties": {"a": {"const": 1}, "b": {"const": 1}}},
    }
    assert_texts(
        schema,
        ['{"a": 1, "b": 2}', '{"a": 2, "b": 1}', '{"a": 2, "b": 2}'],
        ['{"a": 1, "b": 1}', '{"a": 1}'],
    )
    start = JsonSchemaStateMachine(schema).start
    assert start.compute_word_derivative(b'{"a": 1, "b": ').first_bytes == 1 << ord("2")


def test_strict_refuses_unknown_keywords() -> None:
    schema = {"properties": {"a/b": {"items": {"minimun": 3}}}}
    assert_texts(schema, ['{"a/b": [1]}'], [])
    with pytest.raises(UnsupportedSchemaError, match="minimun") as caught:
        JsonSchemaStateMachine(schema, strict=True)
    assert caught.value.keyword == "minimun"
    assert caught.value.pointer == "/properties/a~1b/items/minimun"


def test_strict_accepts_annotations_and_depends_on_the_draft() -> None:
    JsonSchemaStateMachine({"title": "x", "default": 1, "type": "null"}, strict=True)
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "prefixItems": [{}]}
    with pytest.raises(UnsupportedSchemaError, match="prefixItems"):
        JsonSchemaStateMachine(old, strict=True)
