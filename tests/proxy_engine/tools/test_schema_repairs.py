"""Repairs of schemas of tools that have one reading."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from proxy_engine.tools.schema_repairs import repaired_schema
from state_machines import JsonSchemaStateMachine
from state_machines.errors import SchemaError

A = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "repaired", "place"),
    [
        ({"required": None}, {}, "/required"),
        ({"additionalProperties": None}, {}, "/additionalProperties"),
        ({"properties": []}, {"properties": {}}, "/properties"),
        ({"$defs": [], "items": A}, {"$defs": {}, "items": A}, "/$defs"),
        *(
            ({"properties": {"a/b": {**A, name: None}}}, {"properties": {"a/b": A}}, f"/properties/a~1b/{name}")
            for name in ("enum", "pattern", "format", "maxLength", "description", "anyOf")
        ),
        ({"items": {"type": None}}, {"items": {}}, "/items/type"),
        ({"anyOf": [A, {"minLength": None}]}, {"anyOf": [A, {}]}, "/anyOf/1/minLength"),
        ({"minimum": 3, "exclusiveMinimum": True}, {"exclusiveMinimum": 3}, "/exclusiveMinimum"),
        ({"maximum": 3, "exclusiveMaximum": False}, {"maximum": 3}, "/exclusiveMaximum"),
        (
            {"properties": {"a": {**A, "required": True}, "b": {**A, "required": False}}},
            {"properties": {"a": A, "b": A}, "required": ["a"]},
            "/properties/a/required",
        ),
    ],
)  # fmt: skip
def test_mistake_with_one_reading_is_repaired(
    schema: dict[str, Any], repaired: dict[str, Any], place: str
) -> None:
    given = copy.deepcopy(schema)
    found, places = repaired_schema(schema)
    assert found == repaired
    assert places[0] == place
    assert schema == given
    JsonSchemaStateMachine(found)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"const": None}, "b": {"enum": [None, 1]}, "c": {"default": None}}},
        # Names of properties, not keywords.
        {"properties": {"required": A, "enum": {"type": "array", "items": A}}},
        {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True},
        {"allOf": [{"if": {"type": "null"}, "then": False}], "examples": [None]},
    ],
)  # fmt: skip
def test_valid_schema_stays_as_it_is(schema: dict[str, Any]) -> None:
    assert repaired_schema(schema) == (schema, [])


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "anything"}}},
        {"properties": {"a": None}},
        {"exclusiveMinimum": True},
        {"required": "a"},
    ],
)
def test_mistake_with_several_readings_stays_an_error(schema: dict[str, Any]) -> None:
    found, places = repaired_schema(schema)
    assert (found, places) == (schema, [])
    with pytest.raises(SchemaError):
        JsonSchemaStateMachine(found)
