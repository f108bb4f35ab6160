"""Fits and summaries of figures."""

from __future__ import annotations

import math

import pytest
from figures import distribution, fit_growth, quantile_curve
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


def test_lower_half_of_sizes_is_ignored() -> None:
    sizes = [1, 2, 4, 8, 16, 32, 64, 128]
    fit = fit_growth(sizes, [50, 50, 50, 50, 16, 32, 64, 128])
    assert fit is not None
    assert fit.exponent == pytest.approx(1)
    assert fit.points == 4


def test_standard_error_equals_the_formula() -> None:
    x, y = [0.0, 1.0, 2.0], [0.0, 2.0, 1.0]
    fit = fit_growth([math.exp(v) for v in x], [math.exp(v) for v in y])
    assert fit is not None
    # Slope 0.5; residuals -0.5, 1, -0.5; their squares' sum over one degree of freedom and 2.
    assert fit.exponent == pytest.approx(0.5)
    assert fit.error == pytest.approx(math.sqrt(1.5 / 1 / 2))


@pytest.mark.parametrize("sizes", [[], [5], [5, 5, 5]])
def test_fewer_than_two_sizes_are_not_fitted(sizes: list[int]) -> None:
    assert fit_growth(sizes, [1.0] * len(sizes)) is None


def test_a_distribution_is_in_microseconds() -> None:
    figures = distribution(range(1000, 102_000, 1000))
    assert figures is not None
    assert figures["mean"] == figures["p50"] == 51
    assert figures["p25"] == 26
    assert figures["p99"] == 100
    assert figures["max"] == 101


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=50))
def test_a_curve_rises_from_the_fastest_to_the_slowest(times: list[int]) -> None:
    curve = quantile_curve(times)
    fractions, heights = [point[0] for point in curve], [point[1] for point in curve]
    assert fractions == sorted(set(fractions))
    assert heights == sorted(heights)
    assert (fractions[0], fractions[-1]) == (0, 1)
    assert heights[0] == pytest.approx(min(times) / 1000, rel=1e-5)
    assert heights[-1] == pytest.approx(max(times) / 1000, rel=1e-5)
    assert 0.5 in fractions
    assert {0.99, 0.999, 0.9999} <= set(fractions)
