"""From measured values to figures: distributions, curves, exponents of growth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["PERCENTILES", "Growth", "distribution", "fit_growth", "quantile_curve"]

PERCENTILES = {"p25": 25, "p50": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99, "p99.9": 99.9}

# Every hundredth, and finer towards the end: what users notice is the slowest.
_FRACTIONS = sorted(
    {round(i / 100, 5) for i in range(101)}
    | {round(1 - 10**-k * i / 10, 5) for k in (2, 3) for i in range(1, 11)}
    | {0.99995}
)


def distribution(nanoseconds: Iterable[int]) -> dict[str, float] | None:
    """Mean, percentiles and largest of some times, in microseconds; ``None`` where there is none.

    Percentiles are interpolated linearly between the two nearest values.
    """
    values = np.fromiter(nanoseconds, dtype=np.float64) / 1000
    if not values.size:
        return None
    figures = {"mean": float(values.mean())}
    for name, percentile in PERCENTILES.items():
        figures[name] = float(np.percentile(values, percentile))
    return {key: _rounded(value) for key, value in {**figures, "max": float(values.max())}.items()}


def quantile_curve(nanoseconds: Iterable[int]) -> list[list[float]]:
    """Points (fraction, microseconds) of a cumulative distribution; few, whatever is measured."""
    values = np.fromiter(nanoseconds, dtype=np.float64) / 1000
    if not values.size:
        return []
    heights = np.quantile(values, _FRACTIONS)
    return [
        [fraction, _rounded(float(height))]
        for fraction, height in zip(_FRACTIONS, heights, strict=True)
    ]


@dataclass(frozen=True)
class Growth:
    """cost ~ size ** ``exponent``, fitted to ``points`` points.

    ``error`` is the exponent's standard error; ``None`` where two points leave nothing to err.
    """

    exponent: float
    error: float | None
    points: int

    def as_record(self) -> dict[str, Any]:
        """Return the fit for a JSON file."""
        error = None if self.error is None else round(self.error, 3)
        return {"exponent": round(self.exponent, 3), "error": error, "points": self.points}


def fit_growth(sizes: Sequence[float], costs: Sequence[float]) -> Growth | None:
    """Fit a power law by least squares on logarithms, over the upper half of the sizes.

    The lower half is left out since constant costs hide growth there. At least two points are
    taken, and at least three where there are as many; with fewer than two different sizes there is
    nothing to fit. Sizes and costs must be positive.
    """
    pairs = sorted(zip(sizes, costs, strict=True))
    count = max(math.ceil(len(pairs) / 2), min(3, len(pairs)))
    upper = pairs[len(pairs) - count :]
    if len({size for size, _ in upper}) < 2:
        return None
    x = np.log([size for size, _ in upper])
    y = np.log([cost for _, cost in upper])
    spread = float(((x - x.mean()) ** 2).sum())
    slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread
    if count == 2:
        return Growth(slope, None, count)
    rest = y - y.mean() - slope * (x - x.mean())
    error = math.sqrt(float((rest**2).sum()) / (count - 2) / spread)
    return Growth(slope, error, count)


def _rounded(value: float) -> float:
    """Four significant digits at least: files stay small, and nothing is measured better."""
    return float(f"{value:.6g}")
