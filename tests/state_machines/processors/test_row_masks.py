"""Masks of rows by their histories, in the orders in which generate loops show them."""

from __future__ import annotations

import json
import random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_vocabulary import small_vocabulary

from state_machines import MaxTokensTooSmallError, RegexStateMachine, TokenRejectedError
from state_machines.processors.arguments import machine_of
from state_machines.processors.row_masks import RowMasks

VOCABULARY = small_vocabulary()
END = min(VOCABULARY.end_token_ids)
SCHEMAS = [
    {"type": "array", "items": {"enum": ["a", "ab", None]}, "maxItems": 4},
    {"properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}}, "required": ["b"],
     "additionalProperties": False},
    {"type": "string", "maxLength": 12},
]  # fmt: skip


def ids(*rows: list[int]) -> npt.NDArray[np.int64]:
    return np.array(rows, np.int64)


def token(text: bytes) -> int:
    return VOCABULARY.token_bytes.index(text)


def expected(machine: object, tokens: list[int]) -> npt.NDArray[np.bool_]:
    """The mask after some tokens, from a matcher that takes them one by one."""
    matcher = machine_of(machine).matcher(VOCABULARY)
    for token_id in tokens:
        matcher.advance(token_id)
    return matcher.allowed_tokens()


@pytest.mark.parametrize("prompt", [[7, 7, token(b"b")], [token(b"a")], []])
def test_tokens_of_the_first_call_are_the_prompt(prompt: list[int]) -> None:
    masks = RowMasks(RegexStateMachine("ab"), VOCABULARY)
    (first,) = masks.masks(ids(prompt))
    assert np.array_equal(first, expected(RegexStateMachine("ab"), []))
    (second,) = masks.masks(ids([*prompt, token(b"a")]))
    assert np.array_equal(second, expected(RegexStateMachine("b"), []))


def test_new_prompt_begins_a_new_text() -> None:
    machine = RegexStateMachine("ab")
    masks = RowMasks(machine, VOCABULARY)
    masks.masks(ids([1]))
    masks.masks(ids([1, token(b"a")]))
    for prompt in ([1], [2], [1, token(b"a"), 5, 6]):
        (mask,) = masks.masks(ids(prompt))
        assert np.array_equal(mask, expected(machine, []))


def test_forbidden_token_raises() -> None:
    masks = RowMasks(RegexStateMachine("a"), VOCABULARY)
    masks.masks(ids([1]))
    with pytest.raises(TokenRejectedError, match="the loop has taken it") as caught:
        masks.masks(ids([1, token(b"b")]))
    assert caught.value.token_id == token(b"b")
    # The processor can be used again.
    assert masks.masks(ids([1]))[0][token(b"a")]


def test_row_with_a_forbidden_token_does_not_disturb_others() -> None:
    masks = RowMasks(RegexStateMachine("ab"), VOCABULARY)
    masks.masks(ids([1], [1]))
    a, b = token(b"a"), token(b"b")
    left, kept = masks.masks(ids([1, b], [1, a]))
    assert set(np.flatnonzero(left)) == VOCABULARY.end_token_ids
    assert kept[b]
    masks.masks(ids([1, b, 9], [1, a, b]))


def test_reset_makes_the_next_rows_prompts() -> None:
    machine = RegexStateMachine("ab")
    masks = RowMasks(machine, VOCABULARY)
    masks.masks(ids([1]))
    masks.reset()
    (mask,) = masks.masks(ids([1, token(b"b")]))
    assert np.array_equal(mask, expected(machine, []))


def test_copy_has_seen_no_rows() -> None:
    masks = RowMasks(RegexStateMachine("ab"), VOCABULARY)
    masks.masks(ids([1]))
    (mask,) = masks.copy().masks(ids([1, token(b"a")]))
    assert mask[token(b"a")]


def test_array_of_the_caller_may_be_overwritten() -> None:
    masks = RowMasks(RegexStateMachine("ab"), VOCABULARY)
    buffer = ids([1, 0])
    masks.masks(buffer[:, :1])
    buffer[0, 1] = token(b"a")
    assert masks.masks(buffer)[0][token(b"b")]
    buffer[:] = 3
    assert masks.masks(buffer)[0][token(b"a")]


def test_too_few_tokens_are_refused_before_the_first_call() -> None:
    with pytest.raises(MaxTokensTooSmallError):
        RowMasks(machine_of({"const": "x" * 100}), VOCABULARY, 5)


def check_mask(
    mask: npt.NDArray[np.bool_], schema: object, text: list[int], max_tokens: int | None
) -> None:
    """Compare a mask with that of a matcher: equal without a limit, otherwise a part of it."""
    assert mask.any()
    if END in text:
        assert set(np.flatnonzero(mask)) == VOCABULARY.end_token_ids
    elif max_tokens is None:
        assert np.array_equal(mask, expected(schema, text))
    else:
        assert not (mask & ~expected(schema, text)).any()


def choose(draw: random.Random, mask: npt.NDArray[np.bool_]) -> int:
    if mask[END] and draw.random() < 0.3:
        return END
    allowed = np.flatnonzero(mask).tolist()
    return draw.choice([i for i in allowed if i not in VOCABULARY.end_token_ids] or [END])


@pytest.mark.parametrize("max_tokens", [None, 12])
@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), schema=st.sampled_from(SCHEMAS))
def test_rows_may_be_moved_copied_repeated_and_cut_back(
    max_tokens: int | None, seed: int, schema: object
) -> None:
    draw = random.Random(seed)
    masks = RowMasks(machine_of(schema), VOCABULARY, max_tokens)
    prompts = [[draw.randrange(20) for _ in range(3)] for _ in range(2)]
    texts: list[tuple[list[int], list[int]]] = [(prompt, []) for prompt in prompts]
    seen: list[tuple[list[int], list[int]]] = []
    for _ in range(12):
        got = masks.masks(ids(*(prompt + text for prompt, text in texts)))
        seen.extend(texts)
        pool = []
        for (prompt, text), mask in zip(texts, got, strict=True):
            check_mask(mask, schema, text, max_tokens)
            pool.append((prompt, [*text, choose(draw, mask)]))
        length = len(pool[0][1])
        if draw.random() < 0.2:
            length = draw.randrange(length)
        pool = [row for row in pool + seen if len(row[1]) == length]
        texts = [draw.choice(pool) for _ in range(draw.randint(1, 3))]


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), schema=st.sampled_from(SCHEMAS), max_tokens=st.integers(12, 30))
def test_text_is_complete_within_max_tokens(seed: int, schema: object, max_tokens: int) -> None:
    draw = random.Random(seed)
    masks = RowMasks(machine_of(schema), VOCABULARY, max_tokens)
    row = [1, 2]
    for _ in range(max_tokens + 1):
        token_id = draw.choice(np.flatnonzero(masks.masks(ids(row))[0]).tolist())
        if token_id in VOCABULARY.end_token_ids:
            break
        row.append(token_id)
    text = VOCABULARY.decode(row[2:])
    assert len(row) - 2 <= max_tokens
    assert machine_of(schema).matches(text)
    json.loads(text)
