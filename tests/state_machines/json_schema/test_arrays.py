"""Arrays: items, tuples, lengths, ``contains``, and unique items."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from schema_checks import assert_texts

from state_machines import (
    JsonSchemaStateMachine,
    UnsatisfiableSchemaError,
    UnsupportedSchemaError,
)
from state_machines.budgets import step_budget


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
def test_unique_numbers_are_compared_by_value(schema: Any, first: str, second: str) -> None:
    texts = [f"[{a}, {b}]" for a, b in ((first, second), (second, first), (first, first))]
    assert_texts(schema, [f"[{first}, 3]", f"[7, {second}]"], texts)


@pytest.mark.parametrize(
    "text",
    [
        *("[[1], [1.0]]", "[[1], [1e0]]", '[{"a": 1}, {"a": 1.0}]'),
        *('[{"a": 1, "b": 2}, {"b": 2, "a": 1}]', '["é", "\\u00e9"]'),
        *('[{"é": []}, {"\\u00e9": []}]', "[[], 1, {}, []]", "[null, null]"),
    ],
)
def test_unique_items_are_compared_by_json_equality(text: str) -> None:
    schema = {"uniqueItems": True}
    assert_texts(schema, ["[true, 1]", "[false, 0]", '["1", 1]', "[[1], [2]]"], [text])


@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"type": "boolean"}},
        {"items": {"enum": [0, 1]}, "maxItems": 2},
        {"prefixItems": [{"type": "boolean"}, {"type": "boolean"}], "items": False},
    ],
)
def test_second_of_two_possible_unique_arrays_is_forced(schema: Any) -> None:
    """The values of an array with ``uniqueItems`` are counted: here there are two."""
    unique = {"type": "array", "uniqueItems": True, "minItems": 2}
    schema = {**unique, "items": unique | schema}
    a, b = ("false", "true") if "enum" not in str(schema) else ("0", "1")
    texts = [f"[[{a}, {b}], [{b}, {a}]]", f"[[{b}, {a}], [{a}, {b}]]"]
    others = [f"[[{a}, {b}], [{a}, {b}]]", f"[[{a}, {a}], [{b}, {a}]]", f"[[{a}, {b}]]", "[]"]
    assert_texts(schema, texts, others)
    state = JsonSchemaStateMachine(schema).start.compute_word_derivative(f"[[{a}, {b}], [".encode())
    assert state.first_bytes == 1 << ord(b[0])


A, B = {"const": 1}, {"const": 2}
CLOSED = {"type": "object", "additionalProperties": False}
TWO_NAMES = {**CLOSED, "properties": {"a": A, "b": B}}
EITHER = {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
ONE_BOOLEAN = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": {"type": "boolean"},
}
CHAIN = {**CLOSED, "properties": {"next": {"$ref": "#/$defs/x"}}}
BOXES = {
    "anyOf": [
        {"type": "null"},
        {"type": "array", "items": {"$ref": "#/$defs/x"}, "minItems": 1, "maxItems": 1},
    ]
}

NUMBERED: list[tuple[Any, int | None, str]] = [
    ({"type": "object", "minProperties": 1}, None, '{"b": 1}, {"a": 1}'),
    ({"type": "object", "maxProperties": 1}, None, '{"b": 1}, {}'),
    (ONE_BOOLEAN, None, '{"a": true}, {"b": true}'),
    ({**TWO_NAMES, "minProperties": 1}, 3, '{"a": 1}, {"b": 2}, {"a": 1, "b": 2}'),
    ({**TWO_NAMES, "maxProperties": 1}, 3, '{"a": 1}, {"b": 2}, {}'),
    ({**TWO_NAMES, **EITHER}, 2, '{"b": 2}, {"a": 1}'),
    ({**TWO_NAMES, "not": {"required": ["a", "b"]}}, 3, '{"b": 2}, {}'),
    ({**TWO_NAMES, "dependentRequired": {"a": ["b"]}}, 3, '{"b": 2}, {"a": 1, "b": 2}'),
    ({"enum": [{"a": 1}, {"a": 2}, [1], []]}, 4, '[1], {"a": 2}'),
    ({"type": "array", "contains": A}, None, "[1], [2, 1]"),
    ({"type": "array", "items": {"enum": [1, 2]}, "contains": A, "maxItems": 2}, 4, "[1], [2, 1]"),
    ({"type": "array", "contains": A, "minContains": 2, "maxContains": 2}, None, "[1, 1], [1, 2, 1]"),
    ({"type": "array", "not": {"items": A}}, None, "[2], [1, 2]"),
    (CHAIN, None, '{}, {"next": {"next": {}}}'),
    (BOXES, None, "null, [[null]]"),
    ({"type": "array", "items": {"$ref": "#/$defs/x"}}, None, "[], [[[]], []]"),
]  # fmt: skip


@pytest.mark.parametrize(("items", "values", "written"), NUMBERED)
def test_unique_items_need_enough_values(items: Any, values: int | None, written: str) -> None:
    """The values of objects, and of arrays with ``contains``, are counted or listed."""
    schema = {
        "type": "array",
        "uniqueItems": True,
        "minItems": values or 20,
        "items": {"$ref": "#/$defs/x"},
        "$defs": {"x": items},
    }
    machine = JsonSchemaStateMachine(schema)
    for seed in range(2):
        state, text, random = machine.start, bytearray(), Random(seed)
        for _ in range(40):
            choices = [byte for byte in range(256) if state.first_bytes >> byte & 1]
            assert choices or state.nullable, f"dead end after {bytes(text)!r}"
            if not choices:
                break
            text.append(random.choice([b for b in choices if chr(b) in '[]{}",:ab12'] or choices))
            state = state.derivative(text[-1])
    assert_texts({**schema, "minItems": 2}, [f"[{written}]"], [f"[{written.partition(',')[0]}]"])
    if values is not None:
        with pytest.raises(UnsupportedSchemaError, match="fewer than") as caught:
            JsonSchemaStateMachine({**schema, "minItems": values + 1})
        assert caught.value.pointer == "/uniqueItems"


LONG = ["a" * 600, "b" * 600]


@pytest.mark.parametrize(
    "values",
    [
        LONG,
        [[LONG[0]], [LONG[1]]],
        [{"k": LONG[0]}, {"k": LONG[1]}],
        [{LONG[0]: 1}, {LONG[1]: 1}],
        [[{"k": LONG}], [{"k": [*LONG, 1]}]],
        [dict.fromkeys(map(str, range(200)), 0), dict.fromkeys(map(str, range(200)), 1)],
        [{"a": index} for index in range(80)],
        [[[index], {}] for index in range(80)],
    ],
    ids=range(8),
)
def test_different_constants_are_different_items(values: list[Any]) -> None:
    unique = {"type": "array", "uniqueItems": True, "minItems": len(values)}
    machine = JsonSchemaStateMachine({**unique, "items": {"enum": values}})
    assert machine.matches(json.dumps(values[::-1]))
    assert not machine.matches(json.dumps([*values[1:], values[1]]))
    for items in ({"enum": values}, {"anyOf": [{"const": value} for value in values]}):
        JsonSchemaStateMachine({**unique, "items": items})
        with pytest.raises(UnsupportedSchemaError, match="fewer than"):
            JsonSchemaStateMachine({**unique, "minItems": len(values) + 1, "items": items})


@pytest.mark.parametrize(
    "values",
    [
        [{"a": [1]}, {"a": [1.0]}],
        [{"a": 1, "b": [{"c": 1, "d": 2}]}, {"b": [{"d": 2, "c": 1}], "a": 1}],
    ],
)
def test_equal_constants_are_one_item(values: list[Any]) -> None:
    schema = {"type": "array", "uniqueItems": True, "minItems": 2, "items": {"enum": values}}
    with pytest.raises(UnsupportedSchemaError, match="fewer than 2"):
        JsonSchemaStateMachine(schema)


@pytest.mark.parametrize(
    ("contains", "admitted", "refused"),
    [
        ({"contains": A}, ["[2, 1]", "[1, 2]"], ["[1]", "[2, 3]", "[1, 1]"]),
        ({"contains": {"enum": [1, 2, 3]}, "minContains": 2, "maxContains": 2, "minItems": 3},
         ["[1, 5, 2]", "[5, 1, 3, 7]"], ["[1, 2, 3]", "[1, 5, 1]", "[1, 5, 6]"]),
    ],
)  # fmt: skip
def test_unique_items_beside_contains(
    contains: Any, admitted: list[str], refused: list[str]
) -> None:
    schema = {"type": "array", "uniqueItems": True, "minItems": 2, "items": {"type": "integer"}}
    assert_texts(schema | contains, admitted, refused)
    with pytest.raises(UnsupportedSchemaError):
        JsonSchemaStateMachine(schema | {"contains": A, "minContains": 2})


@pytest.mark.parametrize(
    "items",
    [
        {"type": "array", "uniqueItems": True, "minItems": 2, "items": {"type": "null"}},
        {"anyOf": [{"type": "null"}, {"type": "object", "minProperties": 1, "additionalProperties": {"$ref": "#"}}]},
    ],
)  # fmt: skip
def test_unique_items_whose_values_need_one_another_are_an_error(items: Any) -> None:
    """Two different items would need a value that needs two different items."""
    with pytest.raises((UnsatisfiableSchemaError, UnsupportedSchemaError)):
        JsonSchemaStateMachine(
            {"type": "array", "uniqueItems": True, "minItems": 2, "items": items}
        )


NAMES = [f"{'abcd'[n % 4]}/feature-{n}" for n in range(240)]


@pytest.mark.parametrize(
    ("schema", "value", "refused"),
    [
        ({"uniqueItems": True, "items": {"enum": [*NAMES, 1]}}, NAMES, [*NAMES, NAMES[7]]),
        (
            {"minProperties": 240, "properties": dict.fromkeys(NAMES, True)},
            dict.fromkeys(NAMES),
            dict.fromkeys(NAMES[1:]),
        ),
    ],
    ids=["different strings", "counted members"],
)
def test_long_texts_take_few_steps(schema: Any, value: Any, refused: Any) -> None:
    """Each string or member takes as many steps as the first ones."""
    machine = JsonSchemaStateMachine(schema)
    with step_budget(40_000):
        assert machine.matches(json.dumps(value))
    assert not machine.matches(json.dumps(refused))


def test_no_comma_precedes_an_item_without_a_value() -> None:
    schema = {
        "prefixItems": [{"const": 1}, {"allOf": [{"type": "null"}, {"type": "integer"}]}],
        "type": "array",
    }
    state = JsonSchemaStateMachine(schema).start.compute_word_derivative(b"[1")
    assert state.matches(b"]")
    assert not state.first_bytes >> ord(",") & 1


def test_two_contains_leave_no_room_for_another_item() -> None:
    schema = {
        "type": "array",
        "allOf": [{"contains": {"const": 1}}, {"contains": {"const": 2}}],
        "maxItems": 2,
    }
    assert_texts(schema, ["[1, 2]", "[2, 1]"], ["[1, 1]", "[1, 3]", "[1]", "[3, 1, 2]"])
    state = JsonSchemaStateMachine(schema).start.compute_word_derivative(b"[1")
    assert state.first_bytes == 1 << ord(",") | 1 << ord(".")
