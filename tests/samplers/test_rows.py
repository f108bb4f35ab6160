"""Rows that are sampled together: each row has the tokens that its sampler selects alone."""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx
import numpy as np
import pytest
from distributions import chi_square_p_value
from hypothesis import given, settings
from hypothesis import strategies as st

from samplers import Sampler, SamplingParameters, make_sampler, sample_rows
from samplers.random_keys import RandomKeys, draw_rows

OPTIONS = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.0, 1e-5, 0.7, 1.0, 100.0]),
        "top_p": st.sampled_from([0.3, 0.9, 1.0]),
        "top_k": st.integers(0, 4),
        "min_p": st.sampled_from([0.0, 0.1]),
    }
)


def samplers(seeds: list[int], options: dict[str, Any]) -> list[Sampler]:
    return [make_sampler(SamplingParameters(seed=seed, **options)) for seed in seeds]


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5),
    OPTIONS,
    st.sampled_from([3, 50, 1001]),
    st.sampled_from([mx.float32, mx.float16, mx.bfloat16]),
    st.data(),
)
def test_rows_have_the_tokens_of_their_samplers_alone(
    seeds: list[int],
    options: dict[str, Any],
    size: int,
    dtype: mx.Dtype,
    data: st.DataObject,
) -> None:
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
    drawn = cast("list[int]", draw_rows(rows, RandomKeys.take_rows([keys] * 2000)).tolist())
    assert chi_square_p_value(drawn, shares) > 0.01
    before, after = np.array(drawn[:-1]) == 0, np.array(drawn[1:]) == 0
    assert abs(np.corrcoef(before, after)[0, 1]) < 0.08
