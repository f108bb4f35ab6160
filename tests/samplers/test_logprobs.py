"""Log-probabilities of a token and of the likeliest, beside the same in NumPy."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from samplers import InvalidSamplingParameterError, make_sampler, top_logprobs

INF = math.inf


def check(logits: mx.array, chosen: int, top: int) -> None:
    found = top_logprobs(logits, mx.array([chosen], mx.uint32), top)
    mx.eval(found)
    row = np.array(logits.astype(mx.float32)).reshape(-1)
    count = min(top, row.size)
    wide = row.astype(np.float64)
    logprobs = wide - (wide.max() + np.log(np.exp(wide - wide.max()).sum()))
    order = np.lexsort((np.arange(row.size), -row))[:count]
    assert np.array(found.ids).tolist() == order.tolist()
    assert_allclose(np.array(found.logprobs), logprobs[order], rtol=1e-5, atol=1e-5)
    assert_allclose(np.array(found.chosen), logprobs[[chosen]], rtol=1e-5, atol=1e-5)
    assert (found.chosen.shape, found.ids.shape, found.logprobs.shape) == ((1,), (count,), (count,))
    assert (found.chosen.dtype, found.ids.dtype, found.logprobs.dtype) == (
        mx.float32,
        mx.uint32,
        mx.float32,
    )


def test_four_tokens() -> None:
    logits = mx.log(mx.array([[0.1, 0.5, 0.4, 0.0]])) + 7
    found = top_logprobs(logits, mx.array([0]), 3)
    assert found.ids.tolist() == [1, 2, 0]
    assert_allclose(np.exp(np.array(found.logprobs)), [0.5, 0.4, 0.1], rtol=1e-5)
    assert_allclose(np.exp(np.array(found.chosen)), [0.1], rtol=1e-5)


def test_masked_tokens_come_last() -> None:
    logits = mx.array([[-INF, 1.0, -INF, 2.0]])
    found = top_logprobs(logits, mx.array([2]), 9)
    assert found.ids.tolist() == [3, 1, 0, 2]
    assert found.logprobs.tolist()[2:] == [-INF, -INF]  # type: ignore[index]
    assert found.chosen.tolist() == [-INF]
    for count, kept in [(2, 1), (3, 700), (2, 20)]:
        few = mx.where(mx.arange(2000) % 997 < count, mx.array(-1.0), mx.array(-INF))
        check(few, kept, 3)
        check(few, kept, 2000)


def test_signs_and_zeros() -> None:
    logits = mx.array([-1.0, -0.0, 0.0, 1e-30, -1e-30, 3.0, -INF, 2.0, -0.0, -50.0])
    assert top_logprobs(logits, mx.array([1]), 10).ids.tolist() == [5, 7, 3, 1, 2, 8, 4, 0, 9, 6]


def test_negative_counts_are_refused() -> None:
    with pytest.raises(InvalidSamplingParameterError, match="top"):
        top_logprobs(mx.zeros((1, 4)), mx.array([0]), -1)


@pytest.mark.parametrize("size", [511, 512, 1025, 10_240, 32_001])
@pytest.mark.parametrize("levels", [1, 3, 40, 0])
def test_rows_of_any_length_with_many_equals(size: int, levels: int) -> None:
    random = np.random.default_rng(size + levels)
    for top in (0, 1, 2, 5, 20, size):
        row = random.normal(size=size) * 4 if not levels else random.integers(levels, size=size)
        check(mx.array(row.astype(np.float32))[None], int(random.integers(size)), top)


@settings(deadline=None)
@given(
    st.lists(st.floats(-100, 100, width=16), min_size=1, max_size=40),
    st.integers(0, 40),
    st.sampled_from([mx.float32, mx.float16, mx.bfloat16]),
    st.integers(1, 60),
    st.data(),
)
def test_the_likeliest_are_those_of_a_stable_sort(
    values: list[float], top: int, dtype: mx.Dtype, times: int, data: st.DataObject
) -> None:
    logits = mx.array(values * times, dtype)[None]
    check(logits, data.draw(st.integers(0, logits.size - 1)), top)
    first = top_logprobs(logits, mx.array([0]), 1).ids.tolist()
    assert make_sampler()(logits, []).tolist() == first
