"""Draws from distributions over finitely many outcomes: filters, distances, and tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

Outcome = TypeVar("Outcome", bound=Hashable)

FILTERS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "top_p": st.sampled_from([0.01, 0.3, 0.8, 0.9999999, 1.0]),
        "top_k": st.integers(0, 9),
        "min_p": st.sampled_from([0.0, 0.1, 0.3, 1.0]),
        "min_tokens_to_keep": st.integers(1, 9),
    }
)
"""Sampling parameters that exclude tokens."""


def frequencies(draws: Iterable[Outcome]) -> dict[Outcome, float]:
    """Return the relative frequency of each outcome."""
    counts = Counter(draws)
    total = counts.total()
    return {outcome: count / total for outcome, count in counts.items()}


def total_variation(one: Mapping[Outcome, float], other: Mapping[Outcome, float]) -> float:
    """Return the total variation distance: half of the sum of absolute differences, 0 to 1."""
    return 0.5 * sum(abs(one.get(x, 0.0) - other.get(x, 0.0)) for x in {*one, *other})


def chi_square_p_value(
    draws: Iterable[Outcome],
    exact: Mapping[Outcome, float],
    *,
    repeats: int = 4_000,
    seed: int = 0,
) -> float:
    """Return the p-value of Pearson's chi-square test of goodness of fit.

    The distribution of the statistic is simulated, so small expected counts do no harm.

    Returns:
        At least 1 / (repeats + 1); 0 if an outcome was drawn that has no probability.
    """
    counts = Counter(draws)
    if any(outcome not in exact for outcome in counts):
        return 0.0
    total = counts.total()
    outcomes = list(exact)
    probabilities = _normalized(exact.values())
    observed = np.array([counts[outcome] for outcome in outcomes], np.float64)
    simulated = np.random.default_rng(seed).multinomial(total, probabilities, size=repeats)
    expected = probabilities * total
    statistic = _statistic(observed, expected)
    as_large = (_statistic(simulated, expected) >= statistic * (1 - 1e-12)).sum()
    return float((1 + as_large) / (repeats + 1))


def _statistic(
    observed: npt.NDArray[Any], expected: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    result: npt.NDArray[np.float64] = ((observed - expected) ** 2 / expected).sum(axis=-1)
    return result


def _normalized(probabilities: Iterable[float]) -> npt.NDArray[np.float64]:
    found = np.array(list(probabilities), np.float64)
    found /= found.sum()
    return found
