"""The cost of one more item, name or word does not grow with their number. Counted in steps."""

import gc
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from patched_limits import patch_limits, steps_of
from small_vocabulary import brute_force_mask, small_vocabulary

from state_machines import JsonSchemaStateMachine, Vocabulary
from state_machines.grammar import interning
from state_machines.masks.mask_maker import MaskMaker


def written(schema: Any, text: str, vocabulary: Vocabulary) -> Callable[[], object]:
    """Return a function that computes the masks of a text with a new machine."""

    def write() -> None:
        maker = MaskMaker(vocabulary)
        state = JsonSchemaStateMachine(schema).start
        for byte in text.encode():
            maker.mask(state)
            state = state.derivative(byte)

    return write


def words(count: int) -> list[str]:
    return [f"{'abcdefgh'[n % 8]}{n * 37 % 1024:010b}" for n in range(count)]


@pytest.mark.parametrize(
    "items",
    [{"type": "string"}, {"type": "string", "maxLength": 40}, {"type": ["string", "null"]}, {}],
)
def test_unique_items_cost_the_same_at_any_length(items: Any) -> None:
    schema = {"type": "array", "items": items, "uniqueItems": True}
    vocabulary = small_vocabulary()
    few, many = (
        steps_of(written(schema, json.dumps(words(count)), vocabulary)) for count in (20, 80)
    )
    # More words share more of their first characters, each of which is a state.
    assert many < 6 * few


@pytest.mark.parametrize(
    ("items", "texts"),
    [
        ({"type": "string"}, ["a", "", "ab", "a b", "é", "b", "aab"]),
        ({"type": "string", "minLength": 1, "maxLength": 9}, ["a" * 9, "b" * 9, "ab", "aaaaaaaab"]),
        ({"type": "string", "minLength": 9, "maxLength": 9}, ["a" * 9, "b" * 9, "aaaaaaaab"]),
        ({"type": "string", "maxLength": 3}, ["aab", "ab", "", "a", "aa"]),
        ({"pattern": "^a*b?$", "type": "string"}, ["a", "ab", "", "aa"]),
        ({"enum": ["a", "ab", "abab", 1, None]}, ["ab", 1, "a", None, "abab"]),
        ({}, ["a", 1, ["a"], "ab", {"a": 1}, None, "b", 10]),
        ({"anyOf": [{"type": "string", "maxLength": 9}, {"type": "boolean"}]}, ["a", True, "ab"]),
    ],
)
def test_masks_with_taken_values_equal_brute_force(items: Any, texts: list[Any]) -> None:
    vocabulary = small_vocabulary()
    machine = JsonSchemaStateMachine({"type": "array", "items": items, "uniqueItems": True})
    matcher = machine.matcher(vocabulary)
    for byte in json.dumps(texts, ensure_ascii=False).encode():
        expected = brute_force_mask(matcher.state, vocabulary)
        assert np.array_equal(matcher.allowed_tokens(), expected), matcher.state
        matcher.advance(byte)
    assert matcher.is_accepting
    for first in texts:
        for second in texts:
            assert machine.matches(json.dumps([first, second])) == (first != second)


def test_taken_string_of_greatest_length_is_no_dead_end() -> None:
    """After ``aaaaaaaa`` only a taken string of nine characters could be completed."""
    schema = {
        "type": "array",
        "items": {"type": "string", "minLength": 9, "maxLength": 9, "pattern": ""},
        "uniqueItems": True,
    }
    state = JsonSchemaStateMachine(schema).start.compute_word_derivative(b'["aaaaaaaab", "aaaaaaaa')
    assert not state.derivative(ord("b")).matches(b'"]')
    assert state.derivative(ord("b")).first_bytes == 0
    assert state.derivative(ord("c")).matches(b'"]')


@pytest.mark.parametrize("required", [[], ["a0000000000"]])
def test_optional_names_in_order_cost_the_same_each(required: list[str]) -> None:
    """All later names may come next, but their nodes are shared between positions."""
    vocabulary = small_vocabulary()

    def write(count: int) -> Callable[[], object]:
        names = words(count)
        schema = {
            "type": "object",
            "properties": {name: {"type": "null"} for name in names},
            "required": required,
            "additionalProperties": False,
        }
        return written(schema, json.dumps(dict.fromkeys(names)), vocabulary)

    few, many = (steps_of(write(count)) for count in (20, 80))
    assert many < 4.4 * few


def test_name_costs_only_the_names_with_its_prefix() -> None:
    def write(count: int) -> Callable[[], object]:
        names = words(count)
        schema = {
            "type": "object",
            "properties": {name: {"type": "null"} for name in names},
            "additionalProperties": False,
        }
        start = JsonSchemaStateMachine(schema).start
        return lambda: start.compute_word_derivative(f'{{"{names[1]}": null}}'.encode())

    few, many = (steps_of(write(count)) for count in (50, 500))
    assert many < 2 * few


def test_word_of_a_large_enumeration_costs_only_its_path() -> None:
    def write(count: int) -> Callable[[], object]:
        machine = JsonSchemaStateMachine({"enum": words(count)})
        return lambda: machine.start.compute_word_derivative(json.dumps(words(count)[1]).encode())

    few, many = (steps_of(write(count)) for count in (100, 1000))
    assert many < 2 * few


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "object"}, lambda word: json.dumps({word: 1, f"{word}b": {word: None}})),
        ({"type": "array", "uniqueItems": True}, lambda word: json.dumps([word, [word, word]])),
        (
            {"uniqueItems": True, "items": {"type": "object"}},
            lambda word: json.dumps([{word: 1}, {word: 2}]),
        ),
    ],
)
def test_machine_does_not_grow_with_matched_texts(
    schema: Any, text: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    patch_limits(monkeypatch, machine_shared_derivatives=64)
    vocabulary = small_vocabulary()
    machine = JsonSchemaStateMachine(schema)

    def living_after(texts: list[str]) -> int:
        for each in texts:
            matcher = machine.matcher(vocabulary)
            for byte in each.encode():
                matcher.advance(byte)
            assert matcher.is_accepting
        gc.collect()
        return len(interning._TABLE)

    some = [text(word) for word in words(200)]
    few, many = living_after(some[:40]), living_after(some[40:])
    assert many < few + 200
