"""Each restriction's mask, what it takes and how it ends a text; and the order of two plans."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy_engine.generation import (
    Constraint,
    Deadline,
    DeviceMasks,
    FastForward,
    GuardedGrammar,
    MinTokens,
    PartLimits,
    RepetitionStop,
    Restriction,
    Script,
)
from proxy_engine.generation import restrictions as restrictions_module
from proxy_engine.generation.restrictions import RestrictedText, SlowMaskError
from state_machines import JsonSchemaStateMachine, RegexStateMachine, StateMachine, Vocabulary
from state_machines.completion import Guard
from state_machines.repetition import RepetitionDetector
from state_machines.root import RootStateMachine, Series, Structured, Text

WORDS = ["Ada", '", "', "abc", "ab", "d"]
VOCABULARY = Vocabulary(
    [*(bytes((byte,)) for byte in range(256)), *(word.encode() for word in WORDS), b"</s>"],
    end_token_ids=[256 + len(WORDS)],
)
END = 256 + len(WORDS)
ABC, AB = 256 + WORDS.index("abc"), 256 + WORDS.index("ab")
MASKS = DeviceMasks()


def byte(character: str) -> int:
    return ord(character)


def grammar(machine: StateMachine, max_tokens: int = 100) -> GuardedGrammar:
    return GuardedGrammar(Guard(machine.matcher(VOCABULARY), max_tokens))


def text_of(*restrictions: Restriction, max_tokens: int = 100, part: Any = None) -> Constraint:
    return Constraint(restrictions, (END,), max_tokens, part=part)


def allowed(text: Constraint) -> list[int]:
    mask = text.mask()
    assert mask is not None
    return [int(i) for i in np.flatnonzero(mask)]


def take(text: Constraint, tokens: Sequence[int]) -> list[Any]:
    return [text.advance(token, has_alternatives=True) for token in tokens]


# The list.


def test_text_without_restrictions_ends_with_an_end_token_or_at_its_maximum() -> None:
    text = text_of(max_tokens=3)
    assert text.mask() is None
    assert take(text, [1, 2, 3]) == [None, None, "length"]
    assert text.cut is not None
    assert text.cut.reason == "max_tokens"
    ended = text_of(max_tokens=2)
    assert take(ended, [1, END]) == [None, "stop"]
    assert ended.cut is None


def test_restrictions_are_asked_in_order_about_what_is_left() -> None:
    asked: list[tuple[str, int]] = []

    class First(Restriction):
        def mask(self, text: RestrictedText, allowed: Any, generated: int) -> Any:
            asked.append(("first", generated))
            return np.ones(VOCABULARY.size, np.bool_)

    class Second(Restriction):
        def mask(self, text: RestrictedText, allowed: Any, generated: int) -> Any:
            assert allowed is not None
            asked.append(("second", generated))
            return allowed

        def end(self, text: RestrictedText) -> Any:
            return "max_seconds" if text.generated == 2 else None

    text = text_of(First(), Second())
    assert text.mask(unread=1) is not None
    assert asked == [("first", 1), ("second", 1)]
    assert take(text, [1, 2]) == [None, "length"]
    assert text.cut is not None
    assert text.cut.reason == "max_seconds"


def test_draft_is_independent_of_the_text_that_it_continues() -> None:
    repetition = RepetitionStop(RepetitionDetector(VOCABULARY))
    machine = RegexStateMachine("abcd|abd")
    text = text_of(PartLimits({"a": 9}, 100), grammar(machine), repetition, Script(), part=None)
    text.restrict(machine.start.compute_word_derivative(b""), [byte("a"), byte("b")])
    before = allowed(text)
    draft = text.draft()
    take(draft, [byte("a"), byte("b"), byte("d")])
    assert (text.generated, text.written, draft.generated, draft.written) == (0, 0, 3, 3)
    assert allowed(text) == before == [byte("a")]


# The grammar.


def test_grammar_masks_takes_and_ends() -> None:
    text = text_of(grammar(RegexStateMachine("a+")))
    assert allowed(text) == [byte("a")]
    assert take(text, [byte("a")]) == [None]
    assert allowed(text) == [byte("a"), END]
    assert take(text, [END]) == ["stop"]


def test_grammar_leaves_out_refused_tokens_only_after_one_was_refused() -> None:
    text = text_of(grammar(RegexStateMachine("a|b{9}"), 3), max_tokens=3)
    assert allowed(text) == [byte("a"), byte("b")]
    assert not text.accepts(byte("b"))
    text.refuse(byte("b"))
    assert allowed(text) == [byte("a")]
    assert text.cut is not None
    assert (text.cut.refused, text.cut.reason) == (b"b", "max_tokens")


def test_cut_is_withdrawn_once_other_tokens_spell_the_refused_text() -> None:
    text = text_of(grammar(RegexStateMachine("abcd|x"), 3), max_tokens=3)
    assert text.accepts(AB)
    assert not text.accepts(byte("a"))
    text.refuse(byte("a"))
    assert text.is_limited
    take(text, [ABC])
    assert not text.is_limited
    text = text_of(grammar(RegexStateMachine("abcd|x"), 3), max_tokens=3)
    text.refuse(byte("a"))
    take(text, [byte("x")])
    assert text.is_limited


def test_slow_mask_is_computed_elsewhere_and_else_the_plan_is_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(restrictions_module, "MASK_STEPS", 0)
    text = text_of(grammar(RegexStateMachine("[ab]{5}c")))
    with pytest.raises(SlowMaskError):
        text.mask()
    text.compute_slow()
    assert allowed(text) == [byte("a"), byte("b"), AB]
    text.follow_plan()
    (planned,) = allowed(text)
    assert text.accepts(planned)
    # Once: the plan of one token is not the mask of its state.
    assert allowed(text) == [byte("a"), byte("b"), AB]


# Unconstrained text, and the minimum.


def test_ids_that_are_no_tokens_are_left_out() -> None:
    usable = np.ones(VOCABULARY.size, np.bool_)
    usable[3] = False
    text = Constraint([], (END,), 9, usable=usable)
    assert text.mask() is usable
    assert not text.accepts(3)
    assert text.accepts(4)


def test_end_tokens_are_masked_before_the_minimum() -> None:
    text = text_of(MinTokens(2, MASKS, VOCABULARY.size))
    assert END not in allowed(text)
    take(text, [1, 2])
    assert text.mask() is None
    # Tokens that are not read yet count.
    text = text_of(MinTokens(2, MASKS, VOCABULARY.size))
    take(text, [1])
    assert text.mask(unread=1) is None


def test_end_tokens_are_allowed_before_the_minimum_if_nothing_else_is() -> None:
    text = text_of(grammar(RegexStateMachine("a{1,2}")), MinTokens(9, MASKS, VOCABULARY.size))
    take(text, [byte("a")])
    assert allowed(text) == [byte("a")]
    take(text, [byte("a")])
    assert allowed(text) == [END]


# Repetition.


def test_value_that_repeats_is_ended_token_by_token() -> None:
    schema = {"type": "array", "items": {"type": "string"}}
    stop = RepetitionStop(RepetitionDetector(VOCABULARY))
    text = text_of(grammar(JsonSchemaStateMachine(schema), 1000), stop, max_tokens=1000)
    take(text, [byte("["), byte('"')])
    items = 0
    while not stop.is_decided:
        assert len(allowed(text)) > 1
        take(text, [256, 257])
        items += 1
        assert items < 100
    assert text.is_scripted
    assert text.cut is not None
    assert text.cut.reason == "repetition"
    assert not text.is_limited
    while stop.is_decided:
        (token,) = allowed(text)
        take(text, [token])
    assert END in allowed(text)


# The script.


def test_forced_text_and_a_forced_end_are_not_sampled() -> None:
    encoder = FastForward(lambda text: list(text.encode()), VOCABULARY)
    text = text_of(grammar(RegexStateMachine("xyz")), Script(encoder))
    tokens: list[int] = []
    for token in text.forced_tokens(tokens):
        tokens.append(token)
        text.advance(token, has_alternatives=False)
    assert tokens == [*b"xyz", END]
    assert text.forced_text == b"xyz</s>"
    sampled = text_of(grammar(RegexStateMachine("xyz")), Script(samples_end=True))
    take(sampled, list(b"xyz"))
    assert list(sampled.forced_tokens(list(b"xyz"))) == []


def test_drawn_option_is_followed_token_by_token() -> None:
    machine = RegexStateMachine("abcd|abd")
    script = Script()
    text = text_of(grammar(machine), script)
    text.restrict(RegexStateMachine("abcd").start, [AB, byte("c")])
    assert text.is_scripted
    assert allowed(text) == [AB]
    assert allowed(text) == [AB]
    take(text, [AB])
    assert allowed(text) == [byte("c")]
    take(text, [byte("c")])
    assert not text.is_scripted


def test_another_token_ends_the_script() -> None:
    text = text_of(grammar(RegexStateMachine("[ab]+")), Script())
    text.restrict(RegexStateMachine("[ab]+").start, [byte("a"), byte("a")])
    take(text, [byte("b")])
    assert not text.is_scripted
    assert len(allowed(text)) > 1


def test_grammar_comes_before_the_script_so_that_some_token_is_always_left() -> None:
    """The script needs four tokens where three are left; the grammar's plan needs two."""
    machine = RegexStateMachine("abcd")
    text = text_of(grammar(machine, 3), Script(), max_tokens=3)
    text.restrict(machine.start, list(b"abcd"))
    assert allowed(text) == [byte("a")]
    assert not text.accepts(byte("a"))
    text.refuse(byte("a"))
    # The script has ended, and the text is completed without it.
    assert byte("a") not in allowed(text)
    assert all(map(text.accepts, allowed(text)))
    assert not text.is_scripted


