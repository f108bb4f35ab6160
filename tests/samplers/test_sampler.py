"""The whole sampler: composition, seeds, and what it promises about masked tokens."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, cast
from unittest import mock

import mlx.core as mx
import numpy as np
import pytest
from distributions import FILTERS
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from samplers import (
    InvalidSamplingParameterError,
    SamplingParameters,
    apply_mask,
    make_sampler,
)
from samplers.draws import draw_rows

FOUR = mx.log(mx.array([[0.5, 0.3, 0.15, 0.05]]))


def draw(parameters: SamplingParameters, logits: mx.array, count: int) -> list[int]:
    """``count`` tokens from the same logits, with nothing to look back at."""
    sampler = make_sampler(parameters)
    return [cast(int, sampler(logits, []).item()) for _ in range(count)]


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_shape_and_dtype(temperature: float, dtype: mx.Dtype) -> None:
    sampler = make_sampler(SamplingParameters(temperature=temperature, top_p=0.9, top_k=3))
    row = sampler(FOUR.astype(dtype), [1])
    flat = sampler(FOUR[0].astype(dtype), [1])
    assert (row.shape, flat.shape) == ((1,), ())
    assert (row.dtype, flat.dtype) == (mx.uint32, mx.uint32)


def test_frequencies_follow_the_probabilities() -> None:
    counts = Counter(draw(SamplingParameters(temperature=1, seed=0), FOUR, 2000))
    for token, probability in enumerate([0.5, 0.3, 0.15, 0.05]):
        deviation = math.sqrt(2000 * probability * (1 - probability))
        assert abs(counts[token] - 2000 * probability) < 5 * deviation


@pytest.mark.parametrize(
    ("options", "reachable"),
    [
        ({}, {0, 1, 2, 3}),
        ({"top_k": 3}, {0, 1, 2}),
        ({"top_k": 3, "top_p": 0.6}, {0, 1}),
        ({"top_k": 3, "min_p": 0.5}, {0, 1}),
        ({"top_p": 0.97, "min_p": 0.2}, {0, 1, 2}),
        ({"top_p": 0.9, "min_p": 0.99, "min_tokens_to_keep": 4}, {0, 1, 2}),
        ({"top_p": 0.9, "logit_bias": {0: -100.0}}, {1, 2}),
        ({"top_k": 2, "logit_bias": {3: 3.0}}, {0, 3}),
        ({"top_k": 10**6}, {0, 1, 2, 3}),
    ],
)
def test_options_compose(options: dict[str, Any], reachable: set[int]) -> None:
    parameters = SamplingParameters(temperature=1.5, seed=1, **options)
    assert set(draw(parameters, FOUR, 300)) == reachable


def test_filters_look_at_untempered_probabilities() -> None:
    """At temperature 100 all four are nearly equal; the filter still sees 0.5 and 0.3."""
    parameters = SamplingParameters(temperature=100, top_p=0.7, seed=0)
    assert set(draw(parameters, FOUR, 100)) == {0, 1}


# --- seeds ----------------------------------------------------------------------------------


def test_a_seed_reproduces_a_run_whatever_others_do() -> None:
    parameters = SamplingParameters(temperature=1, seed=2**64 - 1)
    alone = draw(parameters, FOUR, 50)
    first, other = make_sampler(parameters), make_sampler(SamplingParameters(temperature=1, seed=5))
    mixed = []
    for _ in range(50):
        other(FOUR, [])
        mx.random.uniform()
        mixed.append(first(FOUR, []).item())
    assert mixed == alone
    assert len(set(alone)) > 1
    assert draw(parameters.model_copy(update={"seed": 3}), FOUR, 50) != alone


def test_without_a_seed_runs_differ() -> None:
    logits = mx.zeros((1, 1000))
    parameters = SamplingParameters(temperature=1)
    assert draw(parameters, logits, 8) != draw(parameters, logits, 8)


def test_the_global_random_state_is_left_alone() -> None:
    def state() -> list[Any]:
        return [part.tolist() for part in mx.random.state]

    before = state()
    draw(SamplingParameters(temperature=1, seed=0, top_p=0.9, top_k=2, min_p=0.1), FOUR, 5)
    draw(SamplingParameters(temperature=1), FOUR, 5)
    assert state() == before


# --- masked tokens --------------------------------------------------------------------------


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[float], list[bool], list[int], SamplingParameters]:
    values = draw(st.lists(st.floats(-50, 50, width=16), min_size=2, max_size=8))
    size = len(values)
    allowed = draw(st.lists(st.booleans(), min_size=size, max_size=size).filter(any))
    tokens = draw(st.lists(st.integers(0, size - 1), max_size=6))
    parameters = SamplingParameters(
        temperature=draw(st.sampled_from([0.0, 1e-5, 0.5, 1.0, 100.0])),
        repetition_penalty=draw(st.sampled_from([0.01, 1.0, 100.0])),
        presence_penalty=draw(st.sampled_from([-100.0, 0.0, 100.0])),
        frequency_penalty=draw(st.sampled_from([-100.0, 0.0, 100.0])),
        # Masked tokens are pushed as hard as possible.
        logit_bias={token: 10_000.0 for token in range(size) if not allowed[token]},
        seed=draw(st.integers(0, 2**64 - 1)),
        **draw(FILTERS),
    )
    return values, allowed, tokens, parameters


@settings(deadline=None)
@given(requests(), st.sampled_from([mx.float32, mx.float16, mx.bfloat16]))
def test_masked_tokens_are_never_sampled(
    request: tuple[list[float], list[bool], list[int], SamplingParameters], dtype: mx.Dtype
) -> None:
    values, allowed, tokens, parameters = request
    logits = mx.array([values], dtype)
    given_values, given_tokens = logits.astype(mx.float32).tolist(), list(tokens)
    sampler = make_sampler(parameters)
    masked = apply_mask(logits, mx.array(allowed))
    for _ in range(3):
        assert allowed[cast(int, sampler(masked, tokens).item())]
    assert (logits.astype(mx.float32).tolist(), tokens) == (given_values, given_tokens)


def test_bias_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(InvalidSamplingParameterError, match="logit_bias"):
        make_sampler(SamplingParameters(logit_bias={4: 1.0}))(FOUR, [])


# --- among few ------------------------------------------------------------------------------


@st.composite
def few_requests(
    draw: st.DrawFn,
) -> tuple[mx.array, list[int], list[int], dict[str, Any]]:
    """Logits, the ids of allowed tokens, tokens before, and parameters of penalties and biases."""
    values = draw(st.lists(st.floats(-20, 20, width=16), min_size=1, max_size=30))
    dtype = draw(st.sampled_from([mx.float32, mx.float16, mx.bfloat16]))
    logits = mx.array(values, dtype).reshape(draw(st.sampled_from([(-1,), (1, -1)])))
    size = len(values)
    ids = sorted(draw(st.sets(st.integers(0, size - 1), min_size=1)))
    tokens = draw(st.lists(st.integers(-1, size + 1), max_size=12))
    options = {
        "repetition_penalty": draw(st.sampled_from([1.0, 0.7, 1.5])),
        "presence_penalty": draw(st.sampled_from([0.0, -1.5, 3.0])),
        "frequency_penalty": draw(st.sampled_from([0.0, -0.5, 1.0])),
        "repetition_context_size": draw(st.integers(1, 14)),
        "logit_bias": draw(
            st.dictionaries(st.integers(0, size - 1), st.sampled_from([-50.0, -0.5, 1.0, 50.0]))
        ),
        "seed": 3,
    }
    return logits, ids, tokens, options


def masked(logits: mx.array, ids: list[int]) -> mx.array:
    return apply_mask(logits, mx.array(np.isin(np.arange(logits.shape[-1]), ids)))


@settings(deadline=None)
@given(few_requests(), st.sampled_from([mx.uint32, mx.int32]), st.integers(0, 13))
def test_greedy_among_few_is_greedy_under_a_mask(
    request: tuple[mx.array, list[int], list[int], dict[str, Any]],
    dtype: mx.Dtype,
    prompt_tokens: int,
) -> None:
    logits, ids, tokens, options = request
    sampler = make_sampler(SamplingParameters(**options))
    before = (logits.astype(mx.float32).tolist(), list(tokens))
    chosen = sampler(logits, tokens, mx.array(ids, dtype), prompt_tokens=prompt_tokens)
    expected = sampler(masked(logits, ids), tokens, prompt_tokens=prompt_tokens)
    assert (chosen.dtype, chosen.shape) == (expected.dtype, expected.shape)
    assert chosen.item() == expected.item()
    assert (logits.astype(mx.float32).tolist(), tokens) == before


@settings(deadline=None)
@given(few_requests(), st.data())
def test_among_few_the_distribution_is_that_under_a_mask(
    request: tuple[mx.array, list[int], list[int], dict[str, Any]], data: st.DataObject
) -> None:
    """Of equals at the border top-k may keep any, so there are no equals here."""
    logits, ids, tokens, options = request
    size = logits.shape[-1]
    order = mx.array(data.draw(st.permutations(range(size))), mx.float32)
    logits = (order * 0.7137 - 9).reshape(logits.shape)
    parameters = SamplingParameters(
        temperature=data.draw(st.sampled_from([0.5, 1.0, 100.0])),
        top_p=data.draw(st.sampled_from([0.013, 0.371, 0.737, 0.913, 1.0])),
        top_k=data.draw(st.integers(0, size + 1)),
        min_p=data.draw(st.sampled_from([0.0, 0.0137, 0.31, 1.0])),
        min_tokens_to_keep=data.draw(st.integers(1, size + 1)),
        **options,
    )
    sampler = make_sampler(parameters)
    with mock.patch("samplers.sampler.draw_rows", wraps=draw_rows) as drawn:
        chosen = sampler(logits, tokens, mx.array(ids, mx.uint32))
        sampler(masked(logits, ids), tokens)
    assert chosen.item() in ids
    if len(ids) == 1:
        assert drawn.call_count == 1
        return
    few, full = (call.args[0].reshape(-1) for call in drawn.mock_calls)
    support = np.flatnonzero(np.isfinite(np.array(full)))
    assert np.array(ids)[np.isfinite(np.array(few))].tolist() == support.tolist()
    assert_allclose(mx.softmax(few), mx.softmax(full)[mx.array(ids)], rtol=1e-4, atol=1e-7)


def test_a_single_token_takes_neither_logits_nor_a_random_key() -> None:
    sampler = make_sampler(SamplingParameters(temperature=1, seed=0, presence_penalty=1.0))
    logits = mx.full((1, 4), math.nan)
    assert sampler(logits, [2], mx.array([2])).tolist() == [2]
    assert sampler(logits[0], [2], mx.array([2])).tolist() == 2
    assert sampler(FOUR, []).item() == make_sampler(sampler.parameters)(FOUR, []).item()


@pytest.mark.parametrize(
    "among", [mx.array([], mx.uint32), mx.array([[1]]), mx.array(1), mx.array([1.0])]
)
def test_invalid_among_is_refused(among: mx.array) -> None:
    with pytest.raises(InvalidSamplingParameterError, match="among"):
        make_sampler()(FOUR, [], among)


@pytest.mark.parametrize("among", [[0], [0, 1]])
def test_bias_outside_the_vocabulary_is_refused_among_few(among: list[int]) -> None:
    with pytest.raises(InvalidSamplingParameterError, match="logit_bias"):
        make_sampler(SamplingParameters(logit_bias={4: 1.0}))(FOUR, [], mx.array(among))


# --- XTC ------------------------------------------------------------------------------------


def test_xtc_excludes_tokens_with_its_probability() -> None:
    parameters = SamplingParameters(temperature=1, seed=0, xtc_probability=0.3, xtc_threshold=0.1)
    counts = Counter(draw(parameters, FOUR, 2000))
    # 0 and 1 are excluded at 30% of the tokens, where 2 and 3 share the probability 3 to 1.
    for token, probability in enumerate([0.35, 0.21, 0.15 * 0.7 + 0.3 * 0.75, 0.05 * 0.7 + 0.075]):
        deviation = math.sqrt(2000 * probability * (1 - probability))
        assert abs(counts[token] - 2000 * probability) < 5 * deviation


def test_xtc_spares_special_tokens_among_all_and_among_few() -> None:
    parameters = SamplingParameters(temperature=1, seed=0, xtc_probability=1, xtc_threshold=0.1)
    sampler = make_sampler(parameters, (), [1])
    assert {sampler(FOUR, []).item() for _ in range(100)} == {1, 2, 3}
    few = mx.array([0, 1, 3])
    assert {sampler(FOUR, [], few).item() for _ in range(100)} == {1, 3}
