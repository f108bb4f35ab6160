"""Bootstrap confidence intervals.

Records are resampled with replacement, together with all of their fields, since the fields of a
record are not independent. Intervals are percentile intervals (Efron and Tibshirani, "An
Introduction to the Bootstrap", 1993, chapter 13).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from quality_outcomes import Outcome

__all__ = ["MEASURES", "Interval", "Measure", "difference", "interval", "score"]

_RESAMPLES = 10_000
_LEVEL = 0.95
_CHUNK = 1000


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95% confidence interval, from a number of records."""

    value: float
    low: float
    high: float
    records: int

    @property
    def is_significant(self) -> bool:
        """Whether 0 is outside the interval."""
        return self.low > 0 or self.high < 0


Measure: TypeAlias = Callable[[Outcome], tuple[float, float]]
"""The part of an outcome that is right, as a numerator and a denominator."""

MEASURES: Mapping[str, Measure] = {
    "exact": lambda outcome: (outcome.exact, 1.0),
    "fields": lambda outcome: (outcome.right_fields, float(len(outcome.fields))),
    "valid": lambda outcome: (float(outcome.is_valid), 1.0),
}
"""``exact``: share of records with all fields right. ``fields``: share of right fields. ``valid``:
share of records whose value matches the schema."""


def interval(
    values: Sequence[float],
    weights: Sequence[float] | None = None,
    *,
    seed: int = 0,
    resamples: int = _RESAMPLES,
) -> Interval:
    """Return ``sum(values) / sum(weights)`` with its bootstrap interval.

    Args:
        values: One number per record; at least one.
        weights: Positive numbers; default: 1 each, so that the estimate is the mean.
        seed: Seed of the resampling.
        resamples: Number of resamples.
    """
    numerators = np.asarray(values, dtype=np.float64)
    denominators = np.ones_like(numerators) if weights is None else np.asarray(weights, np.float64)
    rng = np.random.default_rng(seed)
    estimates = []
    for start in range(0, resamples, _CHUNK):
        count = min(_CHUNK, resamples - start)
        chosen = rng.integers(numerators.size, size=(count, numerators.size))
        estimates.append(numerators[chosen].sum(axis=1) / denominators[chosen].sum(axis=1))
    tails = [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]
    low, high = np.quantile(np.concatenate(estimates), tails).tolist()
    return Interval(float(numerators.sum() / denominators.sum()), low, high, int(numerators.size))


def score(outcomes: Sequence[Outcome], measure: Measure) -> Interval:
    """Return the score of an arm's outcomes. There must be at least one."""
    pairs = [measure(outcome) for outcome in outcomes]
    return interval([value for value, _ in pairs], [weight for _, weight in pairs])


def difference(
    outcomes: Sequence[Outcome], reference: Sequence[Outcome], measure: Measure
) -> Interval | None:
    """Return how much better an arm is than another one on the same records.

    Args:
        outcomes: The arm's outcomes.
        reference: The other arm's outcomes.
        measure: What is compared.

    Returns:
        The paired difference; ``None`` if the arms have no record in common.
    """
    others = {_record(outcome): outcome for outcome in reference}
    pairs = [
        (measure(outcome), measure(others[_record(outcome)]))
        for outcome in outcomes
        if _record(outcome) in others
    ]
    if not pairs:
        return None
    return interval(
        [mine - theirs for (mine, _), (theirs, _) in pairs], [weight for (_, weight), _ in pairs]
    )


def _record(outcome: Outcome) -> tuple[str, int, str, int]:
    return outcome.model, outcome.seed, outcome.task, outcome.number
