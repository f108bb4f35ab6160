"""Transforms on four tokens, with answers worked out by hand."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm import sample_utils
from numpy.testing import assert_allclose

from samplers import (
    InvalidSamplingParameterError,
    apply_logit_bias,
    apply_mask,
    apply_min_p,
    apply_penalties,
    apply_temperature,
    apply_top_k,
    apply_top_p,
    apply_xtc,
)

INF = math.inf


def probabilities(logits: mx.array) -> list[float]:
    return [round(p, 4) for p in mx.softmax(logits.reshape(-1), axis=-1).tolist()]  # type: ignore[union-attr,arg-type]


def logprobs(*values: float) -> mx.array:
    return mx.log(mx.array(values))


FOUR = (0.5, 0.3, 0.15, 0.05)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.parametrize("shape", [(4,), (1, 4)])
def test_mask(dtype: mx.Dtype, shape: tuple[int, ...]) -> None:
    logits = mx.array([1.0, math.nan, INF, -2.0]).astype(dtype).reshape(shape)
    masked = apply_mask(logits, mx.array([True, False, False, True]))
    assert masked.dtype == dtype
    assert masked.shape == shape
    assert masked.astype(mx.float32).reshape(-1).tolist() == [1.0, -INF, -INF, -2.0]


@pytest.mark.parametrize(
    "mask",
    [mx.array([True] * 3), mx.array([True]), mx.array(True), mx.array([1.0, 0.0, 1.0, 1.0])],
)
def test_masks_that_do_not_fit_are_refused(mask: mx.array) -> None:
    with pytest.raises(InvalidSamplingParameterError, match="mask"):
        apply_mask(mx.zeros((1, 4)), mask)


def test_logit_bias() -> None:
    logits = mx.array([[0.0, 1.0, -INF, 2.0]])
    assert apply_logit_bias(logits, [(3, -5.0), (0, 1.5), (2, 100.0)]).tolist() == [
        [1.5, 1.0, -INF, -3.0]
    ]
    assert apply_logit_bias(logits[0], [(1, 1.0)]).tolist() == [0.0, 2.0, -INF, 2.0]


@pytest.mark.parametrize("bias", [[(4, 1.0)], [(-1, 1.0)], [(1, 1.0), (1, 2.0)]])
def test_logit_bias_outside_the_vocabulary_is_refused(bias: list[tuple[int, float]]) -> None:
    with pytest.raises(InvalidSamplingParameterError, match="logit_bias"):
        apply_logit_bias(mx.zeros((1, 4)), bias)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"repetition_penalty": 2.0}, [2.0, -4.0, 3.0, -INF]),
        ({"repetition_penalty": 0.5}, [8.0, -1.0, 3.0, -INF]),
        ({"presence_penalty": 1.0}, [3.0, -3.0, 3.0, -INF]),
        ({"frequency_penalty": 1.0}, [2.0, -3.0, 3.0, -INF]),
        (
            {"repetition_penalty": 2.0, "presence_penalty": 0.5, "frequency_penalty": 0.25},
            [1.0, -4.75, 3.0, -INF],
        ),
        ({"repetition_penalty": 2.0, "window": 2}, [2.0, -2.0, 3.0, -INF]),
        ({"frequency_penalty": 1.0, "window": 1}, [3.0, -2.0, 3.0, -INF]),
        ({}, [4.0, -2.0, 3.0, -INF]),
    ],
)
@pytest.mark.parametrize("shape", [(4,), (1, 4)])
def test_penalties(options: dict[str, Any], expected: list[float], shape: tuple[int, ...]) -> None:
    """Tokens 0 (twice), 1 and the masked 3 were seen; ids 9 and -1 are none of the vocabulary."""
    logits = mx.array([4.0, -2.0, 3.0, -INF]).reshape(shape)
    penalised = apply_penalties(logits, [9, -1, 1, 0, 3, 0], **options)
    assert penalised.reshape(-1).tolist() == expected
    assert penalised.shape == shape


@given(
    st.lists(st.integers(-1, 8), max_size=12),
    st.integers(0, 14),
    st.integers(1, 14),
    st.floats(-2, 2),
    st.floats(-2, 2),
)
def test_presence_and_frequency_count_the_answer_alone(
    tokens: list[int], prompt_tokens: int, window: int, presence: float, frequency: float
) -> None:
    """OpenAI's formula: ``mu[j] - c[j] * frequency - (c[j] > 0) * presence``."""
    logits = mx.array([1.5, -2.0, 0.0, 4.0, -0.5, 3.0])
    first = max(prompt_tokens, len(tokens) - window)
    counts = Counter(tokens[first:])
    penalised = apply_penalties(
        logits,
        tokens,
        prompt_tokens=prompt_tokens,
        presence_penalty=presence,
        frequency_penalty=frequency,
        window=window,
    )
    expected = [
        logit - counts[j] * frequency - (counts[j] > 0) * presence
        for j, logit in enumerate(logits.tolist())
    ]
    assert_allclose(penalised, mx.array(expected), rtol=1e-5, atol=1e-5)


