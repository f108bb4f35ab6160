"""Arrays: items, tuples, lengths, what must be contained, and repetition."""

from __future__ import annotations

from typing import Any

import pytest
from schema_checks import assert_texts

from state_machines import JsonSchemaStateMachine, UnsatisfiableSchemaError, UnsupportedSchemaError

DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
DRAFT_2019 = {"$schema": "https://json-schema.org/draft/2019-09/schema"}

CASES = [
    ({"type": "array"}, ["[]", "[1]", '[null, "a", {}]', "[[[]]]"], ["[", "[1,]", "[,1]", "{}"]),
    ({"items": {"type": "null"}}, ["[]", "[null]", "[null, null]", "1"], ["[1]", "[null, 1]"]),
    ({"items": False}, ["[]", "{}", "3"], ["[1]", "[[]]"]),
    ({"items": True}, ["[]", "[1, []]"], []),
    (
        {"prefixItems": [{"const": 1}, {"const": 2}]},
        ["[]", "[1]", "[1, 2]", "[1, 2, 9]"],
        ["[2]", "[1, 1]"],
    ),
    ({"prefixItems": [{"const": 1}], "items": False}, ["[]", "[1]"], ["[1, 1]", "[2]"]),
    (
        {"prefixItems": [{"const": 1}], "items": {"const": 2}},
        ["[1, 2, 2]"],
        ["[1, 1]", "[1, 2, 1]"],
    ),
    ({"prefixItems": [True, False]}, ["[]", "[5]"], ["[5, 5]"]),
    ({"minItems": 2}, ["[1, 2]", "[1, 2, 3]", "{}"], ["[]", "[1]"]),
    ({"maxItems": 2}, ["[]", "[1, 2]"], ["[1, 2, 3]"]),
    (
        {"minItems": 1, "maxItems": 1, "items": {"type": "integer"}},
        ["[7]"],
        ["[]", "[1, 2]", "[null]"],
    ),
    ({"minItems": 2, "maxItems": 2.0}, ["[1, 2]"], ["[1]", "[1, 2, 3]"]),
    ({"maxItems": 0}, ["[]"], ["[1]"]),
    (
        {"items": {"items": {"type": "integer"}, "minItems": 1}},
        ["[]", "[[1]]", "[[1, 2], [3]]"],
        ["[[]]", "[[null]]"],
    ),
    (
        {"minItems": 200, "items": {"const": 1}},
        [f"[{', '.join('1' * 200)}]"],
        [f"[{', '.join('1' * 199)}]"],
    ),
    ({"contains": {"const": 1}}, ["[1]", "[0, 1, 0]", "[1, 1]", "3"], ["[]", "[0]", "[[1]]"]),
    ({"contains": {"const": 1}, "maxContains": 1}, ["[1]", "[0, 1]"], ["[1, 1]", "[]"]),
    ({"contains": {"const": 1}, "minContains": 2}, ["[1, 1]", "[1, 0, 1]"], ["[1]", "[1, 0]"]),
    ({"contains": {"const": 1}, "minContains": 0}, ["[]", "[1]", "[0]"], []),
    (
        {"contains": {"type": "integer"}, "items": {"minimum": 5}},
        ["[5]", "[5.5, 6]"],
        ["[5.5]", "[1]"],
    ),
    ({"not": {"contains": {"const": 1}}, "type": "array"}, ["[]", "[2]"], ["[1]", "[2, 1]"]),
    ({"not": {"items": {"const": 1}}, "type": "array"}, ["[2]", "[1, 2]"], ["[]", "[1]", "[1, 1]"]),
    ({"not": {"minItems": 2}, "type": "array"}, ["[]", "[1]"], ["[1, 2]"]),
    ({"not": {"prefixItems": [{"const": 1}]}, "type": "array"}, ["[2]", "[2, 1]"], ["[]", "[1]"]),
    ({"enum": [[1, 2], []]}, ["[1, 2]", "[1.0, 2]", "[]"], ["[1]", "[2, 1]", "[1, 2, 3]"]),
    ({"const": [[], {"a": [None]}]}, ['[[], {"a": [null]}]'], ["[[], {}]", "[[]]"]),
    (
        {"uniqueItems": True, "items": {"enum": [1, 2]}},
        ["[]", "[1]", "[1, 2]", "[2, 1]"],
        ["[1, 1]", "[1, 1.0]"],
    ),
    ({"uniqueItems": True, "items": {"enum": ["a", "b"]}}, ['["a", "b"]'], ['["a", "a"]']),
    ({"uniqueItems": False}, ["[1, 1]"], []),
    ({"prefixItems": [True], "unevaluatedItems": False}, ["[]", "[1]"], ["[1, 1]"]),
    (
        {"allOf": [{"prefixItems": [True]}], "unevaluatedItems": {"const": 0}},
        ["[1]", "[1, 0]"],
        ["[1, 1]"],
    ),
]


@pytest.mark.parametrize(("schema", "admitted", "refused"), CASES, ids=lambda v: None)
def test_cases(schema: Any, admitted: list[str], refused: list[str]) -> None:
    assert_texts(schema, admitted, refused)


