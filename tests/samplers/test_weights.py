"""Importance weights of sampled tokens, and probabilities of given tokens, against NumPy."""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx
import numpy as np
import numpy.typing as npt
import pytest
from distributions import FILTERS
from hypothesis import given
from hypothesis import strategies as st

from samplers import SamplingParameters, apply_mask, make_sampler

SIZE = 12

Array = npt.NDArray[np.float64]


@st.composite
def parameters(draw: st.DrawFn, *, filters: bool = True) -> SamplingParameters:
    given: dict[str, Any] = {
        "temperature": draw(st.sampled_from([1.0, 0.3, 2.5])),
        "logit_bias": draw(st.dictionaries(st.integers(0, SIZE - 1), st.floats(-3, 3), max_size=3)),
        "presence_penalty": draw(st.sampled_from([0.0, 0.7])),
        "repetition_penalty": draw(st.sampled_from([1.0, 1.5])),
        "seed": draw(st.integers(0, 2**32)),
    }
    return SamplingParameters(**given, **(draw(FILTERS) if filters else {}))


logits_of = st.lists(st.floats(-8, 8, width=32), min_size=SIZE, max_size=SIZE)
masks = st.lists(st.booleans(), min_size=SIZE, max_size=SIZE).filter(any)
texts = st.lists(st.integers(0, SIZE - 1), max_size=6)


def base(parameters: SamplingParameters, logits: list[float], tokens: list[int]) -> Array:
    """The distribution at the sampler's temperature after biases and penalties."""
    adjusted = np.array(logits, np.float64)
    for token_id, number in parameters.bias_pairs:
        adjusted[token_id] += number
    for token_id in set(tokens):
        old = adjusted[token_id]
        penalty = parameters.repetition_penalty
        adjusted[token_id] = old * penalty if old < 0 else old / penalty
        adjusted[token_id] -= parameters.presence_penalty
    scaled = np.exp((adjusted - adjusted.max()) / (parameters.temperature or 1))
    return cast(Array, scaled / scaled.sum())


def token_of(array: mx.array) -> int:
    return cast(int, array.item())


@given(parameters(filters=False), logits_of, masks, texts)
def test_weight_is_the_probability_of_the_allowed_tokens(
    parameters: SamplingParameters, logits: list[float], mask: list[bool], tokens: list[int]
) -> None:
    expected = np.log(base(parameters, logits, tokens)[mask].sum())
    row = mx.array([logits])
    masked = make_sampler(parameters).sample_weighted(row, tokens, mask=mx.array(mask))
    assert masked.log_weight.item() == pytest.approx(expected, abs=2e-5)
    among = mx.array(np.flatnonzero(mask).astype(np.int32))
    few = make_sampler(parameters).sample_weighted(row, tokens, among=among)
    assert few.log_weight.item() == pytest.approx(expected, abs=2e-5)
    assert few.log_weight.shape == masked.log_weight.shape == ()
    assert mask[token_of(masked.token)]
    assert mask[token_of(few.token)]


@given(parameters(), logits_of, masks, texts)
def test_equal_seeds_give_equal_tokens_with_and_without_weights(
    parameters: SamplingParameters, logits: list[float], mask: list[bool], tokens: list[int]
) -> None:
    row, allowed = mx.array([logits]), mx.array(mask)
    among = mx.array(np.flatnonzero(mask).astype(np.int32))
    plain, weighted = make_sampler(parameters), make_sampler(parameters)
    for _ in range(4):
        one = plain(apply_mask(row, allowed), tokens)
        other = weighted.sample_weighted(row, tokens, mask=allowed)
        assert one.item() == other.token.item()
        one, other = plain(row, tokens, among), weighted.sample_weighted(row, tokens, among=among)
        assert (one.item(), one.shape) == (other.token.item(), other.token.shape)
        one, other = plain(row, tokens), weighted.sample_weighted(row, tokens)
        assert one.item() == other.token.item()


@given(parameters(), logits_of, masks)
def test_weight_is_the_probability_of_what_filters_keep(
    parameters: SamplingParameters, logits: list[float], mask: list[bool]
) -> None:
    """The kept tokens are those that many draws give."""
    parameters = parameters.model_copy(update={"logit_bias": ()})
    row, allowed = mx.array([logits]), mx.array(mask)
    sampler = make_sampler(parameters)
    drawn = [sampler.sample_weighted(row, [], mask=allowed) for _ in range(8)]
    kept = {token_of(one.token) for one in drawn}
    weights = {one.log_weight.item() for one in drawn}
    assert len(weights) == 1
    probabilities = base(parameters, logits, [])
    least = probabilities[list(kept)].sum()
    most = probabilities[np.array(mask)].sum()
    assert np.log(least) - 1e-4 <= weights.pop() <= np.log(most) + 1e-4


def test_top_k_counts_as_removed_mass() -> None:
    row = mx.log(mx.array([[0.5, 0.3, 0.15, 0.05]]))
    sampler = make_sampler(SamplingParameters(temperature=1, top_k=2, seed=1))
    assert sampler.sample_weighted(row, []).log_weight.item() == pytest.approx(np.log(0.8))
    allowed = mx.array([False, True, True, True])
    weight = sampler.sample_weighted(row, [], mask=allowed).log_weight
    assert weight.item() == pytest.approx(np.log(0.45))
    unfiltered = make_sampler(SamplingParameters(temperature=0.7, seed=1))
    assert unfiltered.sample_weighted(row, []).log_weight.item() == 0


@given(logits_of, masks)
def test_greedy_weight_is_the_probability_of_the_token_at_temperature_one(
    logits: list[float], mask: list[bool]
) -> None:
    sampler = make_sampler()
    row, among = mx.array([logits]), mx.array(np.flatnonzero(mask).astype(np.int32))
    expected = base(sampler.parameters, logits, [])
    for one in (
        sampler.sample_weighted(row, [], mask=mx.array(mask)),
        sampler.sample_weighted(row, [], among=among),
    ):
        chosen = expected[token_of(one.token)]
        assert one.log_weight.item() == pytest.approx(np.log(chosen), abs=2e-5)


@given(parameters(), logits_of, masks, texts)
def test_log_probability_of_given_tokens(
    parameters: SamplingParameters, logits: list[float], mask: list[bool], tokens: list[int]
) -> None:
    ids = mx.array(np.flatnonzero(mask).astype(np.int32))
    found = make_sampler(parameters).log_probability(mx.array([logits]), ids, tokens)
    expected = base(parameters, logits, tokens)[mask].sum()
    assert found.item() == pytest.approx(np.log(expected), abs=2e-5)


def test_weights_of_a_large_vocabulary_are_accurate() -> None:
    random = np.random.default_rng(0)
    logits = random.normal(size=150_000).astype(np.float32) * 3
    mask = random.random(logits.size) < 0.01
    wide = np.exp(logits.astype(np.float64))
    sampler = make_sampler(SamplingParameters(temperature=1, seed=0))
    for dtype, error in ((mx.float32, 3e-6), (mx.bfloat16, 0.05)):
        row = mx.array(logits)[None].astype(dtype)
        weight = sampler.sample_weighted(row, [], mask=mx.array(mask)).log_weight
        assert weight.item() == pytest.approx(np.log(wide[mask].sum() / wide.sum()), abs=error)