def test_script_asks_for_nothing_that_the_grammar_refuses() -> None:
    text = text_of(grammar(RegexStateMachine("[ab]+")), Script())
    text.restrict(RegexStateMachine("[ab]+").start, [byte("z")])
    assert allowed(text) == [byte("a"), byte("b"), AB]


# Limits of parts.


def test_tokens_that_are_sampled_again_count_once_towards_the_limit_of_a_part() -> None:
    part = Text(name="text")
    machine = RootStateMachine(part)
    text = text_of(PartLimits({"text": 3}, 100), grammar(machine))
    for _ in range(3):
        for _ in range(2):
            assert END in allowed(text)
            assert len(allowed(text)) > 9
        take(text, [byte("x")])
    assert allowed(text) == [END]
    assert text.is_limited


# Deadlines, on a clock that the tests move.


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(restrictions_module, "time", clock)
    return clock


def test_deadline_is_unbounded_until_the_speed_is_known(clock: Clock) -> None:
    deadline = Deadline(110)
    assert deadline.tokens_left(0) is None
    clock.now = 104
    assert deadline.tokens_left(1) is None
    assert deadline.end(text_of(deadline)) is None


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
    text = text_of(deadline)
    deadline.tokens_left(1)
    text.generated = 3
    clock.now = 102
    assert deadline.copy(text).copy(text).tokens_left(5) == 5
    assert deadline.tokens_left(3) == 7


