"""Plans of schemas made to do harm: within their steps and their memory, whatever comes of them."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from patched_limits import patch_limits
from small_vocabulary import small_vocabulary

from state_machines import (
    ChoiceStateMachine,
    GrammarBudgetError,
    GrammarStateMachine,
    JsonSchemaStateMachine,
    Matcher,
    MaxTokensTooSmallError,
    UnwritableTextError,
    Vocabulary,
)
from state_machines.budgets import step_budget
from state_machines.completion import Completion, Guard
from state_machines.limits import LIMITS

VOCABULARY = small_vocabulary()
BYTEWISE = Vocabulary([*(bytes((b,)) for b in range(256)), b"end"], end_token_ids=[256])
FEW = Vocabulary([b"a", b'"', b"{", b"}", b"[", b"]", b":", b",", b"end"], end_token_ids=[8])
# Fewer than by default, so that refusals take less time.
PLAN_STEPS = 30_000
MEMORY = 16 << 20
"""Bytes. The table of all nodes may grow meanwhile, by up to 10 MB after other tests."""


def doubling(wrap: Callable[[Any], Any], levels: int = 40) -> Any:
    """Return references that occur twice at every level, the last of them a string."""
    definitions = {f"d{level}": wrap({"$ref": f"#/$defs/d{level + 1}"}) for level in range(levels)}
    definitions[f"d{levels}"] = {"type": "string"}
    return {"$ref": "#/$defs/d0", "$defs": definitions}


SHAPES: dict[str, Callable[[Any], Any]] = {
    "items": lambda ref: {"type": "array", "prefixItems": [ref, ref], "minItems": 2},
    "members": lambda ref: {
        "type": "object",
        "properties": {"a": ref, "b": ref},
        "required": ["a", "b"],
    },
    "choices": lambda ref: {
        "type": "array",
        "items": {"anyOf": [ref, {"type": "array", "prefixItems": [ref, ref], "minItems": 2}]},
        "minItems": 2,
    },
    "conjunctions": lambda ref: {
        "allOf": [{"type": "array", "prefixItems": [ref, ref]}, {"minItems": 2}]
    },
    "remembered names": lambda ref: {
        "type": "object",
        "additionalProperties": ref,
        "minProperties": 2,
    },
    "names of a pattern": lambda ref: {
        "type": "object",
        "patternProperties": {"^a": ref},
        "minProperties": 2,
        "additionalProperties": False,
    },
}


@pytest.mark.parametrize(
    ("shape", "order", "levels"),
    [
        *((shape, "schema", 40) for shape in SHAPES),
        ("members", "any", 40),
        ("items", "schema", 300),
    ],
)
def test_doubling_shapes_are_refused(
    shape: str, order: Any, levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bounded steps and memory."""
    patch_limits(monkeypatch, plan_steps=PLAN_STEPS)
    machine = JsonSchemaStateMachine(doubling(SHAPES[shape], levels), property_order=order)
    tracemalloc.start()
    try:
        with pytest.raises(GrammarBudgetError), step_budget(PLAN_STEPS + 1000):
            Guard(machine.matcher(VOCABULARY), 2000, completion=Completion(VOCABULARY))
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("levels", [3, 6])
def test_doubling_shapes_that_fit_are_planned(shape: str, levels: int) -> None:
    machine = JsonSchemaStateMachine(doubling(SHAPES[shape], levels))
    for vocabulary in (VOCABULARY, BYTEWISE):
        completion = Completion.of(vocabulary)
        guard = Guard(machine.matcher(vocabulary), completion.length(machine.start))
        matcher = Matcher(machine.start, vocabulary)
        for token_id in guard.plan.tokens:
            assert completion.length(matcher.state) <= guard.needed
            matcher.advance(token_id)
            guard.advance(token_id)
        assert matcher.is_accepting
        assert guard.needed == 0


NAMES = [f"p{number}" for number in range(10_000)]
UNPLANNED: dict[str, Any] = {
    "a million items": {"type": "array", "minItems": 10**6},
    "different items": {"type": "array", "uniqueItems": True, "minItems": 10**6},
    "many names": {"type": "object", "minProperties": 10**6},
    "10,000 required names": {
        "type": "object",
        "properties": {name: {"type": "string"} for name in NAMES},
        "required": NAMES,
    },
}


@pytest.mark.parametrize("name", UNPLANNED)
def test_plan_beyond_its_budget_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = JsonSchemaStateMachine(UNPLANNED[name])
    patch_limits(monkeypatch, plan_steps=PLAN_STEPS)
    with pytest.raises(GrammarBudgetError) as caught, step_budget(PLAN_STEPS + 1000):
        Guard(machine.matcher(VOCABULARY), 10**6)
    # The guard's own budget ended it.
    assert caught.value.budget <= PLAN_STEPS


LONG: dict[str, tuple[Any, int]] = {
    "a constant": ({"const": "hello world " * 1500}, 18_002),
    "a text": ({"type": "string", "minLength": 30_000}, 30_002),
    "a counter": ({"type": "string", "pattern": "^a{5000}b{9000}c$"}, 14_003),
    "a word": ({"type": "string", "pattern": f"^{'ab' * 2000}$"}, 4002),
    "characters beyond ASCII": ({"type": "string", "pattern": "^é{3000}$"}, 6002),
    "escapes": ({"const": 'a"\n' * 1000}, 5002),
}


