from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from schema_strategies import NAMES, examples, schemas, values_near

from state_machines import InvalidArgumentError, JsonSchemaStateMachine, SchemaError
from state_machines.grammar.shortest import shortest_word

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


def closed(schema: Any) -> JsonSchemaStateMachine:
    return JsonSchemaStateMachine(
        schema, property_order="any", whitespace="compact", additional_properties="closed"
    )


class Place(BaseModel):
    name: str
    near: list[Place] = []


class Trip(BaseModel):
    start: Place
    by_day: dict[str, Place | None]
    additional: Any = None


def test_objects_of_python_types_have_their_properties_alone() -> None:
    schema = Trip.model_json_schema()
    machine = closed(schema)
    assert machine.schema == schema == Trip.model_json_schema()
    trip = {"start": {"name": "a", "near": [{"name": "b"}]}, "by_day": {"x": {"name": "c"}}}
    assert machine.matches(json.dumps(trip, separators=(",", ":")))
    for place in (trip, trip["start"], trip["by_day"]["x"], trip["start"]["near"][0]):
        text = json.dumps(trip, separators=(",", ":"))
        longer = json.dumps({**place, "other": 1}, separators=(",", ":"))
        assert not machine.matches(text.replace(json.dumps(place, separators=(",", ":")), longer))


RECURSIVE = {
    "$id": "http://x.test/x",
    "type": "object",
    "properties": {"a": {"$ref": "http://x.test/x"}},
}
ONE = {"properties": {"a": {"const": 1}}}
B = {"properties": {"b": {"type": "integer"}}}
BASE = {"$ref": "#/$defs/Base", "$defs": {"Base": B}}
OTHER = {"$ref": "#/$defs/Sub", "$defs": {"Base": B, "Sub": {"$ref": "#/$defs/Base"}}}


@pytest.mark.parametrize(
    ("schema", "accepted", "rejected"),
    [
        # Several schemas that describe one object list names together.
        ({**A, "allOf": [B]}, '{"a":1,"b":2}', '{"a":1,"c":2}'),
        ({**A, "anyOf": [B]}, '{"a":1,"b":2}', '{"a":1,"c":2}'),
        ({**A, **BASE}, '{"a":1,"b":2}', '{"a":1,"c":2}'),
        ({**A, **OTHER}, '{"a":1,"b":2}', '{"a":1,"c":2}'),
        ({**A, "not": {"required": ["b"]}}, '{"a":1}', '{"a":1,"c":2}'),
        ({**A, "if": A, "then": {**B, "required": ["b"]}}, '{"a":1,"b":2}', '{"a":1,"b":2,"c":3}'),
        ({"properties": {"x": A}, "patternProperties": {"x": B}}, '{"x":{"b":1}}', '{"x":{"c":1}}'),
        ({"allOf": [{"items": A}, {"items": B}]}, '[{"a":1,"b":2}]', '[{"a":1,"c":2}]'),
        # Each alternative has its own names.
        ({"anyOf": [A, B]}, '{"b":1}', '{"a":1,"b":2}'),
        ({**Y, "anyOf": [A, B]}, '{"b":1,"y":2}', '{"a":1,"b":2,"y":3}'),
        ({"$id": "http://x.test/x", **BASE}, '{"b":1}', '{"c":1}'),
        ({"properties": {}}, "{}", '{"a":1}'),
    ],
)
def test_objects_have_the_names_that_schemas_list(
    schema: dict[str, Any], accepted: str, rejected: str
) -> None:
    machine = closed(schema)
    assert JsonSchemaStateMachine(schema, whitespace="compact", property_order="any").matches(
        rejected
    )
    assert machine.matches(accepted)
    assert not machine.matches(rejected)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        # The schema says something about other names.
        ({"properties": {}, "additionalProperties": {"type": "string"}}, '{"b":"x"}'),
        ({**A, "additionalProperties": True}, '{"b":1}'),
        ({**A, "unevaluatedProperties": True}, '{"b":1}'),
        ({**A, "patternProperties": {"^x": {}}}, '{"b":1}'),
        ({**A, "propertyNames": {"maxLength": 1}}, '{"b":1}'),
        ({**A, "allOf": [{"additionalProperties": True}]}, '{"b":1}'),
        # Other names are needed.
        ({**A, "required": ["b"]}, '{"b":1,"c":2}'),
        ({**A, "minProperties": 2}, '{"b":1,"c":2}'),
        ({**A, "dependentRequired": {"a": ["b"]}}, '{"a":1,"b":2,"c":3}'),
        ({**A, "enum": [{"b": 1}]}, '{"b":1}'),
        ({"$ref": "#/$defs/x", "minProperties": 3, "$defs": {"x": A}}, '{"a":1,"b":2,"c":3}'),
        ({**RECURSIVE, "minProperties": 1}, '{"a":{"b":1,"c":2}}'),
        (
            {"required": ["a"], "properties": {"a": {**RECURSIVE, "minProperties": 1}}},
            '{"a":{"b":1}}',
        ),
        # No schema lists names.
        ({"type": "object"}, '{"b":1}'),
        ({"not": {"properties": {"a": {"type": "integer"}}, "required": ["a"]}}, '{"b":1}'),
        ({"anyOf": [A, {"type": "object"}]}, '{"b":1}'),
        ({"if": {"properties": {"a": A}}}, '{"b":1}'),
        # Closed objects are too few for different items.
        (
            {"items": {**ONE, "type": "object"}, "minItems": 3, "uniqueItems": True},
            '[{"b":1},{"b":2},{}]',
        ),
    ],
)
def test_objects_that_may_have_other_properties_stay_open(schema: Any, text: str) -> None:
    assert closed(schema).matches(text)


