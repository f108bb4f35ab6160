"""A cache that gave up tokens equals one that never took them."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
import pytest
from architectures import (
    ARCHITECTURES,
    REPRESENTATIVES,
    VOCABULARY,
    WINDOW,
    WRONG_WIDE_PASSES,
    small_model,
)
from cached_models import VOCABULARY as SMALL
from cached_models import cold, is_close, model_of, read
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import (
    ArraysCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    make_prompt_cache,
)

from proxy_engine.generation.cache_layers import (
    Rollback,
    RowsRollback,
    can_retract,
    extract_row,
    merge,
    must_replay,
    padded_tokens,
    right_padded,
    trim_rows,
)

TOKENS = st.integers(0, SMALL - 1)


def cache_of(texts: list[list[int]]) -> list[Any]:
    """Return a batch cache whose rows hold texts, each processed alone."""
    caches = []
    for text in texts:
        cache = make_prompt_cache(model_of("plain"))
        model_of("plain")(mx.array([text]), cache=cache)
        caches.append(cache)
    return merge(caches)


def next_logits(cache: list[Any], tokens: list[list[int]]) -> list[np.ndarray]:
    """Return the logits of a padded pass behind the last token of each row."""
    lengths = [len(row) for row in tokens]
    padded = [row + [0] * (max(lengths) - len(row)) for row in tokens]
    with right_padded(cache, lengths):
        logits = model_of("plain")(mx.array(padded), cache=cache)
    return [np.array(logits[row, length - 1]) for row, length in enumerate(lengths)]


@settings(max_examples=20)
@given(st.data())
def test_trimmed_rows_equal_rows_that_never_took_the_tokens(data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 4))
    texts = [data.draw(st.lists(TOKENS, min_size=1, max_size=9)) for _ in range(rows)]
    taken = cache_of(texts)
    kept = [list(text) for text in texts]
    # A trimmed cache is trimmed again, with passes in between.
    for _ in range(2):
        widths = [data.draw(st.integers(1, 5)) for _ in range(rows)]
        drafts = [data.draw(st.lists(TOKENS, min_size=n, max_size=n)) for n in widths]
        refused = [data.draw(st.integers(0, n)) for n in widths]
        next_logits(taken, drafts)
        trim_rows(taken, refused)
        for text, draft, count in zip(kept, drafts, refused, strict=True):
            text.extend(draft[: len(draft) - count])
        for row, text in enumerate(kept):
            (alone, expected) = extract_row(taken, row), extract_row(cache_of(kept), row)
            for layer, other in zip(alone, expected, strict=True):
                assert layer.offset == other.offset == len(text)
                assert is_close(np.array(layer.keys), np.array(other.keys))
                assert is_close(np.array(layer.values), np.array(other.values))
            assert [int(layer.offset[row]) for layer in taken] == [len(text)] * len(taken)
    following = [[data.draw(TOKENS)] for _ in range(rows)]
    expected_logits = next_logits(cache_of(kept), following)
    for found, logits in zip(next_logits(taken, following), expected_logits, strict=True):
        assert is_close(found, logits)


@pytest.mark.parametrize("kind", ["sliding", "mixed"])
@settings(max_examples=8)
@given(data=st.data())
def test_rows_of_windows_and_states_that_drop_tokens_never_took_them(
    kind: str, data: st.DataObject
) -> None:
    """Tokens whose states are only restored are processed again."""
    model = model_of(kind)
    texts = [data.draw(st.lists(TOKENS, min_size=1, max_size=WINDOW + 6)) for _ in range(3)]
    caches = []
    for text in texts:
        caches.append(make_prompt_cache(model))
        read(model, text, caches[-1])
    cache = merge(caches)
    assert can_retract(cache)
    pending: list[list[int]] = [[], [], []]
    for _ in range(6):
        fed = [
            [*row, *data.draw(st.lists(TOKENS, min_size=not row, max_size=3))] for row in pending
        ]
        lengths = [len(row) for row in fed]
        rollback = RowsRollback.before(cache, lengths)
        found = model(padded_tokens(fed), cache=cache)
        for row, text in enumerate(texts):
            expected = cold(model, [*text, *fed[row]])
            assert is_close(np.array(found[row, lengths[row] - 1]), expected)
        # The first token is never refused.
        refused = [data.draw(st.integers(0, length - 1)) for length in lengths]
        counts = [max(lengths) - length + n for length, n in zip(lengths, refused, strict=True)]
        again = rollback.drop(counts)
        for row, text in enumerate(texts):
            kept = fed[row][: lengths[row] - refused[row]]
            pending[row] = kept if again[row] else []
            assert again[row] in (0, len(kept))
            text += [] if again[row] else kept


def test_equal_counts_trim_the_cache_of_a_single_sequence() -> None:
    model = model_of("plain")
    cache = make_prompt_cache(model)
    model(mx.array([[3, 1, 4, 1, 5]]), cache=cache)
    trim_rows(cache, [2])
    assert [layer.offset for layer in cache] == [3, 3]


TEXT = [(7919 * n * n + 31) % VOCABULARY for n in range(6 * WINDOW)]
DRAFT = [5, 90, 41, 7, 300, 2]

every_architecture = pytest.mark.parametrize(
    "architecture",
    [
        pytest.param(one, marks=[] if one in REPRESENTATIVES else pytest.mark.soak)
        for one in ARCHITECTURES
        if one not in WRONG_WIDE_PASSES
    ],
)


def processed(model: Module, tokens: list[int]) -> list[Any]:
    cache = make_prompt_cache(model)
    read(model, tokens, cache)
    return cache


def logits_of(model: Module, tokens: list[int], cache: list[Any]) -> npt.NDArray[np.float32]:
    """Return the logits behind every token, shape (tokens, vocabulary)."""
    return np.array(model(mx.array([tokens]), cache=cache)[0])


@every_architecture
def test_refused_tokens_leave_no_trace(architecture: str) -> None:
    """The text grows from below the window to beyond it, by passes with and without a draft."""
    model = small_model(architecture)
    text = TEXT[:3]
    cache = processed(model, text[:-1])
    pending = text[-1:]
    found = []
    for accepted in (1, None, 4, 0, 5, None, 6, 2, 0):
        draft = [] if accepted is None else DRAFT
        tokens = [*pending, *draft]
        rollback = Rollback.before(cache, [len(tokens)])
        logits = logits_of(model, tokens, cache)
        count = len(pending) + (accepted or 0)
        (again,) = rollback.drop([len(tokens) - count])
        assert again in (0, count)
        found += list(logits[len(pending) - 1 : count])
        new = TEXT[len(text)]
        text += [*tokens[len(pending) : count], new]
        pending = [*tokens[count - again : count], new]
    assert len(text) > 2 * WINDOW
    expected = logits_of(model, text[:-1], make_prompt_cache(model))[2:]
    assert all(is_close(*pair) for pair in zip(found, expected, strict=True))


def test_only_states_without_positions_are_replayed() -> None:
    replayed = {one for one in REPRESENTATIVES if must_replay(make_prompt_cache(small_model(one)))}
    assert replayed == {
        *("baichuan_m1", "deepseek_v41", "falcon_h1", "jamba", "kimi_k3"),
        *("longcat_flash_ngram", "mamba", "recurrent_gemma"),
    }


def test_layers_may_be_quantized_by_the_pass() -> None:
    cache: list[Any] = [ArraysCache(1), KVCache()]
    cache[0][0] = mx.array([[1.0]])
    cache[1].update_and_fetch(mx.ones((1, 1, 3, 64)), mx.ones((1, 1, 3, 64)))
    rollback = Rollback.before(cache, [2])
    cache[0][0] = mx.array([[2.0]])
    cache[1].update_and_fetch(mx.ones((1, 1, 2, 64)), mx.ones((1, 1, 2, 64)))
    cache[1] = cache[1].to_quantized()
    assert rollback.drop([1]) == [1]
    assert cache[0][0].item() == 1.0
    assert isinstance(cache[1], QuantizedKVCache)
    assert cache[1].offset == 3


def test_kept_arrays_do_not_follow_assignments_to_slices() -> None:
    """A rotating cache assigns a single token to a slice of its buffer."""
    layer = RotatingKVCache(max_size=4)
    for value in range(6):
        layer.update_and_fetch(mx.full((1, 1, 1, 1), value), mx.full((1, 1, 1, 1), value))
    rollback = Rollback.before([layer], [1])
    layer.update_and_fetch(mx.full((1, 1, 1, 1), 9), mx.full((1, 1, 1, 1), 9))
    assert rollback.drop([1]) == [0]
    assert np.array(layer.keys).ravel().tolist() == [4, 5, 2, 3]
    assert layer.offset == 6