@pytest.mark.parametrize("name", LONG)
def test_long_texts_are_planned_and_stay_cheap(name: str) -> None:
    schema, size = LONG[name]
    machine = JsonSchemaStateMachine(schema)
    completion = Completion(BYTEWISE)
    with step_budget(LIMITS.plan_steps):
        guard = Guard(machine.matcher(BYTEWISE), size + 5, completion=completion)
        assert guard.needed == size
        plan = guard.plan.tokens
    for token_id in plan[:300]:
        with step_budget(1500):
            guard.advance(token_id)
    text = bytes(plan)
    assert machine.matches(text)


@pytest.mark.parametrize(
    "texts",
    [
        ["hello world " * 1500, "hello there " * 1600],
        [f"text number {number} of many" for number in range(20_000)],
    ],
    ids=["long texts", "many texts with one end"],
)
def test_choices_are_planned(texts: list[str]) -> None:
    machine = ChoiceStateMachine(texts)
    with step_budget(LIMITS.plan_steps // 4):
        plan = Completion(BYTEWISE).plan(machine.start).tokens
    assert bytes(plan).decode() == texts[0]


def test_texts_of_a_gigabyte_are_refused() -> None:
    matcher = JsonSchemaStateMachine({"type": "string", "minLength": 10**9}).matcher(BYTEWISE)
    with pytest.raises(MaxTokensTooSmallError) as caught, step_budget(1000):
        Guard(matcher, 10**6)
    # A lower bound: the longest token is an end token, which stands within some texts.
    longest = max(len(form) for form in BYTEWISE.token_bytes if form is not None)
    assert caught.value.needed == -(-(10**9 + 2) // longest)
    assert not caught.value.is_exact
    with pytest.raises(GrammarBudgetError):
        Guard(matcher, 2 * 10**9)


def test_planning_during_generation_is_bounded() -> None:
    """A token takes the steps that there are for a token, and at most the reserve of its text."""
    schema = {
        "anyOf": [
            {"type": "string"},
            {"type": "array", "minItems": 10**6},
            {"type": "object", "minProperties": 10**6},
        ]
    }
    for few in (4, 400):
        guard = Guard(JsonSchemaStateMachine(schema).matcher(VOCABULARY), few)
        for opening in b"[{":
            bound = LIMITS.token_advance_steps + LIMITS.token_plan_steps
            with step_budget(bound + LIMITS.plan_reserve_steps):
                assert not guard.accepts(opening)
        allowed = guard.matcher.allowed_tokens()
        with step_budget(LIMITS.restriction_steps + 1000):
            mask = guard.mask(allowed, exact=True)
        assert mask[ord('"')]
        assert not mask[ord("[")]
        assert not mask[ord("{")]


@pytest.mark.parametrize(
    "grammar",
    [
        'root ::= root root root | root root | "a" | "b"',
        'root ::= "a" root? root?',
        "root ::= (([ab] [bc]?){0,30} [a-c]*){2,9}",
    ],
)
def test_ambiguous_grammars_stay_bounded_under_a_guard(grammar: str) -> None:
    guard = Guard(GrammarStateMachine(grammar).matcher(BYTEWISE), 30)
    allowed = np.zeros(BYTEWISE.size, np.bool_)
    allowed[list(b"abc")] = True
    for byte in b"abababab":
        with step_budget(
            2 * (LIMITS.token_advance_steps + LIMITS.token_plan_steps + LIMITS.restriction_steps)
        ):
            guard.mask(allowed, exact=True)
            if guard.accepts(byte):
                guard.advance(byte)
        assert len(guard.plan.tokens) == guard.needed <= guard.left


def test_unwritable_text_is_refused_with_the_missing_bytes() -> None:
    machine = JsonSchemaStateMachine(doubling(SHAPES["members"], 10))
    with pytest.raises(UnwritableTextError), step_budget(2 * LIMITS.plan_steps):
        Guard(machine.matcher(FEW), 100)


def test_waiting_plan_blocks_no_other_thread() -> None:
    """A checkpoint may block for long; no lock is held meanwhile."""
    completion = Completion(VOCABULARY)
    waiting, go_on = threading.Event(), threading.Event()
    lengths: list[int] = []

    def block() -> None:
        waiting.set()
        go_on.wait(60)

    def plan() -> None:
        machine = JsonSchemaStateMachine(doubling(SHAPES["choices"], 6))
        with step_budget(None, checkpoint=block):
            lengths.append(completion.length(machine.start))

    thread = threading.Thread(target=plan)
    thread.start()
    try:
        assert waiting.wait(60)
        machine = JsonSchemaStateMachine({"type": "object", "required": ["a"]})
        guard = Guard(machine.matcher(VOCABULARY), 20, completion=completion)
        guard.mask(guard.matcher.allowed_tokens())
        assert not lengths
    finally:
        go_on.set()
        thread.join()
    assert lengths[0] > 2**6


def test_concurrent_plans_agree() -> None:
    schemas = [doubling(wrap, 6) for wrap in SHAPES.values()]
    machines = [JsonSchemaStateMachine(schema) for schema in schemas]
    alone = [Completion(VOCABULARY).plan(machine.start).tokens for machine in machines]
    shared = Completion(VOCABULARY)
    found: list[list[tuple[int, ...]]] = []

    def plan_all() -> None:
        found.append([shared.plan(machine.start).tokens for machine in machines])

    threads = [threading.Thread(target=plan_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [alone] * 4
