"""Exclusions of words, and arrays of unique objects."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_vocabulary import small_vocabulary

from state_machines import JsonSchemaStateMachine
from state_machines.budgets import step_budget
from state_machines.grammar.exclusion import exclusion
from state_machines.grammar.node import EMPTY
from state_machines.grammar.word_lists import literals

WORDS = st.lists(st.text("ab", max_size=4).map(str.encode), max_size=8)


@given(WORDS, WORDS)
def test_exclusion_accepts_the_other_words_of_the_body(
    words: list[bytes], taken: list[bytes]
) -> None:
    node = exclusion(literals(words), [literals([word]) for word in taken])
    left = set(words) - set(taken)
    assert node.is_empty == (not left)
    assert all(node.matches(word) == (word in left) for word in {*words, *taken})
    first = node.first_bytes
    for byte in b"ab":
        begins = any(word[:1] == bytes((byte,)) for word in left)
        assert (node.derivative(byte) is not EMPTY) == begins == bool(first >> byte & 1)
    assert {byte for bits, _ in node.transitions for byte in range(256) if bits >> byte & 1} == {
        word[0] for word in left if word
    }


def names(count: int) -> list[str]:
    return [f"m{index}" for index in range(count)]


def test_work_does_not_grow_with_the_orders_of_members() -> None:
    constants = {name: {"const": name} for name in names(14)}
    item = {
        "properties": {**constants, "n": {"enum": [1, 2]}},
        "required": [*constants, "n"],
        "additionalProperties": False,
        "type": "object",
    }
    machine = JsonSchemaStateMachine(
        {"type": "array", "uniqueItems": True, "items": item}, property_order="any"
    )
    one = {**{name: name for name in constants}, "n": 1}
    other = dict(reversed({**one, "n": 2}.items()))
    with step_budget(20_000):
        assert machine.matches(json.dumps([one, other]))
        assert not machine.matches(json.dumps([one, dict(reversed(one.items()))]))
        assert not machine.matches(json.dumps([one, other, one])[:-1])
        after_two = machine.start.compute_word_derivative(json.dumps([one, other])[:-1].encode())
        assert after_two.compute_word_derivative(b"]").nullable


ITEMS: dict[str, Any] = {
    "patternProperties": {
        "properties": {"name": {"type": "string"}, "b": {"type": "boolean"}},
        "required": ["name"],
        "patternProperties": {"^x-": {"type": "number"}, "_id$": {"type": "string"}},
    },
    "propertyNames": {
        "propertyNames": {"pattern": "^[a-z_-]{1,8}$"},
        "additionalProperties": {"type": ["string", "number", "boolean"]},
    },
    "oneOf": {
        "oneOf": [
            {
                "properties": {"name": {"const": kind}, "b": {"type": "boolean"}},
                "required": ["name"],
            }
            for kind in ("n", "na", "m")
        ]
    },
}


@pytest.mark.parametrize("keyword", ITEMS)
def test_masks_of_items_in_any_order_stay_within_few_steps(keyword: str) -> None:
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "object", **ITEMS[keyword]}}
    machine = JsonSchemaStateMachine(schema, property_order="any")
    values = [{"name": "n", "b": True}, {"b": False, "name": "n"}, {"name": "na", "x-a": 1}]
    values += [{"x-a": 2, "name": "na", "b": True}, {"a_id": "z", "name": "m", "b": True}]
    matcher = machine.matcher(small_vocabulary())
    for byte in json.dumps(values).encode():
        with step_budget(20_000):
            assert matcher.allowed_tokens()[byte]
        matcher.advance(byte)
    assert matcher.is_accepting
    for order in permutations(values[3].items()):
        assert not machine.matches(json.dumps([*values, dict(order)]))
