"""The keyword ``x-reader-language`` in JSON Schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from state_machines import InvalidSchemaError, JsonSchemaStateMachine, UnsatisfiableSchemaError
from state_machines.errors import UnsupportedSchemaError
from state_machines.reader_languages.table import without_reader_languages


def read(language: str, **arguments: Any) -> dict[str, Any]:
    """Return the keyword with a language."""
    return {"x-reader-language": {"language": language, **arguments}}


RECENT = {"type": "string", "format": "date", **read("date", ge="2024-01-01")}


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        (RECENT, ["2024-01-01"], ["2023-12-31", "x", 5]),
        # Of other types the keyword says nothing.
        (read("date"), ["2024-01-01", 5, None, []], ["x"]),
        ({"minLength": 20, "maxLength": 1, "pattern": "x", "format": "email", **read("date")}, ["2024-01-01"], ["x"]),
        ({"$ref": "#/$defs/d", "$defs": {"d": RECENT}}, ["2024-01-01"], ["2023-12-31"]),
        ({"allOf": [RECENT, {"pattern": "^2024"}]}, ["2024-05-01"], ["2025-05-01", "2023-05-01"]),
        ({"anyOf": [RECENT, {"type": "string", **read("bool")}]}, ["2024-01-01", "true"], ["2023-12-31", "True"]),
        ({"not": RECENT}, ["2023-12-31", "x", 5], ["2024-01-01"]),
        ({"if": RECENT, "then": {"enum": ["2024-01-01"]}}, ["2024-01-01", "2023-01-01"], ["2024-01-02"]),
        (
            {"type": "array", "items": RECENT, "uniqueItems": True},
            [["2024-01-01", "2024-01-02"]],
            [["2024-01-01", "2024-01-01"], ["2023-01-01"]],
        ),
        (
            {"type": "object", "propertyNames": read("int", ge=0)},
            [{}, {"0": 1, "12": None}],
            [{"-1": 1}, {"01": 1}, {"a": 1}],
        ),
        (
            {
                "type": "object",
                "propertyNames": {"maxLength": 1, **read("int")},
                "additionalProperties": {"type": "integer"},
                "minProperties": 1,
            },
            [{"123": 1}],
            [{}, {"123": "a"}],
        ),
        ({"enum": ["2024-01-01", "x", 5], **read("date")}, ["2024-01-01", 5], ["x"]),
    ],
)  # fmt: skip
def test_keyword_alone_defines_the_strings(
    schema: dict[str, Any], valid: list[Any], invalid: list[Any]
) -> None:
    machine = JsonSchemaStateMachine(schema)
    assert [value for value in valid if not machine.matches(json.dumps(value))] == []
    assert [value for value in invalid if machine.matches(json.dumps(value))] == []


def test_keyword_is_known_to_all_drafts() -> None:
    for draft in ("draft-04", "draft-07", "2020-12"):
        metaschema = (
            f"https://json-schema.org/draft/{draft}/schema"
            if draft[0] == "2"
            else f"http://json-schema.org/{draft}/schema#"
        )
        machine = JsonSchemaStateMachine({"$schema": metaschema, **RECENT}, strict=True)
        assert machine.matches('"2024-01-01"')
        assert not machine.matches('"x"')


def test_keyword_is_asserted_without_formats() -> None:
    machine = JsonSchemaStateMachine(RECENT, assert_formats=False)
    assert not machine.matches('"x"')


@pytest.mark.parametrize(
    ("schema", "kind", "pointer", "what"),
    [
        (read("dates"), InvalidSchemaError, "/x-reader-language", "is not a reader language"),
        ({"x-reader-language": "date"}, InvalidSchemaError, "/x-reader-language", "not an object"),
        (
            {"properties": {"a": read("date", ge="x")}},
            InvalidSchemaError,
            "/properties/a/x-reader-language",
            "wrong argument",
        ),
        (
            read("text", pattern=r"(a)\1"),
            UnsupportedSchemaError,
            "/x-reader-language",
            "back-reference",
        ),
        (
            {"type": "string", **read("date", ge="2024-01-02", lt="2024-01-01")},
            UnsatisfiableSchemaError,
            "",
            "no JSON value",
        ),
    ],
)
def test_errors_have_a_pointer(
    schema: dict[str, Any], kind: type[Exception], pointer: str, what: str
) -> None:
    with pytest.raises(kind) as caught:
        JsonSchemaStateMachine(schema)
    assert what in str(caught.value)
    assert caught.value.pointer == pointer  # type: ignore[attr-defined]


def test_descriptions_lack_the_keyword() -> None:
    schema = {
        "properties": {"a": RECENT, "x-reader-language": RECENT},
        "items": [RECENT],
        "$defs": {"x-reader-language": RECENT},
        "default": {"x-reader-language": 1},
    }
    described = {"type": "string", "format": "date"}
    assert without_reader_languages(schema) == {
        "properties": {"a": described, "x-reader-language": described},
        "items": [described],
        "$defs": {"x-reader-language": described},
        "default": {"x-reader-language": 1},
    }
