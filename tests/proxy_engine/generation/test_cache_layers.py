"""A cache that drops the last tokens of its rows equals one that never took them."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
from cached_models import VOCABULARY, is_close, model_of
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import make_prompt_cache

from proxy_engine.generation.cache_layers import extract_row, merge, right_padded, trim_rows

TOKENS = st.integers(0, VOCABULARY - 1)


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


def test_equal_counts_trim_the_cache_of_a_single_sequence() -> None:
    model = model_of("plain")
    cache = make_prompt_cache(model)
    model(mx.array([[3, 1, 4, 1, 5]]), cache=cache)
    trim_rows(cache, [2])
    assert [layer.offset for layer in cache] == [3, 3]


def test_trimming_nothing_leaves_the_cache_as_it_is() -> None:
    cache = cache_of([[1, 2], [3]])
    arrays = [layer.keys for layer in cache]
    trim_rows(cache, [0, 0])
    assert all(layer.keys is array for layer, array in zip(cache, arrays, strict=True))
