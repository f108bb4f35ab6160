"""Outlines of JSON Schemas."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from proxy_engine.conversation.schema_text import schema_outline

LIMIT = 4000
KEYWORDS = (
    *("type", "enum", "const", "properties", "required", "items", "prefixItems", "anyOf", "allOf"),
    *("$ref", "$defs", "additionalProperties", "description", "format", "pattern", "minimum"),
    *("maxItems", "minLength", "a", "b"),
)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (True, "any value"),
        ({}, "any value"),
        ({"type": "integer", "minimum": 0, "maximum": 9}, "integer (at least 0, at most 9)"),
        ({"type": "number", "exclusiveMinimum": 0}, "number (above 0)"),
        ({"minimum": 2}, "number (at least 2)"),
        ({"type": "string", "format": "date"}, "string (date)"),
        ({"type": "string", "maxLength": 9}, "string (at most 9 characters)"),
        ({"pattern": "^a+$"}, "string (matching ^a+$)"),
        ({"type": ["integer", "null"]}, "integer | null"),
        ({"enum": ["a", 1, None]}, '"a" | 1 | null'),
        ({"const": "ä"}, '"ä"'),
        ({"type": "array"}, "[any value, ...]"),
        ({"items": {"type": "null"}, "maxItems": 3}, "[null, ...] (at most 3 items)"),
        ({"prefixItems": [{"type": "null"}], "items": False}, "[null]"),
        ({"prefixItems": [{"type": "null"}]}, "[null, ...]"),
        ({"type": "object"}, "{...}"),
        ({"type": "object", "additionalProperties": False}, "{}"),
        ({"additionalProperties": {"type": "null"}}, "{\n  <name>: null\n}"),
        ({"properties": {"a": False, "b": True}}, '{\n  "b"?: any value\n}'),
        ({"required": ["a"]}, '{\n  "a": any value\n}'),
        ({"anyOf": [{"type": "null"}, {"const": 1}, {"const": 1}]}, "null | 1"),
        ({"allOf": [{"type": "integer"}]}, "integer"),
        ({"type": "string", "anyOf": [{"const": "a"}, {"const": "b"}]}, 'string & ("a" | "b")'),
        ({"$ref": "https://example.com/other"}, "any value"),
        ({"$ref": "#/$defs/missing"}, "any value"),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}}, "null"),
    ],
)
def test_outline_of_a_schema(schema: Any, expected: str) -> None:
    assert schema_outline(schema, LIMIT) == expected


def test_outline_of_a_model() -> None:
    class Colour(BaseModel):
        red: int = Field(ge=0, le=255)

    class Person(BaseModel):
        """A person."""

        name: str = Field(description="the full\n  name")
        born: date | None = None
        role: Literal["admin", "guest"]
        eyes: Colour
        hair: Colour | None

    assert schema_outline(Person.model_json_schema(), LIMIT) == (
        "{  // A person.\n"
        '  "name": string,  // the full name\n'
        '  "born"?: string (date) | null,\n'
        '  "role": "admin" | "guest",\n'
        '  "eyes": Colour,\n'
        '  "hair": Colour | null\n'
        "}\n"
        "where Colour is {\n"
        '  "red": integer (at least 0, at most 255)\n'
        "}"
    )


def test_definition_that_is_used_once_is_written_in_place() -> None:
    definitions = {"inner": {"properties": {"x": {"type": "null"}}, "description": "an inner"}}
    schema = {"properties": {"a": {"$ref": "#/$defs/inner"}}, "$defs": definitions}
    assert schema_outline(schema, LIMIT) == ('{\n  "a"?: {  // an inner\n    "x"?: null\n  }\n}')


def test_recursive_definition_is_written_once() -> None:
    node = {"properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]}
    schema = {"$ref": "#/$defs/node", "$defs": {"node": node}}
    assert schema_outline(schema, LIMIT) == 'node\nwhere node is {\n  "next": node\n}'
    assert schema_outline({"items": {"$ref": "#"}}, LIMIT) == (
        "[Root, ...]\nwhere Root is [Root, ...]"
    )


def test_definitions_of_one_name_are_distinguished() -> None:
    schema = {
        "items": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/definitions/a"}] * 2},
        "$defs": {"a": {"const": 1}},
        "definitions": {"a": {"const": 2}},
    }
    assert schema_outline(schema, LIMIT) == "[a | a#2, ...]\nwhere a is 1\nwhere a#2 is 2"


def test_long_outline_loses_its_inner_levels_first() -> None:
    inner = {"properties": {f"inner{n}": {"type": "string"} for n in range(20)}}
    schema = {"properties": {"a": inner, "b": {"type": "null"}}}
    assert schema_outline(schema, 60) == '{\n  "a"?: {...},\n  "b"?: null\n}'


def test_long_level_is_cut_at_the_end_of_a_line() -> None:
    schema = {"properties": {f"p{n}": {"type": "null"} for n in range(100)}}
    assert schema_outline(schema, 40) == '{\n  "p0"?: null,\n  "p1"?: null,\n...'
    assert schema_outline({"enum": list(range(100))}, 10) == "0 | 1 ..."


def test_references_that_multiply_are_bounded() -> None:
    definitions: dict[str, Any] = {
        f"d{n}": {"items": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2}} for n in range(200)
    }
    schema = {"$ref": "#/$defs/d0", "$defs": {**definitions, "d200": {"$ref": "#/$defs/d200"}}}
    assert len(schema_outline(schema, 500)) <= 500


def test_deep_nesting_is_bounded() -> None:
    schema: dict[str, Any] = {"type": "null"}
    for n in range(900):
        schema = {"anyOf": [schema]} if n % 9 else {"items": schema}
    assert len(schema_outline(schema, 500)) <= 500


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab#/~", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYWORDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(json_values, st.integers(20, 300))
def test_outline_of_any_json_is_bounded(schema: Any, limit: int) -> None:
    assert 0 < len(schema_outline(schema, limit)) <= limit
