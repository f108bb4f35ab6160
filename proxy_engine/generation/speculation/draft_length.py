"""Draft lengths: how many tokens to draft, so that the most tokens are generated in a given time.

With the acceptance rate ``a`` for each token, a pass that verifies ``k`` proposed tokens yields
``1 + a + ... + a**k`` tokens on average (Leviathan et al. 2023, equation 1). The best length
maximises that number over the time of the pass.

A pass takes a constant time, in which the weights are read, and a time for each of its tokens,
padding included. Only the number of tokens matters, not whether they are in one row or in several.
The *base* is the constant time, in the time of one token.

How much a draft costs depends on the model, the device and the work of the CPU at each drafted
position. For a small model that work takes longer than the pass, so that few drafts pay, however
many of their tokens are accepted. The base is therefore measured from the time of whole steps while
the model generates: the time that drafts add to a step, for each of their tokens.
Medians are used, since other processes interrupt some of the steps.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import mlx.core as mx

from ...runtime.blas import has_fast_blas
from ..cache_layers import must_replay

_MAX_RATE = 0.999
_MIN_CHANCE = 0.05
"""Tokens that are accepted less often are not drafted, even where a pass has room for them."""

FAST_CPU = 12.0
"""Base of a CPU with OpenBLAS. Measured, one thread, 200 tokens in the cache: a pass over 9 tokens
costs 1.70 passes over one (embedded model), 1.42 (8 layers of width 256, vocabulary 128,256) or
1.91 (vocabulary 8,192), and one over 17 costs 2.03, 1.69 or 2.41."""

SLOW_CPU = 0.0
"""Base of a CPU without a fast BLAS: the time of a pass is proportional to its tokens, so drafts
never pay. Measured, 8 layers of width 256, vocabulary 128,256: a pass over 9 tokens costs 8.4."""

GPU = 32.0
"""A GPU reads the weights in most of the time of a small pass. Not measured."""


def device_base() -> float:
    """Return the base that is assumed on the default device."""
    if mx.default_device().type == mx.DeviceType.gpu:
        return GPU
    return FAST_CPU if has_fast_blas() else SLOW_CPU


# The best length.


def can_pay(rate: float, base: float, rows: int = 1) -> bool:
    """Whether a draft of one token can pay.

    Args:
        rate: The largest probability that it is accepted.
        base: The base of passes.
        rows: Rows of a pass that are padded to the same width.
    """
    return min(rate, _MAX_RATE) * (base / rows + 1) > 1


def expected_tokens(rate: float, drafted: int) -> float:
    """Return the average number of tokens of a pass: accepted tokens, and one sampled token.

    Args:
        rate: Probability that each proposed token is accepted, from 0 to 1.
        drafted: Number of proposed tokens.
    """
    if rate >= 1:
        return drafted + 1.0
    return float((1 - rate ** (drafted + 1)) / (1 - rate))


class DraftGain:
    """Decides token by token whether a longer draft pays.

    A token with the chance ``p`` of being accepted increases the expected tokens in a given time if
    ``p`` over its cost exceeds the expected tokens so far over their cost.

    Args:
        base: The base of passes.
        pending: Tokens that the pass processes anyway.
        draft_cost: Time in which a draft model makes a token, in the time of a pass over one token.
    """

    def __init__(self, base: float, pending: int, draft_cost: float = 0.0) -> None:
        self._chance = 1.0
        self._expected = float(pending)
        # In the time of a token of a pass.
        self._spent = base + pending
        self._token_cost = 1 + draft_cost * (base + 1)

    def pays(self, rate: float) -> bool:
        """Whether another token pays, which is accepted at a rate if all before it are."""
        chance = self._chance * min(rate, _MAX_RATE)
        return chance * self._spent > self._expected * self._token_cost

    def add(self, rate: float, tokens: int) -> None:
        """Add a proposed token.

        Args:
            rate: Probability that it is accepted if all before it are.
            tokens: Its number of tokens: itself, and the forced ones behind it.
        """
        self._chance *= min(rate, _MAX_RATE)
        self._expected += self._chance * tokens
        self._spent += tokens * self._token_cost


def draft_length(
    rate: float, base: float, at_most: int, *, pending: int = 1, draft_cost: float = 0.0
) -> int:
    """Return how many tokens to draft for a single sequence.

    Args:
        rate: Probability that each proposed token is accepted, from 0 to 1.
        base: The base of passes.
        at_most: Maximum number of tokens.
        pending: Tokens that the pass processes anyway.
        draft_cost: See :class:`DraftGain`.

    Returns:
        The length with the most expected tokens in a given time; 0 if drafting does not pay.
    """
    gain, length = DraftGain(base, pending, draft_cost), 0
    while length < at_most and gain.pays(rate):
        gain.add(rate, 1)
        length += 1
    return length


@dataclass(frozen=True, slots=True)
class RowOutlook:
    """The draft that a row of a batch can make.

    Attributes:
        rate: Probability that each proposed token is accepted; 0 for a row that does not draft.
        at_most: Maximum number of tokens to draft.
        pending: Tokens that the row has to process anyway.
    """

    rate: float = 0.0
    at_most: int = 0
    pending: int = 1


def batch_lengths(rows: Sequence[RowOutlook], base: float, *, pads: bool) -> list[int]:
    """Return how many tokens each row of a batch drafts for the next pass.

    The rows of a pass are padded to its width. The chosen width maximises the product of the rows'
    speeds (proportional fairness), so a row that drafts well gets no width that costs the others
    more than it gains. A row drafts up to the width, as far as its tokens have a chance.

    Args:
        rows: The rows.
        base: The base of passes.
        pads: Whether padding is nearly free, as on a GPU. Each row then has its own length.

    Returns:
        The lengths. Rows with more pending tokens than ``1 + max(lengths)`` process the others
        later, if padding costs.
    """
    if pads or len(rows) == 1:
        return [draft_length(row.rate, base, row.at_most, pending=row.pending) for row in rows]
    longest = [_sensible_length(row) for row in rows]

    def lengths(width: int) -> list[int]:
        pairs = zip(rows, longest, strict=True)
        return [max(0, min(length, width - row.pending)) for row, length in pairs]

    def log_speed(width: int) -> float:
        drafted = lengths(width)
        # A pass is as wide as its longest draft, which may be narrower than the width allows.
        pairs = zip(rows, drafted, strict=True)
        width = max((row.pending + length for row, length in pairs if length), default=1)
        time = base + width * len(rows)
        progress = [
            min(width, row.pending) - 1 + expected_tokens(min(row.rate, _MAX_RATE), length)
            for row, length in zip(rows, drafted, strict=True)
        ]
        return sum(math.log(tokens / time) for tokens in progress)

    pairs = zip(rows, longest, strict=True)
    widest = max((row.pending + length for row, length in pairs if length), default=1)
    return lengths(max(range(1, widest + 1), key=log_speed)) if rows else []


def pass_width(pending: Sequence[int], base: float) -> int:
    """Return the width of a pass without drafts, if padding costs as much as tokens.

    It maximises the product of the rows' speeds, as :func:`batch_lengths` does.

    Args:
        pending: The tokens that each row has to process.
        base: The base of passes.
    """

    def log_speed(width: int) -> float:
        progress = sum(math.log(min(width, tokens)) for tokens in pending)
        return progress - len(pending) * math.log(base + width * len(pending))

    return max(sorted({1, *pending}), key=log_speed)


def _sensible_length(row: RowOutlook) -> int:
    """Return how many proposed tokens have a chance to be accepted."""
    rate = min(row.rate, _MAX_RATE)
    if rate < _MIN_CHANCE:
        return 0
    return min(max(0, row.at_most), math.floor(math.log(_MIN_CHANCE) / math.log(rate)))


# The measured base.

_PLAIN_STEPS = 15
_DRAFTED_STEPS = 7
"""The last steps without and with drafts, whose medians are used."""

_ASSUMED_EVIDENCE = 0.01
"""Weight of the base that is assumed for the device, in steps with drafts."""

_FORGETTING = 0.99
"""Factor of the evidence of drafts after each step without one. Once it is forgotten, after some
hundred steps, a draft is tried again."""

STEPS_BETWEEN_UPDATES = 8
"""Steps without drafts after which the base is computed again."""

_MAX_BASE = 32.0

_REPLAY_SHARE = 0.25
"""Share of the base that is left to drafts where accepted tokens may be processed again.

