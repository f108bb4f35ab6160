from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from state_machines import JsonSchemaStateMachine
from state_machines.json_schema.closed_schema import closed_schema


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
        {"properties": {"a": {}}, "required": ["b"]},
        {"type": "object"},
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


def test_names_of_properties_are_no_keywords() -> None:
    closed = closed_schema({"properties": {"not": {"properties": {}}}, "default": {"not": 1}})
    assert closed["properties"]["not"] == {"properties": {}, "additionalProperties": False}
    assert closed["additionalProperties"] is False
