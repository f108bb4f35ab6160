"""The random keys of samplers."""

from __future__ import annotations

import secrets
from typing import NamedTuple

import mlx.core as mx
import numpy as np


def random_key(seed: int | None, stream: tuple[int, ...] = ()) -> mx.array:
    """Return the key of a stream of random numbers.

    Args:
        seed: The seed; ``None`` for one of the operating system's.
        stream: Keys of equal seeds and different streams are independent. Trailing zeros make no
            difference.

    Returns:
        A key of ``mx.random``.
    """
    if seed is None:
        return mx.random.key(secrets.randbits(64))
    while stream and stream[-1] == 0:
        stream = stream[:-1]
    if not stream:
        return mx.random.key(int(seed))
    sequence = np.random.SeedSequence(int(seed), spawn_key=stream)
    return mx.random.key(int(sequence.generate_state(1, np.uint64)[0]))


class KeyRow(NamedTuple):
    """A random key as a row of an array of keys, so that several samplers can share the array.

    Attributes:
        keys: uint32, shape (rows, 2).
        row: The row of the key.
    """

    keys: mx.array
    row: int

    @property
    def key(self) -> mx.array:
        """The key, shape (2,)."""
        return self.keys[self.row]
