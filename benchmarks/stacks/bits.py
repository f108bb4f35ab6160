"""Masks of one bit a token laid over logits where there is no Metal.

The peers bring a Metal kernel for this, and nothing for the other devices of MLX.
"""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import numpy.typing as npt

__all__ = ["apply_bits"]


def apply_bits(logits: mx.array, bits: npt.NDArray[np.int32]) -> mx.array:
    """Return ``logits``, shape (1, width), without the tokens whose bit is not set.

    ``bits`` has shape (1, words); tokens beyond the last word are left out, too.
    """
    width = logits.shape[-1]
    allowed = np.zeros((1, width), dtype=np.bool_)
    flags = np.unpackbits(bits.view(np.uint8), bitorder="little")[:width]
    allowed[0, : flags.size] = flags
    return mx.where(mx.array(allowed), logits, mx.array(-mx.inf, dtype=logits.dtype))