def test_closing_removes_values_but_never_all() -> None:
    removed = 0

    @examples(100)
    @given(composed() | schemas(), st.data())
    def check(schema: Any, data: st.DataObject) -> None:
        nonlocal removed
        try:
            open_machine = JsonSchemaStateMachine(schema)
        except SchemaError:
            return
        machine = JsonSchemaStateMachine(schema, additional_properties="closed")
        assert shortest_word(machine.start) is not None
        for _ in range(3):
            text = json.dumps(data.draw(values_near(schema)), ensure_ascii=False)
            accepted = open_machine.matches(text)
            assert accepted or not machine.matches(text)
            removed += accepted and not machine.matches(text)

    check()
    assert removed > 0


def test_names_of_properties_are_no_keywords() -> None:
    machine = closed({"properties": {"not": {"properties": {}}}, "default": {"not": 1}})
    assert machine.matches('{"not":{}}')
    assert not machine.matches('{"not":{"a":1}}')


@pytest.mark.parametrize("additional", ["closed", "schema"])
@examples(40)
@given(st.data())
def test_excluded_values_alone_are_refused(additional: Any, data: st.DataObject) -> None:
    schema = data.draw(st.one_of(composed(), schemas(depth=1)))
    options: Any = {"additional_properties": additional, "property_order": "any"}
    try:
        machine = JsonSchemaStateMachine(schema, **options)
    except SchemaError:
        return
    excluded = data.draw(st.lists(values_near(schema), min_size=1, max_size=3))
    others = data.draw(st.lists(values_near(schema), max_size=3))
    try:
        rest = JsonSchemaStateMachine(schema, excluding=excluded, **options)
    except SchemaError:
        # No other value satisfies the schema, or the others are too few for an array.
        return
    for value in excluded:
        assert not rest.matches(json.dumps(value))
    listed = JsonSchemaStateMachine({"enum": excluded}, property_order="any")
    for text in map(json.dumps, others):
        assert rest.matches(text) or listed.matches(text) or not machine.matches(text)


@pytest.mark.parametrize("value", [float("nan"), [Decimal("inf")], {1: 2}, {"a": object()}])
def test_excluded_value_that_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="excluding"):
        JsonSchemaStateMachine({}, excluding=[value])


def test_objects_stay_closed_if_values_are_excluded() -> None:
    machine = JsonSchemaStateMachine(
        {"properties": {"a": {"type": "array", "items": A}, "b": A}},
        additional_properties="closed",
        excluding=[{"a": [{"a": 1}], "b": {"a": 1}}],
    )
    rejected = '{"a": [{"a": 1}], "b": {"a": 1}}'
    assert not machine.matches(rejected)
    assert machine.matches(rejected.replace("1", "2"))
    assert machine.matches('{"a": [{"a": 1}]}')
    for longer in ('{"a": 1, "c": 1}', '{"a": 2, "c": 1}'):
        assert not machine.matches(rejected.replace('{"a": 1}', longer))
    assert not machine.matches(rejected[:-1] + ', "c": 1}')
