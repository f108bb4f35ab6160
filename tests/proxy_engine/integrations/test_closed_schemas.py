from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from proxy_engine.integrations.closed_schemas import closed_schema


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
        {"type": "object", "properties": {"a": {}}, "allOf": [{"properties": {"b": {}}}]},
        {"properties": {"a": {}}, "anyOf": [{"properties": {"b": {}}}]},
        {"properties": {"a": {}}, "required": ["b"]},
        {"type": "object"},
        {"properties": {"a": {"properties": {}, "$ref": "#/$defs/B"}}, "$defs": {"B": {}}},
    ],
)
def test_objects_that_may_have_other_properties_stay_as_they_are(schema: dict[str, Any]) -> None:
    assert closed_schema(schema) == schema


def test_names_of_properties_are_no_keywords() -> None:
    closed = closed_schema({"properties": {"not": {"properties": {}}}, "default": {"not": 1}})
    assert closed["properties"]["not"] == {"properties": {}, "additionalProperties": False}
    assert closed["additionalProperties"] is False