Simulated with acceptance rates up to 0.95 and a base of 5 to 32: drafts of this length are at most
5% slower than the best ones, and never slower than none."""


class StepCosts:
    """Measures the base of the passes of one model. To be used on the model thread.

    Args:
        cache: A prompt cache of the model.

    Attributes:
        base: The base. Before steps with and without drafts are measured, it is the one that is
            assumed for the device.
    """

    def __init__(self, cache: Sequence[Any] = ()) -> None:
        self._assumed = device_base()
        self._share = _REPLAY_SHARE if must_replay(cache) else 1.0
        self.base = self._share * self._assumed
        # Tokens and seconds of steps without drafts.
        self._plain: deque[tuple[int, float]] = deque(maxlen=_PLAIN_STEPS)
        # Seconds for each token that drafts add to a step.
        self._added: deque[float] = deque(maxlen=_DRAFTED_STEPS)
        self._evidence = 0.0
        self._has_drafted = False
        self._steps = 0

    def record(self, tokens: int, seconds: float, *, is_drafted: bool) -> None:
        """Record a step.

        Args:
            tokens: Tokens of its pass, padding included.
            seconds: Its time, with the work of the CPU.
            is_drafted: Whether the pass has drafts.
        """
        if not is_drafted:
            self._plain.append((tokens, seconds))
            self._evidence *= _FORGETTING
        elif not self._has_drafted:
            # The first draft does work that later ones find done.
            self._has_drafted = True
        elif self._plain:
            few = median(count for count, _ in self._plain)
            if tokens > few:
                self._added.append((seconds - self._plain_seconds) / (tokens - few))
                self._evidence = min(self._evidence + 1, _DRAFTED_STEPS)
        self._steps += 1
        if self._evidence and (is_drafted or self._steps % STEPS_BETWEEN_UPDATES == 0):
            weight = self._evidence / (self._evidence + _ASSUMED_EVIDENCE)
            base = weight * self._measured_base() + (1 - weight) * self._assumed
            self.base = self._share * base

    @property
    def _plain_seconds(self) -> float:
        return median(seconds for _, seconds in self._plain)

    def _measured_base(self) -> float:
        per_token = median(self._added)
        if per_token <= 0:
            return _MAX_BASE
        few = median(count for count, _ in self._plain)
        return min(max(self._plain_seconds / per_token - few, 0.0), _MAX_BASE)
