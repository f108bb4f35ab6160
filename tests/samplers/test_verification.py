"""Verified tokens have the target's distribution, whatever distribution they are drafted from."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, cast

import mlx.core as mx
import numpy as np
import numpy.typing as npt
import pytest
from distributions import chi_square_p_value
from hypothesis import given
from hypothesis import strategies as st

from samplers import InvalidSamplingParameterError, SamplingParameters, apply_mask, make_sampler
from samplers.draws import residual_logits, verify_draft

SIZE = 12
_DRAWS = 500

Array = npt.NDArray[np.float64]


@st.composite
def distributions(draw: st.DrawFn) -> Array:
    """Probabilities, some of them 0 and some of them tiny."""
    logits = draw(st.lists(st.floats(-30, 8), min_size=SIZE, max_size=SIZE))
    masked = draw(st.lists(st.booleans(), min_size=SIZE, max_size=SIZE).filter(any))
    scores = np.where(masked, np.exp(np.array(logits)), 0.0)
    return cast(Array, scores / scores.sum())


def logs(probabilities: Array) -> mx.array:
    with np.errstate(divide="ignore"):
        return mx.array(np.log(probabilities).astype(np.float32))


def probabilities_of(logits: mx.array) -> Array:
    found = np.array(mx.softmax(logits.astype(mx.float32)), np.float64)
    return cast(Array, found)


def verified_distribution(log_p: mx.array, log_q: mx.array) -> Array:
    """Sum over all drafted tokens of the probabilities of the verified token."""
    q = np.exp(np.array(log_q, np.float64))
    accepted = np.minimum(np.exp(np.array(log_p, np.float64)), q)
    residual = probabilities_of(residual_logits(log_p, log_q))
    return cast(Array, accepted + (q.sum() - accepted.sum()) * residual)


@given(distributions(), distributions())
def test_accepted_and_residual_mass_add_up_to_the_target(p: Array, q: Array) -> None:
    found = verified_distribution(logs(p), logs(q))
    np.testing.assert_allclose(found, p, atol=3e-6)
    # No mass outside of the target's support.
    assert not found[p == 0].any()


@given(distributions())
def test_equal_distributions_accept_everything(p: Array) -> None:
    log_p = logs(p)
    np.testing.assert_allclose(verified_distribution(log_p, log_p), p, atol=3e-6)
    drafted = mx.arange(SIZE) == int(p.argmax())
    for seed in range(4):
        assert verify_draft(log_p, log_p, drafted, mx.random.key(seed)).item() == p.argmax()


def test_distributions_without_common_tokens_reject_everything() -> None:
    log_p, log_q = mx.log(mx.array([0.3, 0.7, 0.0])), mx.log(mx.array([0.0, 0.0, 1.0]))
    found = {
        verify_draft(log_p, log_q, mx.arange(3) == 2, mx.random.key(n)).item() for n in range(20)
    }
    assert found == {0, 1}


def test_nan_logits_of_a_draft_model_are_never_accepted() -> None:
    log_p, log_q = mx.log(mx.array([0.3, 0.7, 0.0])), mx.full((3,), math.nan)
    for drafted, expected in ((0, {0, 1}), (2, {0, 1})):
        keys = [mx.random.key(n) for n in range(20)]
        found = {verify_draft(log_p, log_q, mx.arange(3) == drafted, key).item() for key in keys}
        assert found == expected


def verify_tokens(
    parameters: SamplingParameters,
    logits: mx.array,
    log_q: mx.array,
    count: int,
    tokens: list[int],
    among: mx.array | None = None,
) -> tuple[Counter[int], int]:
    """Draft and verify tokens; returns the verified ones and how many were accepted."""
    sampler = make_sampler(parameters)
    key = mx.random.key(99)
    keys = mx.random.split(key, count)
    drafted = np.array(mx.stack([mx.random.categorical(log_q, key=k) for k in keys])).tolist()
    verified = [sampler.verify(logits, tokens, x, log_q, among, prompt_tokens=1) for x in drafted]
    found = np.array(mx.stack(verified)).reshape(-1).tolist()
    return Counter(found), sum(x == y for x, y in zip(drafted, found, strict=True))


@pytest.mark.parametrize(
    ("given", "form"),
    [
        ({"temperature": 1.0}, "all"),
        ({"temperature": 0.6, "top_p": 0.9}, "mask"),
        ({"temperature": 1.3, "top_k": 4, "presence_penalty": 0.8, "logit_bias": {3: 1.5}}, "all"),
        ({"temperature": 1.3, "frequency_penalty": 0.8, "logit_bias": {3: 1.5}}, "among"),
        ({"temperature": 2.0, "min_p": 0.1, "repetition_penalty": 1.4}, "mask"),
        ({"temperature": 1.0, "xtc_probability": 0.4, "xtc_threshold": 0.1}, "among"),
    ],
)
def test_verified_tokens_have_the_distribution_of_a_call(given: dict[str, Any], form: str) -> None:
    sampler = make_sampler(SamplingParameters(**given))
    noise = np.random.default_rng(5).normal(size=(2, SIZE))
    target, draft = (mx.array(row.astype(np.float32))[None] for row in noise * 1.5)
    among = mx.array([0, 2, 3, 7, 8, 11]) if form == "among" else None
    if form == "mask":
        mask = mx.array([n % 3 != 1 for n in range(SIZE)])
        target, draft = apply_mask(target, mask), apply_mask(draft, mask)
    tokens = [3, 5, 7, 7]
    log_p = sampler.log_distribution(target, tokens, among, prompt_tokens=1)
    log_q = sampler.log_distribution(draft, tokens, among, prompt_tokens=1)
    p = {n: x for n, x in enumerate(np.exp(np.array(log_p, np.float64)).tolist()) if x > 0}
    q = np.exp(np.array(log_q, np.float64))
    seeded = SamplingParameters(**given, seed=11)
    found, accepted = verify_tokens(seeded, target, log_q, _DRAWS, tokens, among)
    assert chi_square_p_value(found.elements(), p) > 0.01
    rate = float(np.minimum([p.get(n, 0.0) for n in range(SIZE)], q).sum())
    assert accepted / _DRAWS == pytest.approx(rate, abs=0.06)


@pytest.mark.parametrize(
    ("given", "among"),
    [
        ({}, None),
        ({"top_p": 0.7}, [1, 4, 6, 9]),
        ({"top_k": 3}, None),
        ({"min_p": 0.3}, [1, 4, 6]),
        ({"xtc_probability": 0.5, "xtc_threshold": 0.05}, None),
    ],
)
def test_log_distribution_is_that_of_calls(given: dict[str, Any], among: list[int] | None) -> None:
    sampler = make_sampler(SamplingParameters(temperature=0.8, seed=4, logit_bias={4: 1}, **given))
    logits = mx.array(np.random.default_rng(1).normal(size=SIZE).astype(np.float32))
    ids = None if among is None else mx.array(among)
    key = sampler.random_state
    found = sampler.log_distribution(logits, [2], ids)
    assert (found.shape, found.dtype) == ((SIZE,), mx.float32)
    assert sampler.random_state == key
    exact = {n: x for n, x in enumerate(np.exp(np.array(found)).tolist()) if x > 0}
    assert sum(exact.values()) == pytest.approx(1, abs=1e-5)
    assert among is None or set(exact) <= set(among)
    draws = mx.stack([sampler(logits, [2], ids) for _ in range(400)])
    assert chi_square_p_value(cast("list[int]", draws.tolist()), exact) > 0.01


def test_greedy_verification_is_argmax() -> None:
    sampler = make_sampler()
    logits = mx.array([[0.1, 3.0, 0.2, 2.0]])
    log_q = mx.log(mx.array([0.25] * 4))
    for drafted in range(4):
        assert sampler.verify(logits, [], drafted, log_q).item() == 1
        assert sampler.verify(logits, [], drafted, log_q, mx.array([0, 3])).item() == 3
    assert np.exp(np.array(sampler.log_distribution(logits, []))).tolist() == [0, 1, 0, 0]


def test_distribution_of_another_vocabulary_is_refused() -> None:
    sampler = make_sampler(SamplingParameters(temperature=1.0))
    with pytest.raises(InvalidSamplingParameterError, match="log_q"):
        sampler.verify(mx.zeros((1, 4)), [], 1, mx.zeros((5,)))


def test_nan_logits_of_the_target_select_some_token() -> None:
    sampler = make_sampler(SamplingParameters(temperature=1.0, seed=0))
    log_q = mx.log(mx.array([0.0, 0.5, 0.5, 0.0]))
    for _ in range(8):
        assert cast(int, sampler.verify(mx.full((1, 4), math.nan), [], 1, log_q).item()) < 4
