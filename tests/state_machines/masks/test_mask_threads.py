"""Masks of one vocabulary in several threads, which neither block nor corrupt each other."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from random import Random
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from patched_limits import patch_limits
from small_vocabulary import brute_force_mask, small_vocabulary

from state_machines import (
    GrammarBudgetError,
    GrammarStateMachine,
    JsonSchemaStateMachine,
    Matcher,
    RegexStateMachine,
    StateMachine,
)
from state_machines.budgets import step_budget
from state_machines.caches import LruCache, WeakKeyLruCache
from state_machines.grammar import interning
from state_machines.grammar.interning import intern_node
from state_machines.grammar.nodes import Literal, literal
from state_machines.masks import lexemes


def some_machines() -> list[StateMachine]:
    """Return one machine for each kind of mask computation."""
    return [
        JsonSchemaStateMachine({"type": "string", "pattern": "^(ab|ba)*x?$", "maxLength": 90}),
        JsonSchemaStateMachine({"type": "object", "properties": {"a": {"type": "number"}}}),
        JsonSchemaStateMachine({"type": "array", "items": {"enum": ["é", 1]}, "uniqueItems": True}),
        RegexStateMachine(r"(\w+ )*[^x]{3,40}"),
        GrammarStateMachine('root ::= root "a" root | "b" [^a]* | ""'),
    ]


@pytest.mark.parametrize("steps_before", [5, 45])
def test_blocked_mask_does_not_block_other_threads(
    steps_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexemes, "MIN_LEXEME_TOKENS", 1)
    monkeypatch.setattr(lexemes, "MAX_BEGINNINGS", 0)
    patch_limits(monkeypatch, checkpoint_steps=1)
    vocabulary = small_vocabulary()
    blocked, going_on = Event(), Event()
    steps = count()

    def block() -> None:
        if next(steps) == steps_before:
            blocked.set()
            assert going_on.wait(60)

    found = []

    def work() -> None:
        with step_budget(checkpoint=block):
            for machine in some_machines():
                matcher = machine.matcher(vocabulary)
                found.append((matcher.state, matcher.allowed_tokens()))

    thread = Thread(target=work)
    thread.start()
    assert blocked.wait(60)
    for machine in some_machines():
        matcher = machine.matcher(vocabulary)
        expected = brute_force_mask(matcher.state, vocabulary)
        assert np.array_equal(matcher.allowed_tokens(), expected)
    going_on.set()
    thread.join(60)
    for state, mask in found:
        assert np.array_equal(mask, brute_force_mask(state, vocabulary))


def test_failed_attempt_does_not_corrupt_the_next_mask() -> None:
    """An attempt that exceeds its budget leaves no wrong result in a cache."""
    refused = 0
    for machine in some_machines():
        vocabulary = small_vocabulary()
        matcher = machine.matcher(vocabulary)
        for limit in (1, 3, 10, 30, 100):
            try:
                with step_budget(limit):
                    matcher.allowed_tokens()
            except GrammarBudgetError:
                refused += 1
        expected = brute_force_mask(matcher.state, vocabulary)
        assert np.array_equal(matcher.allowed_tokens(), expected)
    # Some machine needs few steps if an earlier test has left its states.
    assert refused


def test_threads_with_many_machines_get_exact_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexemes, "MIN_LEXEME_TOKENS", 1)
    monkeypatch.setattr(lexemes, "MAX_BEGINNINGS", 0)
    vocabulary = small_vocabulary()

    def differing(seed: int) -> int:
        random = Random(seed)
        wrong = 0
        for machine in some_machines():
            matcher: Matcher = machine.matcher(vocabulary)
            for _ in range(4):
                mask = matcher.allowed_tokens()
                wrong += not np.array_equal(mask, brute_force_mask(matcher.state, vocabulary))
                going_on = set(np.flatnonzero(mask).tolist()) - vocabulary.end_token_ids
                if not going_on:
                    break
                matcher.advance(random.choice(sorted(going_on)))
        return wrong

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(differing, range(8))) == 0


class _Looking:
    """A value whose finalizer uses the cache that held it."""

    def __init__(self, cache: LruCache[int, _Looking]) -> None:
        self.cache = cache
        self.circle = self

    def __del__(self) -> None:
        self.cache.get(1)
        self.cache.put(-1, None)  # type: ignore[arg-type]


def test_finalizers_may_use_the_cache() -> None:
    cache: LruCache[int, _Looking] = LruCache(8)
    for number in range(200):
        cache.put(number, _Looking(cache))
    gc.collect()
    for number in range(20):
        cache.put(number, None)  # type: ignore[arg-type]
    # The weights of the entries are counted: no more and no fewer have room.
    assert len(cache) == 8


def test_weak_cache_stays_consistent_between_threads() -> None:
    cache: WeakKeyLruCache[object, object] = WeakKeyLruCache(40)
    lasting = [literal(b"lasting %d" % number) for number in range(20)]

    def use(seed: int) -> None:
        random = Random(seed)
        for number in range(2000):
            key = literal(b"%d %d" % (seed, number)) if number % 2 else random.choice(lasting)
            cache.put(key, [key.max_length], 1 + number % 3)
            cache.get(random.choice(lasting))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(use, range(4)))
    lasting.clear()
    gc.collect()
    kept = [literal(b"kept %d" % number) for number in range(50)]
    for key in kept:
        cache.put(key, [])
    assert len(cache) == 40


def test_node_that_another_thread_adds_meanwhile_is_the_node() -> None:
    key = ("a test", 1)
    added: list[Literal] = []

    def make() -> Literal:
        added.append(intern_node(key, lambda: Literal(b"ab")))
        return Literal(b"ab")

    assert intern_node(key, make) is added[0]
    added.clear()
    assert intern_node(key, lambda: Literal(b"cd")).text == b"cd"


def test_node_that_another_thread_adds_after_a_dead_one_is_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    added = Literal(b"ab")

    class Table(dict[Any, Any]):
        """Other threads remove a dead node and add another one, one at each call."""

        calls = 0

        def setdefault(self, key: Any, entry: Any = None, /) -> Any:
            self.calls += 1
            if self.calls == 1:
                return lambda: None
            self.add(key)
            return super().setdefault(key, entry)

        def get(self, key: Any, default: Any = None) -> Any:
            found = super().get(key, default)
            if self.calls:
                self.add(key)
            return found

        def add(self, key: Any) -> None:
            super().setdefault(key, lambda: added)

    monkeypatch.setattr(interning, "_TABLE", Table())
    assert interning.add_node(("a test", 2), Literal(b"ab")) is added
