"""Schemas whose ``$schema`` names no draft, and the URIs that name one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schema_checks import URIS, assert_texts

from state_machines import (
    InvalidSchemaError,
    JsonSchemaStateMachine,
    UnsatisfiableSchemaError,
    UnsupportedSchemaError,
)

PAIR: Any = [{"type": "string"}, {"type": "number"}]
NULL: Any = {"type": "string", "nullable": True, "enum": [None]}


def admits(schema: Any, text: str) -> bool:
    return JsonSchemaStateMachine(schema).matches(text)


@pytest.mark.parametrize(
    ("schema", "admitted", "refused"),
    [
        ({"items": PAIR}, ["[]", '["a"]', '["a", 1, null]'], ["[1]", '["a", "b"]']),
        ({"items": PAIR, "additionalItems": False}, ['["a", 1]'], ['["a", 1, 2]']),
        (
            {"items": PAIR, "additionalItems": {"type": "null"}, "minItems": 2},
            ['["a", 1]', '["a", 1, null]'],
            ['["a"]', '["a", 1, 2]'],
        ),
        (
            {"type": "array", "items": PAIR, "minItems": 2, "maxItems": 2},
            ['["a", 1]'],
            ["[]", '["a"]', '["a", 1, 1]', "{}"],
        ),
        ({"type": "array", "items": [], "additionalItems": False}, ["[]"], ["[1]"]),
        ({"items": [], "additionalItems": {"type": "null"}}, ["[]", "[null]"], ["[1]"]),
        ({"items": [], "minItems": 1}, ["[1]"], ["[]"]),
        (
            {"items": [{"items": [{"type": "null"}], "additionalItems": False}], "minItems": 1},
            ["[[]]", "[[null], 1]"],
            ["[]", "[[1]]", "[[null, null]]"],
        ),
        ({"items": [True, False]}, ["[1]"], ["[1, 2]"]),
        ({"properties": {"a": {"items": PAIR}}}, ['{"a": ["a"]}'], ['{"a": [1]}']),
        ({"items": PAIR, "unevaluatedItems": False}, ['["a", 1]'], ['["a", 1, 2]']),
        ({"items": PAIR, "contains": {"const": 1}}, ['["a", 1]'], ['["a", 2]', "[]"]),
        ({"not": {"items": PAIR}}, ["[1]"], ["[]", '["a"]']),
    ],
)
def test_tuple_is_read_without_schema(
    schema: dict[str, Any], admitted: list[str], refused: list[str]
) -> None:
    assert_texts(schema, admitted, refused, judged=False)
    older = {"$schema": URIS["2019-09"], **schema}
    assert_texts(older, admitted, refused, judged=False)


def test_rest_of_a_tuple_may_be_unevaluated_items() -> None:
    schema = {"allOf": [{"items": [{"type": "string"}]}], "unevaluatedItems": {"type": "null"}}
    assert_texts(schema, ['["a"]', '["a", null]'], ["[null]", '["a", 1]'], judged=False)


def test_references_lead_into_tuples() -> None:
    items = [{"$id": "a", "type": "null"}, {"$anchor": "b", "type": "string"}, {"type": "number"}]
    for reference, text in (("a", "null"), ("#b", '"x"'), ("#/$defs/tuple/items/2", "1")):
        target = {"$ref": reference, "$defs": {"tuple": {"items": items}}}
        assert_texts(target, [text], ["{}"], judged=False)
    relative = {"$id": "http://example.com/x/", "items": [{"$ref": "y"}]}
    rest = {"$id": "y", "type": "null"}
    schema: Any = {"items": [relative], "minItems": 1, "additionalItems": False}
    schema["$defs"] = {"t": {"items": [{"$id": "http://example.com/x/z", "items": [rest]}]}}
    assert_texts(schema, ["[[null]]", "[[]]", "[1]"], ["[[1]]", "[]"], judged=False)


@pytest.mark.parametrize("uri", [URIS["2020-12"], "http://json-schema.org/draft/2020-12/schema#"])
def test_declared_2020_12_has_no_tuple_in_items(uri: str) -> None:
    schema = {"$schema": uri, "properties": {"a": {"items": PAIR, "additionalItems": False}}}
    with pytest.raises(InvalidSchemaError, match="prefixItems") as caught:
        JsonSchemaStateMachine(schema)
    assert caught.value.pointer == "/properties/a/items"


def test_tuple_beside_prefix_items_is_an_error() -> None:
    with pytest.raises(InvalidSchemaError, match="beside prefixItems") as caught:
        JsonSchemaStateMachine({"items": PAIR, "prefixItems": PAIR})
    assert caught.value.pointer == "/items"


def test_embedded_schema_that_names_2020_12_is_strict() -> None:
    part = {"$id": "http://example.com/part", "$schema": URIS["2020-12"], "items": PAIR}
    with pytest.raises(InvalidSchemaError, match="items is an array"):
        JsonSchemaStateMachine({"items": [part]})


@pytest.mark.parametrize(
    ("schema", "admitted", "refused"),
    [
        ({"minimum": 0, "exclusiveMinimum": True}, ["0.5"], ["0", "-1"]),
        ({"minimum": 0, "exclusiveMinimum": False}, ["0"], ["-1"]),
        ({"maximum": 3, "exclusiveMaximum": True}, ["2"], ["3", "4"]),
        (
            {"minimum": 0, "exclusiveMinimum": True, "maximum": 3, "exclusiveMaximum": True},
            ["1"],
            ["0", "3"],
        ),
        ({"minimum": 0, "exclusiveMinimum": True, "exclusiveMaximum": 3}, ["1"], ["0", "3"]),
        ({"exclusiveMinimum": False, "maximum": 3}, ["-1", "3"], ["4"]),
        ({"minimum": 1, "exclusiveMinimum": 0}, ["1"], ["0.5"]),
        ({"not": {"minimum": 0, "exclusiveMinimum": True}}, ["0"], ["1", '"a"']),
        ({"items": {"minimum": 0, "exclusiveMinimum": True}}, ["[1]"], ["[0]"]),
    ],
)
def test_exclusive_bound_may_be_boolean_or_number_without_schema(
    schema: dict[str, Any], admitted: list[str], refused: list[str]
) -> None:
    assert_texts(schema, admitted, refused, judged=False)


@pytest.mark.parametrize(
    ("draft", "schema", "hint"),
    [
        ("2020-12", {"minimum": 0, "exclusiveMinimum": True}, "draft 4"),
        ("7", {"maximum": 0, "exclusiveMaximum": True}, "draft 4"),
        ("4", {"minimum": 0, "exclusiveMinimum": 1}, "later draft"),
        (None, {"exclusiveMinimum": True}, "no minimum"),
        (None, {"minimum": 0, "exclusiveMaximum": True}, "no maximum"),
    ],
)
def test_exclusive_bound_of_another_draft_is_an_error(
    draft: str | None, schema: dict[str, Any], hint: str
) -> None:
    declared = {"$schema": URIS[draft]} if draft else {}
    with pytest.raises(InvalidSchemaError, match=hint) as caught:
        JsonSchemaStateMachine({**declared, **schema})
    assert caught.value.keyword == next(name for name in schema if "exclusive" in name)


@pytest.mark.parametrize(
    ("schema", "admitted", "refused"),
    [
        ({"type": "string", "nullable": True}, ["null", '"a"'], ["1"]),
        ({"type": ["string", "number"], "nullable": True}, ["null", "1"], ["[]"]),
        ({"type": "integer", "minimum": 1, "nullable": True}, ["null", "1"], ["0"]),
        ({"type": "string", "nullable": False}, ['"a"'], ["null"]),
        ({"type": "string", "nullable": True, "enum": ["a", None]}, ["null", '"a"'], ['"b"']),
        ({"type": "string", "nullable": True, "enum": ["a"]}, ['"a"'], ["null"]),
        (NULL, ["null"], ['"null"', '"a"']),
        ({"anyOf": [{"type": "number"}, NULL]}, ["null", "1"], ['"a"']),
        ({"oneOf": [{"type": "number"}, NULL]}, ["null", "1"], ['"a"']),
        ({"nullable": True, "anyOf": [{"type": "number"}]}, ["1"], ["null"]),
        ({"nullable": True}, ["null", "1"], []),
        ({"not": {"type": "string", "nullable": True}}, ["1"], ["null", '"a"']),
        (
            {
                "type": "object",
                "nullable": True,
                "properties": {"a": {"type": "null"}},
                "required": ["a"],
                "oneOf": [
                    {"type": "object", "properties": {"a": {"const": None}}},
                    {"type": "object", "properties": {"a": {"const": 1}}, "nullable": True},
                ],
            },
            ["null", '{"a": null}'],
            ["{}", "1"],
        ),
    ],
)
def test_nullable_adds_null_to_the_adjacent_type(
    schema: dict[str, Any], admitted: list[str], refused: list[str]
) -> None:
    assert_texts(schema, admitted, refused, judged=False)


@pytest.mark.parametrize("draft", URIS)
def test_nullable_is_an_annotation_where_a_draft_is_named(draft: str) -> None:
    schema = {"$schema": URIS[draft], "type": "string", "nullable": True}
    assert_texts(schema, ['"a"'], ["null"], judged=False)


def test_nullable_without_type_is_named_where_no_value_remains() -> None:
    after = {"nullable": True, "allOf": [{"$ref": "#"}]}
    schema = {"type": "object", "properties": {"next": after}, "required": ["next"]}
    with pytest.raises(UnsatisfiableSchemaError, match="nullable beside type"):
        JsonSchemaStateMachine(schema)
    with pytest.raises(UnsatisfiableSchemaError) as caught:
        JsonSchemaStateMachine({"type": "string", "nullable": True, "enum": [1]})
    assert "nullable" not in str(caught.value)


def test_error_of_a_nullable_object_is_not_that_of_its_properties() -> None:
    schema = {
        "type": "object",
        "nullable": True,
        "properties": {"a": False},
        "required": ["a"],
        "enum": [1],
    }
    with pytest.raises(UnsatisfiableSchemaError) as caught:
        JsonSchemaStateMachine({"type": "object", "properties": {"b": schema}, "required": ["b"]})
    assert caught.value.pointer == "/properties/b"


def test_strict_knows_the_forms_of_undeclared_schemas() -> None:
    JsonSchemaStateMachine({"items": PAIR, "additionalItems": False}, strict=True)
    JsonSchemaStateMachine({"type": "null", "nullable": True}, strict=True)
    declared = {"$schema": URIS["2020-12"], "additionalItems": False}
    with pytest.raises(UnsupportedSchemaError, match="additionalItems"):
        JsonSchemaStateMachine(declared, strict=True)


@pytest.mark.parametrize(
    ("uri", "draft"),
    [
        (f"{scheme}://{name}{end}", draft)
        for draft, uri in URIS.items()
        for scheme in ("http", "https")
        for name in [uri.partition("://")[2].removesuffix("#")]
        for end in ("", "#")
    ],
)
def test_draft_is_named_with_any_scheme_and_fragment(uri: str, draft: str) -> None:
    """Draft 4 has no ``const``, up to 7 nothing adjacent to ``$ref``, up to 2019-09 tuples."""
    schema = {
        "$schema": uri,
        "properties": {
            "const": {"const": 1},
            "ref": {"$ref": "#/definitions/any", "type": "null"},
            "dependencies": {"dependencies": {"a": ["b"]}},
        },
        "definitions": {"any": {}},
    }
    expected = {
        '{"const": 2}': draft == "4",
        '{"ref": 1}': draft in ("4", "6", "7"),
        '{"dependencies": {"a": 1}}': draft in ("2019-09", "2020-12"),
    }
    for text, verdict in expected.items():
        assert admits(schema, text) == verdict, text
    tuples = {"$schema": uri, "items": PAIR}
    if draft == "2020-12":
        with pytest.raises(InvalidSchemaError):
            JsonSchemaStateMachine(tuples)
    else:
        assert not admits(tuples, "[1]")


@pytest.mark.parametrize(
    "uri", ["", "http://json-schema.org/schema", "https://json-schema.org/schema#"]
)
def test_latest_draft_is_2020_12(uri: str) -> None:
    schema = {"$schema": uri, "prefixItems": [{"type": "null"}], "items": False}
    assert_texts(schema, ["[]", "[null]"], ["[1]", "[null, null]"], judged=False)


@pytest.mark.parametrize(
    "uri",
    ["#", "http://json-schema.org/draft-03/schema#", "ftp://json-schema.org/draft-07/schema#"],
)
def test_other_uris_are_unknown(uri: str) -> None:
    with pytest.raises(InvalidSchemaError, match="is not known"):
        JsonSchemaStateMachine({"$schema": uri})


SCALARS = st.sampled_from([None, True, 0, 1, "a"])
ITEMS = st.sampled_from([{}, True, {"type": "null"}, {"type": ["number", "string"]}, {"enum": [0]}])
TUPLES = st.fixed_dictionaries(
    {"items": st.lists(ITEMS, max_size=3)},
    optional={
        "additionalItems": ITEMS | st.just(False),
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(2, 4),
        "contains": ITEMS,
    },
)


@given(TUPLES, st.lists(st.lists(SCALARS, max_size=4), max_size=8))
def test_undeclared_tuple_equals_that_of_2019_09(schema: dict[str, Any], values: list[Any]) -> None:
    try:
        declared = JsonSchemaStateMachine({"$schema": URIS["2019-09"], **schema})
    except UnsatisfiableSchemaError:
        with pytest.raises(UnsatisfiableSchemaError):
            JsonSchemaStateMachine(schema)
        return
    undeclared = JsonSchemaStateMachine(schema)
    for value in values:
        text = json.dumps(value)
        assert undeclared.matches(text) == declared.matches(text), text
