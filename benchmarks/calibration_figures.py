"""Figures of calibration: expected calibration error, Brier score, accuracy by confidence.

Bins have equal mass: a model's confidences gather near 1, where bins of equal width would be empty
or huge (Nguyen and O'Connor, "Posterior calibration and exploratory analysis for natural language
processing models", EMNLP 2015). Intervals are percentile intervals of a bootstrap over records,
since the fields of a record are not independent.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "Bin",
    "Judged",
    "auroc",
    "calibration_error",
    "figures",
    "reliability",
]

BINS = 10
_RESAMPLES = 2_000
_LEVEL = 0.95
_Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Judged:
    """A value with its confidence.

    Attributes:
        task: The record's task.
        record: The record's number.
        pointer: The JSON Pointer of the value in the answer.
        kind: ``"enum"``, ``"boolean"``, ``"integer"``, ``"number"`` or ``"string"``.
        confidence: The probability that the method states.
        is_right: Whether the value equals the gold value.
    """

    task: str
    record: int
    pointer: str
    kind: str
    confidence: float
    is_right: bool


@dataclass(frozen=True)
class Bin:
    """Values of similar confidence: their number, mean confidence and accuracy."""

    count: int
    confidence: float
    accuracy: float


def reliability(values: Sequence[Judged], bins: int = BINS) -> list[Bin]:
    """Return bins of equal mass, in ascending order of confidence.

    There are at most as many bins as values. Equal confidences may be divided between bins.
    """
    ordered = sorted(values, key=lambda each: (each.confidence, each.task, each.record))
    return [
        Bin(
            len(part),
            sum(each.confidence for each in part) / len(part),
            sum(each.is_right for each in part) / len(part),
        )
        for part in _parts(ordered, bins)
    ]


def _parts(ordered: Sequence[Judged], bins: int) -> list[Sequence[Judged]]:
    bounds = np.linspace(0, len(ordered), bins + 1).round().astype(int)
    parts = [ordered[start:end] for start, end in itertools.pairwise(bounds)]
    return [part for part in parts if part]


def calibration_error(confidence: _Array, is_right: _Array, bins: int = BINS) -> float:
    """Return the expected calibration error: the mean over bins of |accuracy - confidence|.

    Args:
        confidence: Shape (values,).
        is_right: Shape (values,), 0 or 1.
        bins: Number of bins of equal mass. Each counts by its number of values.
    """
    order = np.argsort(confidence, kind="stable")
    bounds = np.linspace(0, confidence.size, bins + 1).round().astype(int)
    gaps = np.concatenate([[0.0], np.cumsum((is_right - confidence)[order])])
    return float(np.abs(np.diff(gaps[bounds])).sum() / confidence.size)


def brier_score(confidence: _Array, is_right: _Array) -> float:
    """Return the mean squared difference between confidence and correctness."""
    return float(np.mean((confidence - is_right) ** 2))


def accuracy(confidence: _Array, is_right: _Array) -> float:
    """Return the share of right values."""
    del confidence
    return float(np.mean(is_right))


def mean_confidence(confidence: _Array, is_right: _Array) -> float:
    """Return the mean confidence."""
    del is_right
    return float(np.mean(confidence))


def auroc(confidence: _Array, is_right: _Array) -> float:
    """Return the probability that a right value has a higher confidence than a wrong one.

    Equal confidences count half, so 0.5 is chance. NaN if all values are right, or all are wrong.
    """
    right, wrong = confidence[is_right == 1], confidence[is_right == 0]
    if not right.size or not wrong.size:
        return float("nan")
    gaps = np.sign(right[:, None] - wrong[None, :])
    return float(gaps.mean() / 2 + 0.5)


_FIGURES: dict[str, Callable[[_Array, _Array], float]] = {
    "accuracy": accuracy,
    "confidence": mean_confidence,
    "calibration_error": calibration_error,
    "brier_score": brier_score,
    "auroc": auroc,
}


def figures(
    values: Sequence[Judged], *, seed: int = 0, resamples: int = _RESAMPLES
) -> dict[str, Any]:
    """Return each figure with its bootstrap interval, and the reliability diagram.

    Args:
        values: The values of one method; at least one.
        seed: Seed of the bootstrap.
        resamples: Number of resamples of the bootstrap.

    Returns:
        Lists ``[value, low, high]`` by figure, ``values`` and ``records`` (counts), and ``bins``.
        ``None`` for a figure that is not defined.
    """
    confidence = np.array([each.confidence for each in values], np.float64)
    is_right = np.array([each.is_right for each in values], np.float64)
    keys = {key: number for number, key in enumerate({(v.task, v.record): 0 for v in values})}
    members: list[list[int]] = [[] for _ in keys]
    for index, each in enumerate(values):
        members[keys[each.task, each.record]].append(index)
    rng = np.random.default_rng(seed)
    resampled: dict[str, list[float]] = {name: [] for name in _FIGURES}
    for _ in range(resamples):
        drawn = rng.integers(len(members), size=len(members))
        chosen = np.array([index for record in drawn for index in members[record]])
        for name, figure in _FIGURES.items():
            resampled[name].append(figure(confidence[chosen], is_right[chosen]))
    tails = [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]
    found: dict[str, Any] = {}
    for name, figure in _FIGURES.items():
        value = figure(confidence, is_right)
        interval = [] if math.isnan(value) else np.nanquantile(resampled[name], tails).tolist()
        found[name] = [value, *interval] if interval else None
    bins = [asdict(one) for one in reliability(values)]
    return {"values": len(values), "records": len(members), **found, "bins": bins}
