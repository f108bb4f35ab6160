"""Draws: random keys, one token for each row, and the verification of a drafted token."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np

from samplers.transforms import apply_filters, apply_temperature

if TYPE_CHECKING:
    from samplers.sampler import Sampler

_WORD = 2**32

_MIN_COMPILED = 256
"""Tokens from which on draws are compiled: once for every shape."""


class RandomKeys:
    """A stream of random keys; key n is a function of seed, stream and n.

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

    def next_key(self) -> mx.array:
        """Return the next key, uint32, shape (2,)."""
        return RandomKeys.next_keys((self,))[0]

    @staticmethod
    def next_keys(streams: Iterable[RandomKeys]) -> mx.array:
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


def sample_rows(samplers: Sequence[Sampler], logits: mx.array) -> mx.array:
    """Select a token for each row of logits, by the row's sampler.

    Each token is the one that the sampler's own call selects, and each sampler takes its next
    random key.

    Args:
        samplers: Distinct samplers with equal ``row_parameters`` that are not ``None``, one for
            each row.
        logits: Shape (rows, vocabulary), any float type; ``-inf`` for masked tokens.

    Returns:
        Token ids, uint32, shape (rows,), not evaluated.
    """
    parameters = samplers[0].parameters
    logits = logits.astype(mx.float32)
    if parameters.temperature == 0:
        return mx.argmax(logits, axis=-1)
    filtered = apply_filters(logits, parameters) if parameters.has_filters else logits
    scaled = apply_temperature(filtered, parameters.temperature)
    return draw_rows(scaled, RandomKeys.next_keys(sampler.keys for sampler in samplers))


def residual_logits(log_p: mx.array, log_q: mx.array) -> mx.array:
    """Return logits of the distribution that replaces a rejected token.

    If p does not exceed q anywhere, which rounding can cause if both are equal, or if either has
    NaNs, it is p.

    Args:
        log_p: The target's distribution.
        log_q: The distribution that the rejected token was drawn from.

    Returns:
        log(max(p - q, 0)), not normalised; float32, shape (n,).
    """
    excess = mx.maximum(mx.exp(log_p) - mx.exp(log_q), 0.0)
    return mx.where(mx.sum(excess) > 0, mx.log(excess), log_p)


def verify_draft(log_p: mx.array, log_q: mx.array, is_drafted: mx.array, key: mx.array) -> mx.array:
    """Accept a drafted token, or draw a token from the residual distribution.

    A token x is accepted with probability min(1, p(x) / q(x)), so that the result has the
    distribution p (Leviathan et al. 2023, "Fast inference from transformers via speculative
    decoding", theorem 1).

    Args:
        log_p: The target's distribution: log-probabilities, float32, shape (n,); ``-inf`` for 0.
        log_q: The distribution that the token was drawn from, as ``log_p``.
        is_drafted: Whether a position is that of the drafted token; bool, shape (n,). True at most
            once; if nowhere, p of the token is 0, and it is rejected.
        key: A random key.

    Returns:
        The position of the resulting token, uint32, shape (). A rejected token is not returned,
        unless p has to replace the residual distribution.
    """
    uniform_key, residual_key = mx.random.split(key)
    log_uniform = mx.log(mx.random.uniform(key=uniform_key))
    # Comparisons with NaN are false. Where this one is, log_p <= log_q, so the residual is 0.
    is_accepted = mx.any(is_drafted & (log_uniform + log_q < log_p))
    other = mx.random.categorical(residual_logits(log_p, log_q), key=residual_key)
    return mx.where(is_accepted, mx.argmax(is_drafted), other)
