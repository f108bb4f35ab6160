"""Masks of one bit a token in 32-bit words, which the native engines fill."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

__all__ = ["Bitmask", "empty_bitmask", "has_any", "has_token"]

Bitmask = npt.NDArray[np.int32]


def empty_bitmask(size: int) -> Bitmask:
    """Room for ``size`` tokens: int32, shape (1, words)."""
    return np.zeros((1, (size + 31) // 32), dtype=np.int32)


def has_token(bitmask: Bitmask, token_id: int) -> bool:
    """Whether the token's bit is set."""
    return bool((int(bitmask[0, token_id // 32]) >> (token_id % 32)) & 1)


def has_any(bitmask: Bitmask, token_ids: Iterable[int]) -> bool:
    """Whether the bit of one of the tokens is set."""
    return any(has_token(bitmask, token_id) for token_id in token_ids)
