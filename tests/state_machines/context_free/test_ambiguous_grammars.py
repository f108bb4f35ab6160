"""Ambiguous grammars: exact masks, small states, bounded work."""

from __future__ import annotations

import inspect
import sys
from random import Random

import numpy as np
import pytest
from patched_limits import patch_limits, steps_of
from small_vocabulary import brute_force_mask, small_vocabulary, walk_masks

from state_machines import (
    GrammarBudgetError,
    GrammarStateMachine,
    Matcher,
    StateMachine,
    TokenRejectedError,
)
from state_machines.budgets import step_budget
from state_machines.root import RootMatcher, RootStateMachine, Structured

VOCABULARY = small_vocabulary()

CUBIC = 'root ::= root root root | root root | "a" | "b"'
OPTIONAL = 'root ::= "a" root? root?'
GRAMMARS = {
    "two of itself": 'root ::= root root | "a"',
    "three of itself": CUBIC,
    "optional": OPTIONAL,
    "optional, thrice": 'root ::= "a" root? root? root? | "b"',
    "operators": 'root ::= root "," root | root ":" root | "a" | "{" root "}"',
    "concatenated": 'root ::= a b | b a\na ::= "a" a | "a" | a b\nb ::= "a" b | "b" | b a',
    "indirect": 'root ::= x | y\nx ::= y "a" | "a" | x x\ny ::= x "a" | "b" | y x y',
    "palindromes": 'root ::= "a" root "a" | "b" root "b" | [ab]?',
    "spaces": "root ::= (s word s)*\ns ::= [ \\n]* \nword ::= [a-z]*",
    "words": 'root ::= item (" "* item)*\nitem ::= [^ ]+ | "{" root "}" | [a-z]+ " " root',
}


@pytest.mark.parametrize(
    ("name", "walked_configurations"), [*((name, 64) for name in GRAMMARS), ("spaces", 1)]
)
def test_masks_of_ambiguous_grammars_equal_brute_force(
    name: str, walked_configurations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch_limits(monkeypatch, walked_configurations=walked_configurations)
    vocabulary = small_vocabulary()
    machine = GrammarStateMachine(GRAMMARS[name])
    random = Random(1)
    for _ in range(2):
        walk_masks(machine.matcher(vocabulary), vocabulary, random, 9)


@pytest.mark.parametrize("name", GRAMMARS)
def test_work_grows_polynomially_with_the_text(name: str) -> None:
    """The last tokens of twice the text take at most sixteen times the steps."""
    writing = GrammarStateMachine(GRAMMARS[name]).matcher(small_vocabulary())
    random = Random(2)
    taken: list[int] = []

    def take() -> None:
        mask = writing.allowed_tokens()
        letters = [token for token in b"ab {:,}" if mask[token]]
        writing.advance(random.choice(letters))

    for _ in range(48):
        taken.append(steps_of(take))
    early, late = max(taken[16:24]), max(taken[40:])
    assert late <= 16 * max(early, 100)


def test_eighth_token_of_a_cubic_grammar_is_cheap() -> None:
    writing = GrammarStateMachine(CUBIC).matcher(VOCABULARY)
    for _ in range(30):
        assert steps_of(lambda: writing.advance(ord("a"))) < 5000


@pytest.mark.parametrize("text", [CUBIC, OPTIONAL, GRAMMARS["concatenated"]])
def test_states_deeper_than_the_recursion_limit_have_masks(text: str) -> None:
    machine = GrammarStateMachine(text)
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(len(inspect.stack()) + 100)
        assert machine.begins("a" * 60)
        assert not machine.begins("a" * 60 + "c")
        writing = machine.matcher(VOCABULARY)
        for _ in range(60):
            writing.advance(ord("a"))
    finally:
        sys.setrecursionlimit(limit)


def test_advance_is_bounded_and_atomic(monkeypatch: pytest.MonkeyPatch) -> None:
    writing = GrammarStateMachine(GRAMMARS["indirect"]).matcher(VOCABULARY)
    for token in b"ab" + b"aaaaba" * 3:
        writing.advance(token)
    state = writing.state
    patch_limits(monkeypatch, mask_steps=3)
    with pytest.raises(GrammarBudgetError):
        writing.advance(ord("b"))
    assert writing.state is state
    monkeypatch.undo()
    with step_budget(3), pytest.raises(GrammarBudgetError):
        writing.advance(ord("b"))
    assert writing.state is state
    writing.advance(ord("b"))


def test_answer_is_unchanged_after_its_attribution_exceeds_the_budget() -> None:
    answer = RootStateMachine(Structured("s", grammar=GrammarStateMachine(OPTIONAL)))

    def written() -> RootMatcher:
        writing = answer.matcher(VOCABULARY)
        writing.advance(ord("a"))
        return writing

    for limit in range(200):
        writing = written()
        state, parts = writing.state, writing.parts
        try:
            with step_budget(limit):
                writing.advance(ord("a"))
        except GrammarBudgetError:
            assert writing.state is state
            assert writing.parts == parts
            assert b"".join(piece.text for piece in writing.take_pieces()) in (b"", b"a")
        else:
            break
    writing.take_pieces()
    with pytest.raises(TokenRejectedError):
        writing.advance(ord("x"))
    writing.advance(ord("a"))


def test_repeated_attempts_complete_a_mask_that_exceeded_its_budget() -> None:
    """Results computed within a budget are stored, so small budgets make progress."""
    writing = GrammarStateMachine(CUBIC).matcher(small_vocabulary())
    for token in b"abaabbab":
        writing.advance(token)
    whole = steps_of(GrammarStateMachine(CUBIC).matcher(small_vocabulary()).allowed_tokens)
    refused = 0
    for limit in range(10, 10_000, 10):
        try:
            with step_budget(limit):
                mask = writing.allowed_tokens()
            break
        except GrammarBudgetError:
            refused += 1
    assert refused
    assert whole
    assert np.array_equal(mask, brute_force_mask(writing.state, VOCABULARY))


@pytest.mark.parametrize("text", [CUBIC, OPTIONAL, GRAMMARS["words"]])
def test_forced_bytes_are_the_common_prefix_of_all_derivations(text: str) -> None:
    machine: StateMachine = GrammarStateMachine(text)
    writing: Matcher = machine.matcher(VOCABULARY)
    assert writing.forced_bytes() == (b"a" if text == OPTIONAL else b"")