def test_the_repetition_penalty_counts_the_prompt_too() -> None:
    logits = mx.array([4.0, 4.0, 4.0])
    penalised = apply_penalties(
        logits, [0, 1], prompt_tokens=1, repetition_penalty=2.0, presence_penalty=1.0
    )
    assert penalised.tolist() == [2.0, 1.0, 4.0]


@pytest.mark.parametrize(
    ("top_k", "expected"),
    [
        (0, [0.5, 0.3, 0.15, 0.05]),
        (1, [1.0, 0.0, 0.0, 0.0]),
        (2, [0.625, 0.375, 0.0, 0.0]),
        (4, [0.5, 0.3, 0.15, 0.05]),
        (99, [0.5, 0.3, 0.15, 0.05]),
    ],
)
def test_top_k(top_k: int, expected: list[float]) -> None:
    assert probabilities(apply_top_k(logprobs(*FOUR), top_k)) == expected
    assert probabilities(apply_top_k(logprobs(*FOUR)[None], top_k)) == expected


@pytest.mark.parametrize(
    ("top_p", "expected"),
    [
        (1.0, [0.5, 0.3, 0.15, 0.05]),
        (0.01, [1.0, 0.0, 0.0, 0.0]),
        (0.49, [1.0, 0.0, 0.0, 0.0]),
        (0.51, [0.625, 0.375, 0.0, 0.0]),
        (0.94, [0.5263, 0.3158, 0.1579, 0.0]),
        (0.96, [0.5, 0.3, 0.15, 0.05]),
    ],
)
def test_top_p(top_p: float, expected: list[float]) -> None:
    assert probabilities(apply_top_p(logprobs(*FOUR), top_p)) == expected


def test_top_p_counts_allowed_tokens_only() -> None:
    """Half of the mass is masked off: of what is left, 0.3 is 60%."""
    masked = apply_mask(logprobs(*FOUR), mx.array([False, True, True, True]))
    assert probabilities(apply_top_p(masked, 0.59)) == [0.0, 1.0, 0.0, 0.0]
    assert probabilities(apply_top_p(masked, 0.61)) == [0.0, 0.6667, 0.3333, 0.0]


@pytest.mark.parametrize(
    ("min_p", "keep", "expected"),
    [
        (0.0, 1, [0.5, 0.3, 0.15, 0.05]),
        (0.05, 1, [0.5, 0.3, 0.15, 0.05]),
        (0.2, 1, [0.5263, 0.3158, 0.1579, 0.0]),
        (0.5, 1, [0.625, 0.375, 0.0, 0.0]),
        (1.0, 1, [1.0, 0.0, 0.0, 0.0]),
        (1.0, 3, [0.5263, 0.3158, 0.1579, 0.0]),
        (1.0, 99, [0.5, 0.3, 0.15, 0.05]),
    ],
)
def test_min_p(min_p: float, keep: int, expected: list[float]) -> None:
    assert probabilities(apply_min_p(logprobs(*FOUR), min_p, keep)) == expected


def test_min_p_keeps_no_masked_token() -> None:
    masked = apply_mask(logprobs(*FOUR), mx.array([False, True, False, True]))
    assert probabilities(apply_min_p(masked, 1.0, 3)) == [0.0, 0.8571, 0.0, 0.1429]


@pytest.mark.parametrize(
    ("temperature", "expected"),
    [
        (1.0, [0.5, 0.3, 0.15, 0.05]),
        (0.5, [0.6849, 0.2466, 0.0616, 0.0068]),
        (1e-5, [1.0, 0.0, 0.0, 0.0]),
    ],
)
def test_temperature(temperature: float, expected: list[float]) -> None:
    assert probabilities(apply_temperature(logprobs(*FOUR), temperature)) == expected


@pytest.mark.parametrize("shape", [(4,), (1, 4)])
def test_filters_give_what_those_of_mlx_lm_give(shape: tuple[int, ...]) -> None:
    given_logprobs = logprobs(0.15, 0.5, 0.05, 0.3)
    pairs = [
        (apply_top_k, sample_utils.apply_top_k, (2,)),
        (apply_top_p, sample_utils.apply_top_p, (0.9,)),
        (apply_min_p, sample_utils.apply_min_p, (0.4, 3)),
    ]
    for ours, theirs, arguments in pairs:
        row = given_logprobs.reshape(shape)
        assert ours(row, *arguments).tolist() == theirs(row, *arguments).tolist()


