"""Log-probabilities of a token and of the likeliest, beside the same in NumPy."""

from __future__ import annotations

import math
from typing import Any, cast

import mlx.core as mx
import numpy as np
import pytest
from distributions import FILTERS, chi_square_p_value
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from samplers import (
    InvalidSamplingParameterError,
    Sampler,
    SamplingParameters,
    make_sampler,
    sample_rows,
    top_logprobs,
)
from samplers.draws import RandomKeys, draw_rows

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


# Rows that are sampled together: each row has the tokens that its sampler selects alone.


def samplers(seeds: list[int], options: dict[str, Any]) -> list[Sampler]:
    return [make_sampler(SamplingParameters(seed=seed, **options)) for seed in seeds]


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5),
    FILTERS,
    st.sampled_from([0.0, 1e-5, 0.7, 1.0, 100.0]),
    st.sampled_from([3, 50, 1001]),
    st.sampled_from([mx.float32, mx.float16, mx.bfloat16]),
    st.data(),
)
def test_rows_have_the_tokens_of_their_samplers_alone(
    seeds: list[int],
    filters: dict[str, Any],
    temperature: float,
    size: int,
    dtype: mx.Dtype,
    data: st.DataObject,
) -> None:
    options = {"temperature": temperature, **filters}
    together, alone = samplers(seeds, options), samplers(seeds, options)
    assert len({sampler.row_parameters for sampler in together}) == 1
    for step in range(4):
        rows = data.draw(st.permutations(range(len(seeds))))[: data.draw(st.integers(1, 5))]
        logits = mx.random.normal((len(rows), size), key=mx.random.key(step)).astype(dtype)
        logits[:, 0] = -mx.inf
        tokens = sample_rows([together[row] for row in rows], logits)
        assert (tokens.dtype, tokens.shape) == (mx.uint32, (len(rows),))
        expected = [alone[row](logits[n : n + 1], []).item() for n, row in enumerate(rows)]
        assert tokens.tolist() == expected
        if data.draw(st.booleans()):
            # A token that a sampler selects alone, and a state that is set back.
            assert together[0](logits[0], []).item() == alone[0](logits[0], []).item()
            together[-1].random_state = alone[-1].random_state
    for first, second in zip(together, alone, strict=True):
        assert first.random_state == second.random_state


@pytest.mark.parametrize(
    ("options", "is_possible"),
    [
        ({}, True),
        ({"top_p": 0.5}, False),
        ({"temperature": 0.0}, False),
    ],
)
def test_samplers_with_other_parameters_sample_alone(
    options: dict[str, Any], is_possible: bool
) -> None:
    first = make_sampler(SamplingParameters(temperature=1.0))
    other = make_sampler(SamplingParameters(**{"temperature": 1.0, "seed": 3, **options}))
    assert (first.row_parameters == other.row_parameters) is is_possible


@pytest.mark.parametrize(
    "options", [{"logit_bias": {1: 1.0}}, {"presence_penalty": 1.0}, {"xtc_probability": 0.5}]
)
def test_samplers_that_depend_on_more_than_logits_sample_alone(options: dict[str, Any]) -> None:
    (sampler,) = samplers([1], {"temperature": 1.0, **options})
    assert sampler.row_parameters is None


@pytest.mark.parametrize("size", [5, 255, 1000])
def test_rows_with_keys_that_follow_each_other_have_the_distribution(size: int) -> None:
    shares = {0: 0.5, size // 2: 0.3, size - 2: 0.15, size - 1: 0.05}
    logits = mx.full((size,), -mx.inf)
    for token, share in shares.items():
        logits[token] = mx.log(mx.array(share))
    keys = RandomKeys(seed=3)
    rows = mx.broadcast_to(logits, (2000, size))
    drawn = cast("list[int]", draw_rows(rows, RandomKeys.next_keys([keys] * 2000)).tolist())
    assert chi_square_p_value(drawn, shares) > 0.01
    before, after = np.array(drawn[:-1]) == 0, np.array(drawn[1:]) == 0
    assert abs(np.corrcoef(before, after)[0, 1]) < 0.08
