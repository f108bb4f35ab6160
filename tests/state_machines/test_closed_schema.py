from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from schema_strategies import NAMES, examples, schemas, values_near

from state_machines import JsonSchemaStateMachine, SchemaError
from state_machines.json_schema.closed_schema import closed_schema

A = {"properties": {"a": {"type": "integer"}}}
Y = {"properties": {"y": {}}, "required": ["y"]}


@st.composite
def composed(draw: st.DrawFn) -> dict[str, Any]:
    """Objects that several schemas describe."""
    one, other, third = (draw(listing()) for _ in range(3))
    kinds: list[dict[str, Any]] = [
        {"allOf": [one, other]},
        {"anyOf": [one, other]},
        {"oneOf": [one, other]},
        {"$ref": "#/$defs/A", "$defs": {"A": one}},
        {"properties": {"a": {"$ref": "#/$defs/A"}, "b": other}, "$defs": {"A": one}},
        {"allOf": [{"$ref": "#/$defs/A"}, {"not": {"$ref": "#/$defs/A"}}], "$defs": {"A": one}},
        {"if": one, "then": other, "else": third},
        {"allOf": [{"properties": {"a": one}}, {"properties": {"a": other}, "required": ["a"]}]},
    ]
    schema = draw(st.sampled_from(kinds))
    if draw(st.booleans()):
        schema["properties"] = {**schema.get("properties", {}), "ab": third}
    return schema


@st.composite
def listing(draw: st.DrawFn) -> dict[str, Any]:
    """Schemas that list properties."""
    names = st.lists(st.sampled_from(NAMES[:4]), max_size=2, unique=True)
    values = st.sampled_from([{}, {"type": "integer"}, {"properties": {"a": {}}}, Y])
    schema: dict[str, Any] = {"properties": {name: draw(values) for name in draw(names)}}
    if draw(st.booleans()):
        schema["required"] = draw(names)
    return schema


class Place(BaseModel):
    name: str
    near: list[Place] = []


class Trip(BaseModel):
    start: Place
    by_day: dict[str, Place | None]
    additional: Any = None


def test_objects_of_python_types_have_their_properties_alone() -> None:
    given = Trip.model_json_schema()
    before = Trip.model_json_schema()
    closed = closed_schema(given)
    assert given == before
    assert closed["additionalProperties"] is False
    assert closed["$defs"]["Place"]["additionalProperties"] is False
    by_day = closed["properties"]["by_day"]
    assert by_day == given["properties"]["by_day"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
        {**A, "required": ["b"]},
        {"type": "object"},
        {**A, "patternProperties": {"^x": {}}},
        {**A, "minProperties": 2},
        {**A, "dependentRequired": {"a": ["b"]}},
        {**A, "enum": [{"b": 1}]},
        {"not": A},
        {"if": {"properties": {"a": A}}},
        {"type": "array", "contains": A},
        {"oneOf": [A, Y]},
        {"allOf": [{"properties": {"a": A}}, {"properties": {"a": Y}}], "required": ["b"]},
        {"$ref": "#/$defs/x", "minProperties": 3, "$defs": {"x": A}},
        {"not": {"$ref": "#/$defs/x"}, "$defs": {"x": A}},
    ],
)
def test_objects_that_may_have_other_properties_stay_as_they_are(schema: dict[str, Any]) -> None:
    assert closed_schema(schema) == schema


BASE = {"properties": {"b": {"type": "integer"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [BASE]},
        {"anyOf": [BASE]},
        {"$ref": "#/$defs/Base", "$defs": {"Base": BASE}},
        {
            "allOf": [{"$ref": "#/$defs/Sub"}],
            "$defs": {"Base": BASE, "Sub": {"$ref": "#/$defs/Base"}},
        },
    ],
)
def test_objects_that_several_schemas_describe_have_all_their_properties(
    schema: dict[str, Any],
) -> None:
    given = {**schema, "type": "object", "properties": {"a": {"type": "integer"}}}
    machine = JsonSchemaStateMachine(closed_schema(given), property_order="any")
    assert machine.matches('{"a": 1, "b": 2}')
    assert not machine.matches('{"a": 1, "b": 2, "c": 3}')


def test_closing_removes_values_but_never_all() -> None:
    counts: Counter[str] = Counter()

    @examples(100)
    @given(composed() | schemas(), st.data())
    def check(schema: Any, data: st.DataObject) -> None:
        try:
            given_machine = JsonSchemaStateMachine(schema)
        except SchemaError:
            return
        closed = closed_schema(schema)
        machine = JsonSchemaStateMachine(closed)
        counts["closed"] += closed != schema
        for _ in range(3):
            text = json.dumps(data.draw(values_near(schema)), ensure_ascii=False)
            accepted = given_machine.matches(text)
            assert accepted or not machine.matches(text)
            counts["removed"] += accepted and not machine.matches(text)

    check()
    assert counts["closed"] > 0
    assert counts["removed"] > 0


def test_machine_is_closed_where_it_generates() -> None:
    schema = {"properties": {"a": A}, "required": ["a"]}
    text = '{"a": {"a": 1, "b": 2}}'
    assert JsonSchemaStateMachine(schema).matches(text)
    closed = JsonSchemaStateMachine(schema, additional_properties="closed")
    assert not closed.matches(text)
    assert closed.matches('{"a": {"a": 1}}')
    assert closed.schema == schema


def test_names_of_properties_are_no_keywords() -> None:
    closed = closed_schema({"properties": {"not": {"properties": {}}}, "default": {"not": 1}})
    assert closed["properties"]["not"] == {"properties": {}, "additionalProperties": False}
    assert closed["additionalProperties"] is False
