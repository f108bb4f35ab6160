"""Answers generated token by token: masks, matchers, and ``end_texts``."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from root_compiling import compiled, joined, shortest_ending
from root_strategies import compositions, vocabularies
from schema_strategies import examples
from small_vocabulary import brute_force_mask, cuttings, small_vocabulary

from state_machines import JsonSchemaStateMachine, TokenRejectedError, Vocabulary
from state_machines.completion import Completion, Guard
from state_machines.errors import CompositionError
from state_machines.grammar.node import EMPTY
from state_machines.root import (
    Marker,
    Optional,
    Repeat,
    RootMatcher,
    RootStateMachine,
    Series,
    Structured,
    Text,
)


def advance_at_random(matcher: RootMatcher, random: Random, most: int) -> bytes:
    """Take allowed tokens and return their bytes; fail if no token is allowed."""
    written = b""
    for _ in range(most):
        allowed = np.flatnonzero(matcher.allowed_tokens()).tolist()
        assert allowed, f"dead end after {written!r}"
        ends = [i for i in allowed if i in matcher.vocabulary.end_token_ids]
        plain = [i for i in allowed if i not in ends]
        if not plain or (ends and random.random() < 0.1):
            matcher.advance(random.choice(ends))
            return written
        token_id = random.choice(plain)
        matcher.advance(token_id)
        written += matcher.vocabulary.token_bytes[token_id] or b""
    return written


@examples(60)
@given(compositions(), vocabularies(), st.integers(0, 2**32))
def test_masks_equal_brute_force(composition: Any, vocabulary: Vocabulary, seed: int) -> None:
    matcher = compiled(composition[0], vocabulary).matcher(vocabulary)
    random = Random(seed)
    for step in range(15):
        mask = matcher.allowed_tokens()
        assert (mask == brute_force_mask(matcher.state, vocabulary)).all()
        assert mask.any()
        forbidden = np.flatnonzero(~mask).tolist()
        if forbidden:
            with pytest.raises(TokenRejectedError):
                matcher.advance(random.choice(forbidden))
        plain = [i for i in np.flatnonzero(mask) if i not in vocabulary.end_token_ids]
        if not plain:
            break
        if step == 10:
            matcher.end_texts()
            assert shortest_ending(matcher.state) is not None
            continue
        matcher.advance(int(random.choice(plain)))


@examples(60)
@given(compositions(), vocabularies(), st.data())
def test_pieces_do_not_depend_on_tokenization(
    composition: Any, vocabulary: Vocabulary, data: st.DataObject
) -> None:
    machine = compiled(composition[0], vocabulary)
    matcher = machine.matcher(vocabulary)
    written = advance_at_random(matcher, Random(data.draw(st.integers(0, 2**32))), 12)
    if not matcher.is_finished and not matcher.is_accepting:
        rest = shortest_ending(matcher.state)
        assert rest is not None
        written += rest
    whole = machine.pieces(written)
    other = machine.matcher(vocabulary)
    pieces = []
    for token_id in data.draw(cuttings(written, vocabulary)):
        assert other.allowed_tokens()[token_id]
        other.advance(token_id)
        pieces += other.take_pieces()
    assert other.is_accepting
    twin = other.copy()
    other.advance(min(vocabulary.end_token_ids))
    assert joined([*pieces, *other.take_pieces()]) == whole
    assert joined([*pieces, *twin.take_pieces(is_last=True)]) == whole
    assert twin.take_pieces(is_last=True) == []


@examples(60)
@given(compositions(), vocabularies(), st.integers(0, 2**32), st.integers(0, 8))
def test_end_texts_completes_free_text(
    composition: Any, vocabulary: Vocabulary, seed: int, steps: int
) -> None:
    matcher = compiled(composition[0], vocabulary).matcher(vocabulary)
    random = Random(seed)
    advance_at_random(matcher, random, steps)
    if matcher.is_finished:
        return
    before = matcher.state
    was_accepting = matcher.is_accepting
    free = matcher.copy()
    matcher.end_texts()
    # The other copy still admits its tokens.
    assert free.state is before
    assert matcher.is_accepting == was_accepting
    assert matcher.state is not EMPTY
    ending = shortest_ending(matcher.state)
    assert ending is not None
    assert before.compute_word_derivative(ending).nullable
    written = advance_at_random(matcher, random, 40)
    assert before.compute_word_derivative(written) is not EMPTY


@examples(20)
@given(compositions(), vocabularies(), st.integers(0, 2**32))
def test_matcher_copies_are_independent(
    composition: Any, vocabulary: Vocabulary, seed: int
) -> None:
    matcher = compiled(composition[0], vocabulary).matcher(vocabulary)
    random = Random(seed)
    advance_at_random(matcher, random, 4)
    twin = matcher.copy()
    state, parts = twin.state, twin.parts
    if not matcher.is_finished:
        matcher.end_texts()
        advance_at_random(matcher, random, 4)
    assert (twin.state, twin.parts) == (state, parts)
    assert twin.is_finished or twin.allowed_tokens().any()


@examples(5)
@given(compositions(), vocabularies(), st.integers(0, 2**32))
def test_threads_share_a_machine(composition: Any, vocabulary: Vocabulary, seed: int) -> None:
    machine = compiled(composition[0], vocabulary)

    def write(number: int) -> tuple[bytes, Any]:
        matcher = machine.matcher(vocabulary)
        written = advance_at_random(matcher, Random(seed + number % 3), 15)
        return written, joined(matcher.take_pieces(is_last=True))

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(write, range(12)))
    for number, result in enumerate(results):
        assert result == results[number % 3]


CALL = Series(
    Marker("call", "<tool_call>"),
    Structured("arguments", grammar=JsonSchemaStateMachine({"type": "object"})),
    Marker("call", "</tool_call>"),
)
ANSWER = Series(
    Optional(Text("reasoning", begin="<think>", end="</think>")),
    Text(),
    Repeat(CALL, between=Marker("call", "\n")),
    Text("after"),
)


@pytest.mark.parametrize(
    "answer",
    [
        "<tool_call>",
        "ok <tool_call>",
        "<<tool_call>",
        "<think>so</think> <tool_call>",
        "é<tool_call>",
    ],
)
def test_marker_ends_text_however_it_is_tokenized(answer: str, vocabulary: Vocabulary) -> None:
    machine = RootStateMachine(ANSWER, vocabulary)
    state = machine.start.compute_word_derivative(answer.encode())
    assert state.first_bytes == 1 << ord("{")
    assert not machine.matches(answer)
    random = Random(0)
    for _ in range(5):
        matcher = machine.matcher(vocabulary)
        left = answer.encode()
        while left:
            fitting = [
                token_id
                for token_id, form in enumerate(vocabulary.token_bytes)
                if form is not None and left.startswith(form)
            ]
            token_id = random.choice(fitting)
            matcher.advance(token_id)
            left = left[len(vocabulary.token_bytes[token_id] or b"") :]
        assert [part.name for part in matcher.parts] == ["arguments"]


def test_end_texts_completes_a_partial_character(vocabulary: Vocabulary) -> None:
    machine = RootStateMachine(Series(Text(max_chars=3), Marker("m", "|")), vocabulary)
    matcher = machine.matcher(vocabulary)
    matcher.advance("é".encode()[0])
    matcher.end_texts()
    assert matcher.state.matches("é|".encode()[1:])
    assert not matcher.state.matches("éa|".encode()[1:])


def test_end_texts_completes_a_partial_marker(vocabulary: Vocabulary) -> None:
    matcher = RootStateMachine(ANSWER, vocabulary).matcher(vocabulary)
    for byte in b"so <tool_c":
        matcher.advance(byte)
    matcher.end_texts()
    assert matcher.is_accepting
    assert matcher.state.first_bytes & (1 << ord("a"))
    assert not matcher.state.first_bytes & (1 << ord("x"))


def test_end_texts_respects_min_chars(vocabulary: Vocabulary) -> None:
    matcher = RootStateMachine(Text(min_chars=3), vocabulary).matcher(vocabulary)
    matcher.advance(ord("a"))
    matcher.end_texts()
    assert matcher.state.matches(b"bc")
    assert not matcher.state.matches(b"b")
    assert not matcher.state.matches(b"bcd")


def test_special_token_cannot_be_spelled_by_other_tokens() -> None:
    """Byte-level vocabularies have a token for every byte, that of the mark too."""
    forms = [bytes([byte]) for byte in range(256)]
    vocabulary = Vocabulary(
        [*forms, b"<call>", b"<end>"],
        end_token_ids=[257],
        special_tokens={"<call>": 256, "<end>": 257},
    )
    matcher = RootStateMachine(Marker("call", "<call>"), vocabulary).matcher(vocabulary)
    assert np.flatnonzero(matcher.allowed_tokens()).tolist() == [256]
    matcher = RootStateMachine(Series(Text(), Marker("call", "<call>")), vocabulary).matcher(
        vocabulary
    )
    assert matcher.allowed_tokens()[256]
    assert not matcher.allowed_tokens()[0xFF]


TURNS = Series(
    Text("draft"),
    Marker("turn", "<end><s>b<end>a", continues=True),
    Structured("answer", grammar=JsonSchemaStateMachine({"enum": ["ab", "ba"]})),
)


@examples(20)
@given(st.integers(0, 2**32), st.integers(0, 12))
def test_output_continues_behind_the_end_tokens_of_a_turn(seed: int, draft: int) -> None:
    vocabulary = small_vocabulary()
    end = vocabulary.special_tokens["<end>"]
    guard = Guard(RootStateMachine(TURNS, vocabulary).matcher(vocabulary), 24)
    matcher, random = guard.matcher, Random(seed)
    assert isinstance(matcher, RootMatcher)
    taken: list[int] = []
    while not matcher.is_finished:
        mask = matcher.allowed_tokens()
        assert (mask == brute_force_mask(matcher.state, vocabulary)).all()
        allowed = guard.mask(mask, exact=True)
        assert matcher.explain(end).is_allowed == mask[end]
        token_id = (
            end if len(taken) >= draft and allowed[end] else random.choice(allowed.nonzero()[0])
        )
        guard.advance(int(token_id))
        taken.append(int(token_id))
    assert len(taken) <= 25
    assert taken.count(end) == 3
    pieces = joined(matcher.take_pieces(is_last=True))
    assert b"".join(text for part, text in pieces if part is TURNS.parts[1]).count(b"<end>") == 2
    assert pieces[-1][0] is TURNS.parts[2]
    assert pieces[-1][1] in (b'"ab"', b'"ba"')


def test_end_tokens_of_a_turn_count_in_the_least_tokens() -> None:
    """Their forms are longer than those of all other tokens."""
    forms = [*(bytes([byte]) for byte in range(256)), b"<end>"]
    vocabulary = Vocabulary(forms, end_token_ids=[256], special_tokens={"<end>": 256})
    turn = Marker("turn", "<end>a<end>", continues=True)
    machine = RootStateMachine(Series(turn, Marker("answer", "a")), vocabulary)
    matcher = machine.matcher(vocabulary)
    matcher.advance(256)
    completion = Completion(vocabulary)
    assert completion.lower_bound(matcher.state) <= completion.length(matcher.state) == 3


def test_end_token_inside_a_marker_needs_a_turn() -> None:
    with pytest.raises(CompositionError, match="ends the output"):
        RootStateMachine(Series(Text(), Marker("m", "<end>a")), small_vocabulary())