# --- laws -----------------------------------------------------------------------------------

numbers = st.floats(-30, 30, width=32)
logit_lists = st.lists(numbers, min_size=2, max_size=12)


@st.composite
def transforms(draw: st.DrawFn) -> tuple[list[float], list[mx.array]]:
    """Logits with some masked tokens, and what each transform makes of them."""
    values = draw(logit_lists)
    size = len(values)
    allowed = draw(st.lists(st.booleans(), min_size=size, max_size=size).filter(any))
    values = [value if keep else -INF for value, keep in zip(values, allowed, strict=True)]
    logits = mx.array(values, draw(st.sampled_from([mx.float32, mx.float16, mx.bfloat16])))
    tokens = draw(st.lists(st.integers(0, size), max_size=8))
    given_values = logits.astype(mx.float32).tolist()
    results = [
        apply_mask(logits, mx.array(allowed)),
        apply_logit_bias(logits, [(token, 100.0) for token in range(size)]),
        apply_penalties(
            logits,
            tokens,
            repetition_penalty=draw(st.sampled_from([0.5, 1.0, 1.3])),
            presence_penalty=draw(st.sampled_from([-2.0, 0.0, 2.0])),
            frequency_penalty=draw(st.sampled_from([-2.0, 0.0, 2.0])),
        ),
        apply_top_k(logits, draw(st.integers(0, size + 2))),
        apply_top_p(logits, draw(st.floats(0.01, 1))),
        apply_min_p(logits, draw(st.floats(0, 1)), draw(st.integers(1, size + 2))),
        apply_temperature(logits, draw(st.sampled_from([1e-5, 0.3, 1.0, 100.0]))),
    ]
    mx.eval(results)
    # What was handed in reads the same after everything has run.
    assert logits.astype(mx.float32).tolist() == given_values
    return given_values, results  # type: ignore[return-value]


@given(transforms())
def test_no_transform_brings_a_masked_token_back_or_makes_a_nan(
    case: tuple[list[float], list[mx.array]],
) -> None:
    values, results = case
    for result in results:
        after = np.array(result.astype(mx.float32))
        assert not np.isnan(after).any()
        assert np.isneginf(after[np.isneginf(values)]).all()
        assert np.isfinite(after).any()


@given(logit_lists, st.floats(0.05, 1), st.floats(0.01, 0.99))
def test_filters_keep_the_likeliest_and_change_no_kept_value(
    values: list[float], top_p: float, min_p: float
) -> None:
    given_logprobs = mx.array(values) - mx.logsumexp(mx.array(values))
    before = np.array(given_logprobs)
    for result in (
        apply_top_p(given_logprobs, top_p),
        apply_min_p(given_logprobs, min_p),
        apply_top_k(given_logprobs, 2),
    ):
        after = np.array(result)
        kept = np.isfinite(after)
        assert_allclose(after[kept], before[kept])
        assert after.max() == before.max()
        assert kept.all() or before[kept].min() >= before[~kept].max()


def test_top_p_below_the_smallest_float32_keeps_the_most_likely_token() -> None:
    for top_p in (5e-324, 4.7e-105, 1e-46, 1e-30):
        assert probabilities(apply_top_p(logprobs(*FOUR), top_p)) == [1.0, 0.0, 0.0, 0.0]


# --- XTC ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threshold", "kept"),
    [(0.0, {3}), (0.1, {2, 3}), (0.2, {1, 2, 3}), (0.4, {0, 1, 2, 3}), (0.9, {0, 1, 2, 3})],
)
def test_xtc_keeps_the_least_likely_of_the_likely_tokens(threshold: float, kept: set[int]) -> None:
    found = apply_xtc(logprobs(*FOUR), threshold)
    assert {n for n in range(4) if found[n].item() > -INF} == kept
    assert_allclose(found[3].item(), math.log(0.05), rtol=1e-6)


@given(
    st.lists(st.floats(-4, 4, width=32), min_size=2, max_size=12),
    st.floats(0, 0.5),
    st.sets(st.integers(0, 1)),
)
def test_xtc_is_that_of_mlx_lm(numbers: list[float], threshold: float, special: set[int]) -> None:
    logits = mx.array(numbers)
    normalized = logits - mx.logsumexp(logits)
    protected = mx.array([n in special for n in range(len(numbers))])
    theirs = sample_utils.apply_xtc(normalized, 1.0, threshold, sorted(special))
    assert_allclose(np.array(apply_xtc(normalized, threshold, protected)), np.array(theirs))