@pytest.mark.parametrize("dialect", [DRAFT_7, DRAFT_2019])
@pytest.mark.parametrize(
    ("schema", "admitted", "refused"),
    [
        ({"items": {"const": 1}, "additionalItems": False}, ["[]", "[1, 1]"], ["[2]"]),
        ({"items": [{"const": 1}]}, ["[]", "[1]", "[1, 2]"], ["[2]"]),
        ({"items": [{"const": 1}], "additionalItems": False}, ["[]", "[1]"], ["[1, 2]"]),
        ({"items": [{"const": 1}], "additionalItems": {"const": 2}}, ["[1, 2, 2]"], ["[1, 1]"]),
        ({"items": [], "additionalItems": {"const": 2}}, ["[]", "[2]"], ["[1]"]),
        ({"additionalItems": False}, ["[1, 2]"], []),
        ({"prefixItems": [False]}, ["[1]"], []),
    ],
)
def test_tuples_of_older_drafts(
    dialect: Any, schema: Any, admitted: list[str], refused: list[str]
) -> None:
    assert_texts(dialect | schema, admitted, refused, judged=False)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "minItems": 3, "maxItems": 2},
        {"type": "array", "items": False, "minItems": 1},
        {"type": "array", "prefixItems": [True, False], "minItems": 2},
        {"type": "array", "items": {"allOf": [{"const": 1}, {"const": 2}]}, "minItems": 1},
        {"type": "array", "contains": False},
        {"type": "array", "contains": {"const": 1}, "items": {"const": 2}},
        {"type": "array", "maxItems": 1, "contains": True, "minContains": 2},
        {"const": [1], "items": {"const": 2}},
    ],
)
def test_contradictions_are_unsatisfiable(schema: Any) -> None:
    with pytest.raises(UnsatisfiableSchemaError):
        JsonSchemaStateMachine(schema)


@pytest.mark.parametrize(
    "schema", [{"uniqueItems": True}, {"items": {"type": "number"}, "uniqueItems": True}]
)
@pytest.mark.parametrize(
    ("first", "second"),
    [("1", "1.0"), ("1", "1.00"), ("1", "1e0"), ("100000", "1e5"), ("1e5", "1.0E+05"), ("0", "-0"),
     ("0.0", "-0.00"), ("0.1", "1e-1"), ("1.5", "1.50"), ("-2", "-2.0e0")],
)  # fmt: skip
def test_a_number_does_not_come_again_in_another_spelling(
    schema: Any, first: str, second: str
) -> None:
    texts = [f"[{a}, {b}]" for a, b in ((first, second), (second, first), (first, first))]
    assert_texts(schema, [f"[{first}, 3]", f"[7, {second}]"], texts)


@pytest.mark.parametrize(
    "text",
    [
        "[[1], [1.0]]",
        "[[1], [1e0]]",
        '[{"a": 1}, {"a": 1.0}]',
        '[{"a": 1, "b": 2}, {"b": 2, "a": 1}]',
        '["é", "\\u00e9"]',
        '[{"é": []}, {"\\u00e9": []}]',
        "[[], 1, {}, []]",
        "[null, null]",
    ],
)
def test_items_that_are_equal_in_json_do_not_come_again(text: str) -> None:
    schema = {"uniqueItems": True}
    assert_texts(schema, ["[true, 1]", "[false, 0]", '["1", 1]', "[[1], [2]]"], [text])


def test_too_few_different_items() -> None:
    schema = {"type": "array", "uniqueItems": True, "items": {"enum": [1, 2]}, "minItems": 3}
    with pytest.raises((UnsatisfiableSchemaError, UnsupportedSchemaError)):
        JsonSchemaStateMachine(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"type": "boolean"}},
        {"items": {"enum": [0, 1]}, "maxItems": 2},
        {"prefixItems": [{"type": "boolean"}, {"type": "boolean"}], "items": False},
    ],
)
def test_arrays_of_unique_items_are_counted(schema: Any) -> None:
    """There are exactly two inner arrays, so the second one is forced, from its first item on."""
    unique = {"type": "array", "uniqueItems": True, "minItems": 2}
    schema = {**unique, "items": unique | schema}
    a, b = ("false", "true") if "enum" not in str(schema) else ("0", "1")
    texts = [f"[[{a}, {b}], [{b}, {a}]]", f"[[{b}, {a}], [{a}, {b}]]"]
    others = [f"[[{a}, {b}], [{a}, {b}]]", f"[[{a}, {a}], [{b}, {a}]]", f"[[{a}, {b}]]", "[]"]
    assert_texts(schema, texts, others)
    state = JsonSchemaStateMachine(schema).start.compute_word_derivative(f"[[{a}, {b}], [".encode())
    assert state.first_bytes == 1 << ord(b[0])


def test_one_value_is_too_few_for_nested_unique_items() -> None:
    unique = {"type": "array", "uniqueItems": True, "minItems": 2}
    schema = {**unique, "items": {**unique, "items": {"type": "null"}}}
    with pytest.raises((UnsatisfiableSchemaError, UnsupportedSchemaError)):
        JsonSchemaStateMachine(schema)


def test_items_that_cannot_be_are_not_begun() -> None:
    """An item that no value satisfies never gets its comma: no dead ends."""
    schema = {
        "prefixItems": [{"const": 1}, {"allOf": [{"type": "null"}, {"type": "integer"}]}],
        "type": "array",
    }
    state = JsonSchemaStateMachine(schema).start.compute_word_derivative(b"[1")
    assert state.matches(b"]")
    assert not state.first_bytes >> ord(",") & 1


def test_a_shorter_way_out_of_two_demands() -> None:
    schema = {
        "type": "array",
        "allOf": [{"contains": {"const": 1}}, {"contains": {"const": 2}}],
        "maxItems": 2,
    }
    assert_texts(schema, ["[1, 2]", "[2, 1]"], ["[1, 1]", "[1, 3]", "[1]", "[3, 1, 2]"])
    state = JsonSchemaStateMachine(schema).start.compute_word_derivative(b"[1")
    assert state.first_bytes == 1 << ord(",") | 1 << ord(".")
