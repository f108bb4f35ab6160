"""Run the same work with several stacks in turn, and compare their times.

On a shared machine absolute times vary; ratios of times measured side by side are comparable.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Ratio", "ratio_of", "rotated", "settle"]


@dataclass(frozen=True)
class Ratio:
    """The median and the quartiles of the ratios of each repeat, and the medians of both sides."""

    value: float
    low: float
    high: float
    ours: float
    theirs: float
    repeats: int

    def as_record(self) -> dict[str, Any]:
        """Return the ratio for a JSON file."""
        rounded = {
            name: float(f"{value:.4g}") for name, value in vars(self).items() if name != "repeats"
        }
        return {**rounded, "repeats": self.repeats}


def ratio_of(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Compare values that were measured side by side: ``ours[i]`` in the same repeat as theirs.

    Raises ``ValueError`` for lists of different lengths, or empty ones.
    """
    if len(ours) != len(theirs) or not ours:
        raise ValueError(f"{len(ours)} values of ours beside {len(theirs)} of theirs")
    pairs = np.array(ours) / np.array(theirs)
    low, middle, high = (float(np.percentile(pairs, percentile)) for percentile in (25, 50, 75))
    return Ratio(middle, low, high, float(np.median(ours)), float(np.median(theirs)), len(ours))


def rotated(stacks: Mapping[str, Any], turn: int) -> list[str]:
    """Return the names in an order that begins with another one each turn."""
    names = list(stacks)
    turn %= len(names)
    return names[turn:] + names[:turn]


def settle() -> None:
    """Collect garbage now, so that what one has left is not collected in another's time."""
    gc.collect()
