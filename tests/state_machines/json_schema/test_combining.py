"""Alternatives, conjunctions, negations and conditions; annotations and Boolean schemas."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from judging import Judge
from schema_checks import assert_texts

from state_machines import JsonSchemaStateMachine, UnsatisfiableSchemaError, UnsupportedSchemaError
from state_machines.budgets import step_budget


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"not": {}},
        {"not": True},
        {"enum": []},
        {"anyOf": [False, False]},
        {"allOf": [{"type": "string"}, {"type": "null"}]},
        {"type": "null", "not": {"type": "null"}},
        {"oneOf": [{"type": "null"}, {"const": None}]},
        {"oneOf": [True, True]},
        {"if": True, "then": False},
        {"if": False, "else": False},
        {"const": 1, "enum": [2, "1"]},
        {"allOf": [{"anyOf": [{"const": 1}, {"const": 2}]}, {"not": {"enum": [1, 2]}}]},
    ],
)
def test_contradictions_are_unsatisfiable(schema: Any) -> None:
    with pytest.raises(UnsatisfiableSchemaError) as caught:
        JsonSchemaStateMachine(schema)
    assert caught.value.pointer == ""


def test_common_prefix_of_alternatives_leads_to_no_dead_end() -> None:
    schema = {
        "anyOf": [
            {"properties": {"a": {"const": "xy"}, "b": {"const": 1}}, "required": ["a", "b"]},
            {"properties": {"a": {"const": "xz"}, "b": {"const": 2}}, "required": ["a", "b"]},
        ],
        "type": "object",
    }
    start = JsonSchemaStateMachine(schema).start
    assert start.compute_word_derivative(b'{"a": "xy", "b": ').first_bytes == 1 << ord("1")
    assert start.compute_word_derivative(b'{"a": "xz", "b": ').first_bytes == 1 << ord("2")


def test_forbidden_member_is_rejected_before_it_is_complete() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"enum": [1, 2]}, "b": {"enum": [1, 2]}},
        "required": ["a", "b"],
        "additionalProperties": False,
        "not": {"properties": {"a": {"const": 1}, "b": {"const": 1}}},
    }
    assert_texts(
        schema,
        ['{"a": 1, "b": 2}', '{"a": 2, "b": 1}', '{"a": 2, "b": 2}'],
        ['{"a": 1, "b": 1}', '{"a": 1}'],
    )
    start = JsonSchemaStateMachine(schema).start
    assert start.compute_word_derivative(b'{"a": 1, "b": ').first_bytes == 1 << ord("2")


def test_strict_refuses_unknown_keywords() -> None:
    schema = {"properties": {"a/b": {"items": {"minimun": 3}}}}
    assert_texts(schema, ['{"a/b": [1]}'], [])
    with pytest.raises(UnsupportedSchemaError, match="minimun") as caught:
        JsonSchemaStateMachine(schema, strict=True)
    assert caught.value.keyword == "minimun"
    assert caught.value.pointer == "/properties/a~1b/items/minimun"


def test_strict_accepts_annotations_and_depends_on_the_draft() -> None:
    JsonSchemaStateMachine({"title": "x", "default": 1, "type": "null"}, strict=True)
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "prefixItems": [{}]}
    with pytest.raises(UnsupportedSchemaError, match="prefixItems"):
        JsonSchemaStateMachine(old, strict=True)


# Overlapping alternatives: exact, and cheap even if there are many.


NAMES = "abcdefghijklmno"


def overlapping(count: int) -> list[dict[str, Any]]:
    """Return overlapping object schemas without a discriminator."""
    random = Random(count)
    shapes = []
    for _ in range(count):
        names = random.sample(NAMES, 10)
        shapes.append(
            {
                "properties": {name: {"enum": random.sample(range(4), 2)} for name in names},
                "required": random.sample(names, 5),
            }
        )
    return shapes


def implications(count: int) -> list[dict[str, Any]]:
    return [
        {
            "if": {"properties": {"kind": {"const": index}}, "required": ["kind"]},
            "then": {"required": [NAMES[index]], "properties": {NAMES[index]: {"type": "integer"}}},
        }
        for index in range(count)
    ]


SHAPES = overlapping(10)

CROWDED: dict[str, Any] = {
    "oneOf": {"type": "object", "oneOf": SHAPES[:8]},
    "not anyOf": {"type": "object", "not": {"anyOf": SHAPES}},
    "not oneOf": {"type": "object", "not": {"oneOf": SHAPES[:5]}},
    "oneOf, maxProperties": {"type": "object", "maxProperties": 11, "oneOf": SHAPES[:6]},
    "dependentRequired": {
        "type": "object",
        "dependentRequired": {a: [b] for a, b in pairwise(NAMES)},
    },
    "dependentSchemas": {
        "type": "object",
        "dependentSchemas": {
            a: {"required": [b], "properties": {b: {"enum": [0, 1]}}} for a, b in pairwise(NAMES)
        },
    },
    "if then": {"type": "object", "allOf": implications(12)},
}


@pytest.mark.parametrize("name", CROWDED)
def test_crowded_schemas_agree_with_the_validator(name: str) -> None:
    schema = CROWDED[name]
    machine, judge = JsonSchemaStateMachine(schema, property_order="any"), Judge(schema)
    random = Random(7)
    verdicts = []
    for _ in range(40):
        names = random.sample(NAMES, random.choice((0, 0, 1, 2, 7, 15)))
        value = {name: random.randrange(4) for name in names}
        if random.random() < 0.5:
            value["kind"] = random.randrange(12)
        if random.random() < 0.7:
            members = random.choice(SHAPES)["properties"].items()
            value |= {name: random.choice(member["enum"]) for name, member in members}
        verdicts.append(judge.admits(value))
        assert machine.matches(json.dumps(value)) == verdicts[-1], value
    assert len(set(verdicts)) == 2


def test_constants_one_true_and_one_point_zero_are_distinguished() -> None:
    schema = {"properties": {"a": {"const": 1}, "b": {"const": True}, "c": {"const": 1.0}}}
    machine = JsonSchemaStateMachine(schema)
    assert machine.matches('{"a": 1, "b": true, "c": 1}')
    assert not machine.matches('{"b": 1}')
    assert not machine.matches('{"a": true}')


def test_discriminator_selects_the_alternative() -> None:
    kinds = [
        {
            "properties": {"kind": {"const": kind}, "value": {"type": "string"}},
            "required": ["kind", "value"],
        }
        for kind in ("a", "b", "c")
    ]
    schema = {"type": "object", "oneOf": kinds, "additionalProperties": False}
    schema["properties"] = {"kind": True, "value": True}
    machine = JsonSchemaStateMachine(schema)
    for kind in ("a", "b", "c"):
        assert machine.matches(json.dumps({"kind": kind, "value": "x"}))
    assert not machine.matches('{"kind": "d", "value": "x"}')
    after_tag = machine.start.compute_word_derivative(b'{"kind": "b"')
    assert (
        after_tag.compute_word_derivative(b', "value": "').first_bytes
        == machine.start.compute_word_derivative(b'{"kind": "a", "value": "').first_bytes
    )


@pytest.mark.parametrize("typed", [True, False])
def test_three_hundred_alternatives_with_a_discriminator(typed: bool) -> None:
    kinds = [
        {
            **({"type": "object"} if typed else {}),
            "properties": {"kind": {"const": f"k{index}"}, "n": {"multipleOf": index + 1}},
            "required": ["kind", "n"],
        }
        for index in range(300)
    ]
    machine = JsonSchemaStateMachine({"oneOf": kinds})
    assert machine.matches('{"kind": "k6", "n": 14}')
    assert not machine.matches('{"kind": "k6", "n": 15}')
    assert not machine.matches('{"kind": "k300", "n": 15}')
    for text in ("7", "null", "[]", '"k6"', "true"):
        assert not machine.matches(text)


DISJOINT_OBJECTS: dict[str, Callable[[int], Any]] = {
    "required and forbidden properties": lambda index: {
        "properties": {f"p{index}": {"type": "integer"}},
        "required": [f"p{index}"],
        "additionalProperties": False,
    },
    "constants of two properties": lambda index: {
        "properties": {"a": {"const": index // 25}, "b": {"enum": [index % 25, -index - 1]}},
        "required": ["a", "b"],
    },
    "constants of two types": lambda index: {
        "properties": {"a": {"enum": [index] if index % 2 else [str(index)]}},
        "required": ["a"],
        "minProperties": index,
    },
}


@pytest.mark.parametrize("kind", DISJOINT_OBJECTS)
def test_five_hundred_disjoint_objects_are_compared_by_bit_sets(kind: str) -> None:
    alternatives = [{"type": "object", **DISJOINT_OBJECTS[kind](index)} for index in range(500)]
    budget = step_budget()
    with budget:
        machine = JsonSchemaStateMachine({"oneOf": alternatives})
    assert budget.steps_taken < 120 * 500
    values: list[Any] = [{"p7": 1}, {"p7": 1, "p8": 1}, {"p7": "1"}, {}, {"a": 2, "b": 3}]
    values += [{"a": 2, "b": -54}, {"a": 2, "b": -55}, {"a": 1}, {"a": "0"}, {"a": [1]}, {"a": 3}]
    validator = Draft202012Validator({"oneOf": alternatives})
    for value in values:
        assert machine.matches(json.dumps(value)) is validator.is_valid(value), value


MEMBERS = st.sampled_from(
    [
        True,
        {"const": 1},
        {"enum": [1, "x", None]},
        {"type": "string"},
        {"type": ["boolean", "integer"]},
        {"type": "object", "required": ["a"]},
        {"type": "array", "items": {"const": 1}},
        False,
    ]
)
OBJECTS = st.fixed_dictionaries(
    {"properties": st.dictionaries(st.sampled_from("abc"), MEMBERS, max_size=3)},
    optional={
        "required": st.lists(st.sampled_from("abc"), unique=True, max_size=2),
        "additionalProperties": st.sampled_from([False, {"const": 1}]),
        "type": st.sampled_from(["object", ["object", "string"]]),
    },
)
ALTERNATIVES = st.one_of(
    OBJECTS, MEMBERS, st.builds(lambda *parts: {"anyOf": [*parts]}, OBJECTS, OBJECTS)
)
PARTS: list[Any] = [1, "x", None, True, [], [2], {}, {"a": 1}]
SOME_VALUES: list[Any] = [*PARTS, [1], {"d": 1}, {"d": 2}, *({"a": part} for part in PARTS)]
SOME_VALUES += [{"a": first, "b": second} for first in PARTS[:3] for second in PARTS[:6]]
SOME_VALUES += [{"c": 1}, {"b": "x", "c": True}, {"a": 1, "b": 1, "c": 1}]


@given(st.lists(ALTERNATIVES, min_size=1, max_size=4) | st.lists(OBJECTS, min_size=9, max_size=12))
def test_exactly_one_alternative_holds(alternatives: list[Any]) -> None:
    """The validator counts the alternatives of each value; the machine compares them once."""
    schema = {"oneOf": alternatives}
    validator = Draft202012Validator(schema)
    accepted = [value for value in SOME_VALUES if validator.is_valid(value)]
    try:
        machine = JsonSchemaStateMachine(schema, property_order="any")
    except UnsatisfiableSchemaError:
        assert not accepted
        return
    matched = [value for value in SOME_VALUES if machine.matches(json.dumps(value))]
    assert matched == accepted
