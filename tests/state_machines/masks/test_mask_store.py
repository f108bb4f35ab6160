"""Masks are exact, however they were computed and whatever the caches evicted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from patched_limits import patch_limits
from small_vocabulary import brute_force_mask, small_vocabulary

from state_machines import JsonSchemaStateMachine, Matcher, Vocabulary, masks
from state_machines.grammar.node import EMPTY, Node
from state_machines.masks import lexemes

SCHEMAS: dict[str, Any] = {
    "open": {
        "properties": {"a": {"type": "integer"}, "ab": {"const": "x"}, "é": {}, 'q"': {}},
        "type": "object",
    },
    "open, some required": {"required": ["b"], "properties": {"a": {"type": "string"}}},
    "open in any order": {"type": "object", "properties": {"ab": {"maxLength": 2}, "a": {}}},
    "names by pattern": {"type": "object", "patternProperties": {"^a+$": {"type": "null"}}},
    "closed": {
        "type": "object",
        "properties": {"a": {"type": "boolean"}, "b": {"type": "number"}},
        "additionalProperties": False,
    },
    "strings": {
        "anyOf": [
            {"type": "string", "pattern": "^a[^b]*$", "maxLength": 7},
            {"type": "string", "minLength": 2, "maxLength": 5},
            {"enum": ["ab", "aab", "é€", "c d"]},
        ]
    },
    "unique": {"type": "array", "items": {"type": ["string", "integer"]}, "uniqueItems": True},
    "nested": {
        "type": "array",
        "items": {"type": "object", "properties": {"a": {"$ref": "#"}}},
    },
}
VOCABULARY = small_vocabulary()


@pytest.fixture(params=["default", "all lexemes walked", "no cache"])
def vocabulary(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Vocabulary:
    """A new vocabulary: as it is, with all lexemes walked, and with caches that evict at once."""
    if request.param != "default":
        monkeypatch.setattr(lexemes, "MIN_LEXEME_TOKENS", 1)
        monkeypatch.setattr(lexemes, "MAX_BEGINNINGS", 0)
    if request.param == "no cache":
        patch_limits(
            monkeypatch,
            lexeme_walk_bytes=1,
            mask_bytes=1,
            state_table_bytes=1,
            dense_mask_bytes=1,
        )
    return small_vocabulary()


def walks(machine: JsonSchemaStateMachine, vocabulary: Vocabulary, seed: int) -> Iterator[Matcher]:
    """Yield a matcher at every position of some texts."""
    random = Random(seed)
    for _ in range(6):
        matcher = machine.matcher(vocabulary)
        for _ in range(12):
            yield matcher
            allowed = np.flatnonzero(matcher.allowed_tokens()).tolist()
            going_on = [i for i in allowed if i not in vocabulary.end_token_ids]
            if not going_on:
                break
            matcher.advance(random.choice(going_on))


@pytest.mark.parametrize("name", SCHEMAS)
def test_masks_equal_brute_force(name: str, vocabulary: Vocabulary) -> None:
    order = "any" if "any order" in name else "schema"
    machine = JsonSchemaStateMachine(SCHEMAS[name], property_order=order)
    for matcher in walks(machine, vocabulary, seed=len(name)):
        expected = brute_force_mask(matcher.state, vocabulary)
        assert np.array_equal(matcher.allowed_tokens(), expected)
        assert np.array_equal(matcher.allowed_tokens(), expected), "asked again"


def bytewise(state: Node, text: bytes) -> Node:
    for byte in text:
        state = state.derivative(byte) if state.first_bytes >> byte & 1 else EMPTY
    return state


@pytest.mark.parametrize("name", SCHEMAS)
def test_token_advances_to_the_derivative_by_its_bytes(name: str) -> None:
    machine = JsonSchemaStateMachine(SCHEMAS[name])
    for matcher in walks(machine, VOCABULARY, seed=1):
        for form in VOCABULARY.token_bytes:
            if form is not None:
                assert matcher.state.compute_word_derivative(form) is bytewise(matcher.state, form)


def test_one_machine_serves_two_vocabularies() -> None:
    machine = JsonSchemaStateMachine(SCHEMAS["open"])
    forms = [bytes((byte,)) for byte in range(256)]
    other = Vocabulary([*forms, b'{"a', b"end"], end_token_ids=[257])
    for text in (b"", b"{", b'{"a', b'{"a"', b'{"a": 1'):
        states = [machine.start.compute_word_derivative(text)] * 2
        for vocabulary in (VOCABULARY, other, VOCABULARY, other):
            mask = Matcher(states[0], vocabulary).allowed_tokens()
            assert np.array_equal(mask, brute_force_mask(states[0], vocabulary))


def test_masks_are_shared_and_cannot_be_written() -> None:
    vocabulary = small_vocabulary()
    machine = JsonSchemaStateMachine({"type": "string"})
    first, second = machine.matcher(vocabulary), machine.matcher(vocabulary)
    assert first.allowed_tokens() is second.allowed_tokens()
    with pytest.raises(ValueError, match="read-only"):
        first.allowed_tokens()[0] = True


def test_threads_with_one_machine_get_exact_masks() -> None:
    """Each round has new states, so threads compute masks at the same time."""
    for round_ in range(2):
        vocabulary = small_vocabulary()
        machine = JsonSchemaStateMachine(json.loads(json.dumps(SCHEMAS["open"])))
        expected = cache(partial(brute_force_mask, vocabulary=vocabulary))

        def differing(seed: int) -> int:
            return sum(
                not np.array_equal(m.allowed_tokens(), expected(m.state))  # noqa: B023
                for m in walks(machine, vocabulary, seed)  # noqa: B023
            )

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(differing, range(100 * round_, 100 * round_ + 16))) == 0


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        # A lower bound beyond the longest token refuses characters after which the pattern must end.
        ({"type": "string", "pattern": "^([A-Z]{20}|[a-z]*)$", "minLength": 30}, b""),
        ({"type": "string", "pattern": "^([a-z]*|([0-9][0-9])*)$", "minLength": 501}, b'"'),
        ({"type": "string", "pattern": "^([a-c]x?)*$", "minLength": 4000}, b'"'),
        # An upper bound applies to incomplete characters that no token writes whole.
        ({"type": "string", "pattern": "^(é{30}|[a-z]*)$", "maxLength": 20}, b""),
        ({"type": "string", "pattern": "^(\U00012000{300}|[a-z])$", "maxLength": 200}, b'"'),
        # The item that has just ended is taken as well.
        ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, b"[2"),
        (
            {
                "type": "array",
                "items": {"type": "object", "properties": {"n": {"type": "number"}}},
                "uniqueItems": True,
            },
            b'[{"n": 2',
        ),
        # A name that was written or that comes earlier in the schema is taken as well.
        ({"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}, b'{"b": 2'),
        ({"type": "object", "properties": {"": {"const": 2}, "a": {}}}, b'{"b": 2'),
        ({"type": "object", "additionalProperties": {"type": "string"}}, b'{"": "b'),
    ],
)
def test_masks_near_bounds_and_taken_values_equal_brute_force(
    schema: Any, text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexemes, "MIN_LEXEME_TOKENS", 1)
    monkeypatch.setattr(lexemes, "MAX_BEGINNINGS", 0)
    forms = [bytes((byte,)) for byte in range(256)]
    forms += [b'"A', b'"a', b'"1', b'"\\', b"\\u", b"12", b"Ab", b", 2,", b", 2]", b", 3]"]
    forms += [b'}, {"n": 2}', b'}, {"n": 3}']
    for name in (b"", b"a", b"b", b"c"):
        forms += [
            b', "' + name,
            b', "' + name + b'"',
            b', "' + name + b'": ',
            b'", "' + name + b'"',
        ]
        forms += [b', "' + name + b'": 2', b'", "' + name + b'": "', b', "' + name + b'",']
    vocabulary = Vocabulary([*forms, b"end"], end_token_ids=[len(forms)])
    state = JsonSchemaStateMachine(schema).start.compute_word_derivative(text)
    mask = Matcher(state, vocabulary).allowed_tokens()
    assert np.array_equal(mask, brute_force_mask(state, vocabulary))


def test_walks_of_one_language_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_limits(monkeypatch, walks_per_language=3)
    vocabulary = small_vocabulary()
    for limit in range(8):
        state = JsonSchemaStateMachine({"type": "string", "maxLength": limit}).start
        mask = Matcher(state, vocabulary).allowed_tokens()
        assert np.array_equal(mask, brute_force_mask(state, vocabulary))


def test_every_route_of_a_mask_is_in_the_table_of_the_package() -> None:
    table = re.findall(r"^``([^`]+)`` +``(\w+)``", masks.__doc__ or "", re.MULTILINE)
    directory = Path(masks.__file__).parent
    source = "".join(path.read_text(encoding="utf-8") for path in directory.glob("mask_*.py"))
    taken = re.findall(r'routes\.append\("([^"]+)"\)|MaskCost\(\("([^"]+)",\)', source)
    assert {route for route, _ in table} == {one or other for one, other in taken}
    assert all((directory / f"{module}.py").exists() for _, module in table)


def test_cost_of_a_mask_names_its_walks() -> None:
    matcher = JsonSchemaStateMachine({"type": "string", "pattern": "^[a-z]+$"}).matcher(
        small_vocabulary()
    )
    assert matcher.mask_cost() is None
    matcher.allowed_tokens()
    opening = matcher.mask_cost()
    assert opening is not None
    assert opening.routes == ("vertices",)
    matcher.advance(ord('"'))
    matcher.allowed_tokens()
    inside = matcher.mask_cost()
    assert inside is not None
    assert inside.vertices > 0
    assert inside.seconds > 0
    assert inside.steps > 0
