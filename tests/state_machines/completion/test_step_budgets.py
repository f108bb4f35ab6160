"""What is asked within few steps leaves nothing behind that changes later answers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from small_vocabulary import small_vocabulary

from state_machines import (
    GrammarBudgetError,
    GrammarStateMachine,
    JsonSchemaStateMachine,
    Matcher,
    RegexStateMachine,
    StateMachine,
    Vocabulary,
)
from state_machines.budgets import step_budget
from state_machines.completion.completion import Completion, LimitedCompletion
from state_machines.errors import UnwritableTextError

VOCABULARY = small_vocabulary()
GAPS = Vocabulary(
    [b"ab", b"bc", b"ca", b"abc", b"cab", b"abcabc", b'{"', b'":', b"1", b"}", b"end"],
    end_token_ids=[10],
)
"""No token is a single letter, so short words are not writable, and tokens are searched for."""

MACHINES: dict[str, tuple[StateMachine, Vocabulary]] = {
    "object": (
        JsonSchemaStateMachine(
            {
                "type": "object",
                "properties": {"a": {"enum": ["x", "y" * 30]}, "b": {"type": "string"}},
                "required": ["a"],
            }
        ),
        VOCABULARY,
    ),
    "array of different strings": (
        JsonSchemaStateMachine(
            {"type": "array", "minItems": 2, "uniqueItems": True, "items": {"type": "string"}}
        ),
        VOCABULARY,
    ),
    "pattern": (RegexStateMachine("(ab|ba){3}c|(abcab|bca)c{4}"), VOCABULARY),
    "grammar": (
        GrammarStateMachine('root ::= item ("," item)*\nitem ::= "a"+ | "(" root ")" | "bc"'),
        VOCABULARY,
    ),
    "words that need a search": (RegexStateMachine("([abc]{5,9}){2}"), GAPS),
    "limited rule": (
        GrammarStateMachine.from_lark(
            'start: word "1"\nword[max_tokens=3]: /([abc]{7}|[ab]{4})c?/'
        ),
        VOCABULARY,
    ),
}

Question = Callable[[Completion, Matcher], Any]

QUESTIONS: dict[str, Question] = {
    "plan": lambda completion, matcher: completion.plan(matcher.state).tokens,
    "shortest": lambda completion, matcher: _shortest(completion, matcher),
    "within": lambda completion, matcher: [
        completion.within(matcher.state, _allowed(completion, matcher), most).tolist()
        for most in (0, 4, 9, 40)
    ],
    "allowed": lambda completion, matcher: _allowed(completion, matcher).tolist(),
}


def _shortest(completion: Completion, matcher: Matcher) -> tuple[int, bool]:
    plan, is_exact = completion.shortest(matcher.state)
    return plan.length, is_exact


def _allowed(completion: Completion, matcher: Matcher) -> Any:
    if isinstance(completion, LimitedCompletion):
        return completion.allowed(matcher.state)
    return matcher.allowed_tokens()


@pytest.mark.parametrize("first", QUESTIONS)
@pytest.mark.parametrize("name", MACHINES)
def test_answers_do_not_depend_on_what_was_asked_within_few_steps(name: str, first: str) -> None:
    machine, vocabulary = MACHINES[name]
    matcher = machine.matcher(vocabulary)
    make = type(matcher.completion)
    # The mask is known, and so are the derivatives: only plans are looked for.
    alone = {question: ask(make(vocabulary), matcher) for question, ask in QUESTIONS.items()}
    for steps in (0, 1, 3, 10, 20, 40, 80, 150, 300, 700, 1500, 4000):
        for question, ask in QUESTIONS.items():
            completion = make(vocabulary)
            with suppress(GrammarBudgetError, UnwritableTextError), step_budget(steps):
                QUESTIONS[first](completion, matcher)
            assert ask(completion, matcher) == alone[question], (question, steps)


@pytest.mark.parametrize("name", MACHINES)
def test_answers_with_few_steps_are_not_given_to_callers_with_more(name: str) -> None:
    machine, vocabulary = MACHINES[name]
    matcher = machine.matcher(vocabulary)
    make = type(matcher.completion)
    allowed = _allowed(make(vocabulary), matcher)
    alone = make(vocabulary).within(matcher.state, allowed, 40)
    exact = _shortest(make(vocabulary), matcher)
    plan = make(vocabulary).plan(matcher.state).tokens
    for steps in (0, 1, 3, 10, 20, 40, 80, 150, 300, 700, 1500, 4000):
        completion = make(vocabulary)
        with suppress(GrammarBudgetError):
            completion.within(matcher.state, allowed, 40, steps=steps)
            completion.shortest(matcher.state, steps=steps)
            completion.plan(matcher.state, steps=steps)
        assert np.array_equal(completion.within(matcher.state, allowed, 40), alone)
        assert _shortest(completion, matcher) == exact
        assert completion.plan(matcher.state).tokens == plan
