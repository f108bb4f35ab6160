"""The random keys of samplers, and the draws that are made with them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

import mlx.core as mx
import numpy as np

_WORD = 2**32

_MIN_COMPILED = 256
"""Tokens from which on draws are compiled: once for every shape."""


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
        return RandomKeys.take_rows((self,))[0]

    @staticmethod
    def take_rows(streams: Iterable[RandomKeys]) -> mx.array:
        """Return the next key of each stream, uint32, shape (streams, 2)."""
        rows = []
        for keys in streams:
            number = keys._start + keys.taken
            keys.taken += 1
            rows.append((number // _WORD % _WORD, number % _WORD))
        return mx.array(rows, mx.uint32)


def draw_rows(logits: mx.array, keys: mx.array) -> mx.array:
    """Draw a token for each row from the distribution that its logits describe (Gumbel-max trick).

    A row's token depends on its own logits and key only, whatever the other rows are.

    Args:
        logits: float32, shape (rows, tokens), not normalised; ``-inf`` excludes a token.
        keys: The key of each row, uint32, shape (rows, 2).

    Returns:
        Token ids, uint32, shape (rows,), not evaluated.
    """
    return (_draw_rows if logits.shape[-1] < _MIN_COMPILED else _draw_many)(logits, keys)


def _draw_rows(logits: mx.array, keys: mx.array) -> mx.array:
    size = logits.shape[-1]

    def random_words(key: mx.array) -> mx.array:
        # Keys are uniform words of 32 bits.
        return mx.random.split(key, (size + 1) // 2).reshape(-1)[:size]

    # 23 bits, since a float32 next to 1 has no more: never 0 nor 1, whose noise is infinite.
    bits = mx.right_shift(mx.vmap(random_words)(keys), 9)
    uniform = (bits.astype(mx.float32) + 0.5) * 2.0**-23
    return mx.argmax(logits - mx.log(-mx.log(uniform)), axis=-1)


_draw_many = mx.compile(_draw_rows)
