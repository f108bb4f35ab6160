"""Fits and summaries of figures."""

from __future__ import annotations

import math

import pytest
from figures import distribution, fit_growth
from hypothesis import given
from hypothesis import strategies as st


@given(
    exponent=st.floats(-2, 3),
    factor=st.floats(1e-3, 1e6),
    sizes=st.lists(st.integers(1, 10**6), min_size=2, max_size=12, unique=True),
)
def test_exponent_of_a_power_law_is_recovered(
    exponent: float, factor: float, sizes: list[int]
) -> None:
    fit = fit_growth(sizes, [factor * size**exponent for size in sizes])
    assert fit is not None
    assert fit.exponent == pytest.approx(exponent, abs=1e-6)
    assert fit.error is None or fit.error < 1e-5


def test_standard_error_equals_the_formula() -> None:
    x, y = [0.0, 1.0, 2.0], [0.0, 2.0, 1.0]
    fit = fit_growth([math.exp(v) for v in x], [math.exp(v) for v in y])
    assert fit is not None
    # Slope 0.5; residuals -0.5, 1, -0.5; their squares' sum over one degree of freedom and 2.
    assert fit.exponent == pytest.approx(0.5)
    assert fit.error == pytest.approx(math.sqrt(1.5 / 1 / 2))


def test_a_distribution_is_in_microseconds() -> None:
    figures = distribution(range(1000, 102_000, 1000))
    assert figures is not None
    assert figures["mean"] == figures["p50"] == 51
    assert figures["p25"] == 26
    assert figures["p99"] == 100
    assert figures["max"] == 101
