"""Importance weights of one sequence's tokens, for sequential Monte Carlo."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, cast

import mlx.core as mx

from samplers import Sampler, SamplingParameters

KnownWeights: TypeAlias = dict[tuple[int, tuple[int, ...], SamplingParameters], mx.array]
"""Log-weights of forced tokens by position, ids and sampling parameters."""


class _ForcedToken(NamedTuple):
    """A forced token that has not been weighed.

    Attributes:
        position: Its index in the sequence's tokens.
        ids: The tokens that could have been in its place: itself, or all end tokens.
        sampler: Gives its probability.
    """

    position: int
    ids: tuple[int, ...]
    sampler: Sampler


class TokenWeights:
    """Log-weights of a sequence's tokens: lazy arrays, then their sum as they are read.

    A sampled token weighs the probability that the model gives to all tokens among which it was
    sampled. Nothing else could be in the place of a forced token, so it weighs its own probability,
    which is known once the model has processed the token before it.

    Attributes:
        sums: Sums of the log-weights that have been read: of the first 0, 1, 2, … tokens.
    """

    def __init__(self) -> None:
        self.sums = [0.0]
        self._factor = 0.0
        self._unread: list[mx.array] = []
        self._forced: deque[_ForcedToken] = deque()

    @property
    def total(self) -> float:
        """Sum of all log-weights that have been read."""
        return self.sums[-1]

    def sum_of(self, tokens: int) -> float:
        """Return the sum of the log-weights of the first tokens, as far as they have been read."""
        return self.total if tokens >= len(self.sums) else self.sums[tokens]

    @property
    def is_complete(self) -> bool:
        """Whether no forced token waits for the logits before it."""
        return not self._forced

    @property
    def unread(self) -> Sequence[mx.array]:
        """Log-weights that have not been read, float32, shape ()."""
        return tuple(self._unread)

    def add(self, log_weight: mx.array) -> None:
        """Add the log-weight of a token, which is not read yet."""
        self._unread.append(log_weight)

    def add_factor(self, log_weight: float) -> None:
        """Add a log-weight that belongs to the next token besides its own."""
        self.read()
        self._factor += log_weight

    def settle(self, tokens: int, log_weight: float) -> None:
        """Set the log-weights of the next forced tokens: that of the first, 0 for the others."""
        self.read()
        for _ in range(tokens):
            self._forced.popleft()
            self.sums.append(self.total + log_weight + self._factor)
            log_weight = self._factor = 0.0
        self._factor += log_weight

    def expect(self, position: int, ids: Sequence[int], sampler: Sampler) -> None:
        """Record a forced token; see :class:`_ForcedToken`."""
        self._forced.append(_ForcedToken(position, tuple(ids), sampler))

    def weigh(
        self,
        logits: mx.array,
        start: int,
        tokens: Sequence[int],
        prompt_tokens: int,
        known: KnownWeights,
    ) -> None:
        """Weigh the forced tokens that follow tokens of a forward pass.

        Args:
            logits: The pass's logits, shape (tokens of the pass, vocabulary).
            start: Index of the pass's first token in ``tokens``.
            tokens: All tokens of the sequence.
            prompt_tokens: Length of the prompt.
            known: The weights of sequences with the same tokens and logits, which is extended.
        """
        while self._forced and self._forced[0].position <= start + logits.shape[0]:
            position, ids, sampler = self._forced.popleft()
            key = position, ids, sampler.parameters
            if key not in known:
                known[key] = sampler.log_probability(
                    logits[position - 1 - start],
                    mx.array(ids),
                    tokens[:position],
                    prompt_tokens=prompt_tokens,
                )
            self._unread.append(known[key])

    def read(self) -> None:
        """Read the log-weights that are known by now. May wait for the device."""
        for one in self._unread:
            value = cast(float, one.item())
            # A model that computes NaN gives no weight.
            self.sums.append(
                self.total + self._factor + (-math.inf if math.isnan(value) else value)
            )
            self._factor = 0.0
        self._unread.clear()

    def copy(self) -> TokenWeights:
        """Return independent weights with the same past."""
        twin = TokenWeights()
        twin.sums = list(self.sums)
        twin._factor = self._factor
        twin._unread = list(self._unread)
        twin._forced = deque(self._forced)
        return twin