def test_passed_deadline_leaves_no_tokens_and_ends_text(clock: Clock) -> None:
    deadline = Deadline(99)
    assert deadline.tokens_left(0) == 0
    assert deadline.tokens_left(1) == 0
    text = text_of(deadline)
    assert text.advance(1, has_alternatives=True) == "length"
    assert text.cut is not None
    assert text.cut.reason == "max_seconds"


def test_text_of_a_grammar_ends_at_a_deadline_only_where_it_is_complete(clock: Clock) -> None:
    both = grammar(RegexStateMachine("xyy|xy{9}"), 20)
    text = text_of(Deadline(99), both, max_tokens=20)
    # No more tokens than needed.
    assert allowed(text) == [byte("x")]
    assert both.guard.left == both.guard.needed == 3
    assert take(text, list(b"xyy")) == [None, None, "length"]


# All of them together.

MACHINES = [
    JsonSchemaStateMachine({"type": "array", "items": {"type": "string"}}),
    JsonSchemaStateMachine({"type": "object", "properties": {"a": {"type": "integer"}}}),
    RegexStateMachine("(ab|abc|d)*x{2,30}"),
    RootStateMachine(
        Series(Text(), Structured("value", begin="<", grammar=RegexStateMachine("a+>")))
    ),
]


@given(st.sampled_from(MACHINES), st.integers(40, 120), st.integers(0, 1 << 30))
@settings(max_examples=60, deadline=None)
def test_some_token_is_left_until_the_text_is_complete_within_its_limits(
    machine: StateMachine, max_tokens: int, seed: int
) -> None:
    random, clock = Random(seed), Clock()
    limits = {"text": random.randrange(1, 9), "value": random.randrange(1, 9)}
    deadline = Deadline(clock.now + random.choice([0, 5, 20, 999]))
    guarded = grammar(machine, max_tokens)
    optional: list[Restriction] = [
        deadline,
        PartLimits(limits, max_tokens),
        guarded,
        MinTokens(random.randrange(9), MASKS, VOCABULARY.size),
        RepetitionStop(RepetitionDetector(VOCABULARY)),
        Script(),
    ]
    kept = [each for each in optional if each is guarded or random.random() < 0.6]
    text, written, end = text_of(*kept, max_tokens=max_tokens), 0, None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(restrictions_module, "time", clock)
        while end is None:
            clock.now += random.random()
            if random.random() < 0.2:
                text.restrict(guarded.matcher.state, random.choices(range(256), k=3))
            token = random.choice(allowed(text))
            if not text.accepts(token):
                text.refuse(token)
                token = random.choice(allowed(text))
            if not text.accepts(token):
                text.follow_plan()
                token = allowed(text)[0]
            draft = text.draft()
            end = text.advance(token, has_alternatives=True)
            assert draft.advance(token, has_alternatives=True) == end
            # Drafted tokens take no time.
            assert end or deadline in kept or allowed(draft) == allowed(text)
            written += 1
    assert written <= max_tokens
    assert guarded.matcher.is_accepting
