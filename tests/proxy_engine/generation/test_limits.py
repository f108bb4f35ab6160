"""Deadlines on a clock that the tests move."""

from __future__ import annotations

import pytest

from proxy_engine.generation import Constraint, Deadline, GuardedGrammar
from proxy_engine.generation import limits as limits_module
from state_machines import RegexStateMachine, Vocabulary
from state_machines.completion import Guard


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(limits_module, "time", clock)
    return clock


def test_deadline_is_unbounded_until_the_speed_is_known(clock: Clock) -> None:
    deadline = Deadline(110)
    assert deadline.tokens_left(0) is None
    clock.now = 104
    assert deadline.tokens_left(1) is None
    assert deadline.end(Constraint([deadline], (), 9)) is None


def test_deadline_estimates_the_remaining_tokens_with_a_reserve(clock: Clock) -> None:
    deadline = Deadline(110)
    deadline.tokens_left(1)
    clock.now = 102
    # One second per token and a reserve of a tenth: seven tokens in the remaining eight seconds.
    assert deadline.tokens_left(3) == 7
    clock.now = 109.9
    assert deadline.tokens_left(10) == 0


def test_drafted_tokens_are_spent_but_do_not_count_for_the_speed(clock: Clock) -> None:
    deadline = Deadline(110)
    text = Constraint([deadline], (), 99)
    deadline.tokens_left(1)
    text.generated = 3
    clock.now = 102
    assert deadline.copy(text).copy(text).tokens_left(5) == 5
    assert deadline.tokens_left(3) == 7


def test_passed_deadline_leaves_no_tokens_and_ends_text(clock: Clock) -> None:
    deadline = Deadline(99)
    assert deadline.tokens_left(0) == 0
    assert deadline.tokens_left(1) == 0
    text = Constraint([deadline], (), 9)
    assert text.advance(1, has_alternatives=True) == "length"
    assert text.cut is not None
    assert text.cut.reason == "max_seconds"


def test_text_of_a_grammar_ends_at_a_deadline_only_where_it_is_complete(clock: Clock) -> None:
    vocabulary = Vocabulary([b"a", b"b", b"</s>"], end_token_ids=[2])
    guard = Guard(RegexStateMachine("abb|ab{9}").matcher(vocabulary), 20)
    text = Constraint([Deadline(99), GuardedGrammar(guard)], (2,), 20)
    # No more tokens than needed.
    assert text.mask() is not None
    assert guard.left == guard.needed == 3
    ends = [text.advance(token, has_alternatives=True) for token in (0, 1, 1)]
    assert ends == [None, None, "length"]
