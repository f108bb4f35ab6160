"""Parameters are checked when built, and each wrong one is named."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pydantic
import pytest

from samplers import InvalidSamplingParameterError, SamplingParameters


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("temperature", value) for value in (-1, 1e-6, 101, math.nan, math.inf, "1", None, True)),
        *(("temperature", value) for value in (False, -1e-9)),
        *(("top_p", value) for value in (1.5, 0, -0.1, math.nan, None)),
        *(("top_k", value) for value in (-2, 2.0, True, None)),
        *(("min_p", value) for value in (-0.1, 1.1, math.nan)),
        *(("min_tokens_to_keep", value) for value in (0, -1, 1.5)),
        *(("repetition_penalty", value) for value in (0, -1, math.inf, 1e-9)),
        *(("presence_penalty", value) for value in (math.inf, -101)),
        *(("frequency_penalty", value) for value in (math.nan, 101)),
        *(("repetition_context_size", value) for value in (0, -5, None)),
        *(("seed", value) for value in (-1, 2**64, 1.0, True)),
        *(("logit_bias", value) for value in (None, 3, {-1: 1.0}, {0: math.inf}, {"x": 1.0})),
        *(("logit_bias", value) for value in (((0, 1.0), (0, 2.0)), ((0,),), {1.5: 1.0})),
    ],
)
def test_invalid_values_are_named(name: str, value: object) -> None:
    with pytest.raises(InvalidSamplingParameterError, match=name) as caught:
        SamplingParameters(**{name: value})  # type: ignore[arg-type]
    assert caught.value.parameter == name
    assert caught.value.value is value
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("temperature", value) for value in (0, 0.0, 1e-5, 1, 100)),
        ("top_p", 1),
        ("top_k", 10**9),
        ("min_p", 1),
        ("repetition_penalty", 0.01),
        ("seed", 2**64 - 1),
    ],
)
def test_limits_are_valid(name: str, value: float) -> None:
    assert getattr(SamplingParameters(**{name: value}), name) == value  # type: ignore[arg-type]


def test_bias_is_copied_and_hashable() -> None:
    bias = {7: 1, 3: -2.5}
    parameters = SamplingParameters(logit_bias=bias)
    bias[3] = 0
    assert parameters.logit_bias == parameters.bias_pairs == ((3, -2.5), (7, 1.0))
    assert bias == {7: 1, 3: 0}
    assert hash(parameters) == hash(SamplingParameters(logit_bias=((7, 1.0), (3, -2.5))))


def test_parameters_are_immutable() -> None:
    parameters = SamplingParameters(temperature=1, logit_bias={1: 2.0})
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        parameters.top_p = 0.5  # type: ignore[misc]
    assert SamplingParameters(**dict(parameters)) == parameters


def test_message_describes_valid_values() -> None:
    with pytest.raises(InvalidSamplingParameterError) as caught:
        SamplingParameters(top_p=1.5)
    assert str(caught.value) == "top_p must be less than or equal to 1, not 1.5"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 10**400),
        pytest.param("top_k", -(10**5000), id="digits"),
        ("top_p", "\ud800"),
        ("min_p", [[]] * 3),
        ("logit_bias", 5),
        ("logit_bias", {10**5000: 10**5000}),
        ("logit_bias", {"5x": 1.0}),
        ("logit_bias", {"5": 1.0, "05": 2.0}),
        ("logit_bias", {True: 1.0}),
        ("logit_bias", [(1, 2, 3)]),
        ("seed", 2.0),
    ],
)
def test_every_error_has_a_short_message(name: str, value: Any) -> None:
    with pytest.raises(InvalidSamplingParameterError) as caught:
        SamplingParameters(**{name: value})
    assert caught.value.parameter == name
    assert len(str(caught.value)) < 400


def test_numpy_numbers_become_python_numbers() -> None:
    parameters = SamplingParameters(
        temperature=np.float32(0.5),
        top_k=np.int64(3),
        seed=np.uint8(7),
        logit_bias={np.int32(1): 2},
    )
    assert (parameters.temperature, parameters.top_k, parameters.seed) == (0.5, 3, 7)
    kinds = [type(parameters.temperature), type(parameters.top_k), type(parameters.seed)]
    assert kinds == [float, int, int]
    assert parameters.bias_pairs == ((1, 2.0),)
