"""A token that is described to the device, and the probabilities that are asked for with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import mlx.core as mx

from samplers import TopLogprobs, top_logprobs

from ..results import Logprob, TokenLogprobs

__all__ = ["SampledToken"]


@dataclass(frozen=True, slots=True)
class SampledToken:
    """The next token: ``token``, an array of shape (1,), described but not evaluated."""

    token: mx.array
    _numbers: _Numbers | None = None

    @classmethod
    def with_logprobs(
        cls, token: mx.array, before: mx.array, after: mx.array, top: int
    ) -> SampledToken:
        """Describe probabilities, too: by logits before and after the mask, of ``top`` tokens."""
        return cls(token, _Numbers.of(token, before, after, top))

    @property
    def arrays(self) -> list[mx.array]:
        """What has to be evaluated."""
        return [self.token, *(self._numbers.arrays if self._numbers is not None else ())]

    def logprobs(self) -> TokenLogprobs | None:
        """Return the probabilities, where they were asked for. Waits for the device."""
        return None if self._numbers is None else self._numbers.read()


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Log-probabilities of a choice, each kind of token by the logits before and after the mask."""

    token: mx.array
    before: TopLogprobs
    after: TopLogprobs
    before_of_after: mx.array
    after_of_before: mx.array

    @classmethod
    def of(cls, token: mx.array, before: mx.array, after: mx.array, top: int) -> _Numbers:
        before, after = (array.reshape(-1).astype(mx.float32) for array in (before, after))
        tops = top_logprobs(before, token, top), top_logprobs(after, token, top)
        # Logits less their log-probabilities: what both are normalized by.
        totals = [
            mx.take(array, token) - of.chosen
            for array, of in zip((before, after), tops, strict=True)
        ]
        return cls(
            token,
            *tops,
            before_of_after=mx.take(before, tops[1].ids) - totals[0],
            after_of_before=mx.take(after, tops[0].ids) - totals[1],
        )

    @property
    def arrays(self) -> list[mx.array]:
        return [*self.before, *self.after, self.before_of_after, self.after_of_before]

    def read(self) -> TokenLogprobs:
        before, after = self.before, self.after
        top_after = _read(after.ids, self.before_of_after, after.logprobs)
        return TokenLogprobs(
            _read(self.token, before.chosen, after.chosen)[0],
            tuple(_read(before.ids, before.logprobs, self.after_of_before)),
            tuple(entry for entry in top_after if entry.after_mask > -math.inf),
        )


def _read(ids: mx.array, before: mx.array, after: mx.array) -> Sequence[Logprob]:
    columns = (cast("list[float]", array.tolist()) for array in (ids, before, after))
    return [Logprob(int(i), b, a) for i, b, a in zip(*columns, strict=True)]
