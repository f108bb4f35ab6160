"""The random keys of samplers."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

import mlx.core as mx
import numpy as np

_WORD = 2**32


class RandomKeys:
    """A stream of random keys; the n-th one is a function of seed, stream and n.

    The generator of ``mx.random`` is a function of key and position (Salmon et al. 2011, "Parallel
    random numbers: as easy as 1, 2, 3"), so consecutive numbers are independent keys. Keys are
    numbers on the host: taking one costs no operation on the device.

    Args:
        seed: The seed; ``None`` for one of the operating system's.
        stream: Keys of equal seeds and different streams are independent. Trailing zeros make no
            difference.

    Attributes:
        taken: How many keys were taken. Setting an earlier number repeats the keys behind it.
    """

    def __init__(self, seed: int | None, stream: tuple[int, ...] = ()) -> None:
        self.taken = 0
        while stream and stream[-1] == 0:
            stream = stream[:-1]
        self._start = secrets.randbits(64)
        if seed is not None:
            # Seeds that follow each other have starts that do not.
            sequence = np.random.SeedSequence(int(seed), spawn_key=stream)
            self._start = int(sequence.generate_state(1, np.uint64)[0])

    def take(self) -> mx.array:
        """Return the next key, uint32, shape (2,)."""
        return mx.array(self._take(), mx.uint32)

    @staticmethod
    def take_rows(streams: Iterable[RandomKeys]) -> mx.array:
        """Return the next key of each stream, uint32, shape (streams, 2)."""
        return mx.array([keys._take() for keys in streams], mx.uint32)

    def _take(self) -> tuple[int, int]:
        number = self._start + self.taken
        self.taken += 1
        return number // _WORD % _WORD, number % _WORD
