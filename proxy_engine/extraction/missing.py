"""Missing values of data frames."""

from __future__ import annotations

from typing import Any


def is_missing(value: Any) -> bool:
    """Whether a value stands for a missing one: ``None``, NaN, or the NA and NaT of pandas."""
    if value is None:
        return True
    try:
        # Missing values do not equal themselves. That of `pandas.NA` is neither true nor false.
        return bool(value != value)
    except Exception:
        return type(value).__name__ == "NAType"
