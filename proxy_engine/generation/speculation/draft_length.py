"""Draft lengths: how many tokens to draft, so that the most tokens are generated in a given time.

With the acceptance rate ``a`` for each token, a pass that verifies ``k`` proposed tokens yields
``1 + a + ... + a**k`` tokens on average (Leviathan et al. 2023, equation 1). The best length
maximises that number over the cost of the pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from ...runtime.blas import has_fast_blas

_MAX_RATE = 0.999
_MIN_CHANCE = 0.05
"""Tokens that are accepted less often are not drafted, even where a pass has room for them."""


@dataclass(frozen=True, slots=True)
class PassCost:
    """The cost of a forward pass, relative to a pass over one token.

    A pass takes a constant time, in which the weights are read, and a time for each of its tokens.
    Only the number of tokens matters, not whether they are in one row or in several.

    Attributes:
        base: Constant time of a pass, in the time of one token.
        per_draft_token: Time in which a draft model makes a token, in the time of a pass over one
            token.
    """

    base: float
    per_draft_token: float = 0.0

    def of_pass(self, tokens: int) -> float:
        """Return the cost of a pass over some tokens, padding included."""
        return (self.base + tokens) / (self.base + 1)

    def pays(self, rate: float, rows: int = 1) -> bool:
        """Whether a draft of one token can pay.

        Args:
            rate: The largest probability that it is accepted.
            rows: Rows of a pass that are padded to the same width.
        """
        return min(rate, _MAX_RATE) * (self.base / rows + 1) > 1

    def of_draft(self, tokens: int) -> float:
        """Return the cost of making a draft."""
        return tokens * self.per_draft_token


FAST_CPU = PassCost(12.0)
"""A CPU with OpenBLAS. Measured, one thread, 200 tokens in the cache: a pass over 9 tokens costs
1.70 (embedded model), 1.42 (8 layers of width 256, vocabulary 128,256) or 1.91 (vocabulary 8,192),
and one over 17 costs 2.03, 1.69 or 2.41."""

SLOW_CPU = PassCost(0.0)
"""A CPU without a fast BLAS: the time of a pass is proportional to its tokens, so drafts never pay.
Measured, 8 layers of width 256, vocabulary 128,256: a pass over 9 tokens costs 8.4."""

GPU = PassCost(32.0)
"""A GPU reads the weights in most of the time of a small pass. Not measured."""


def expected_tokens(rate: float, drafted: int) -> float:
    """Return how many tokens a pass yields on average: the accepted ones and one more.

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
        cost: The cost of passes and drafts.
        pending: Tokens that the pass processes anyway.
    """

    def __init__(self, cost: PassCost, pending: int) -> None:
        self._chance = 1.0
        self._expected = float(pending)
        # In the time of a token of a pass.
        self._spent = cost.base + pending
        self._token_cost = 1 + cost.per_draft_token * (cost.base + 1)

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


def draft_length(rate: float, cost: PassCost, at_most: int, *, pending: int = 1) -> int:
    """Return how many tokens to draft for a single sequence.

    Args:
        rate: Probability that each proposed token is accepted, from 0 to 1.
        cost: The cost of passes and drafts.
        at_most: Maximum number of tokens.
        pending: Tokens that the pass processes anyway.

    Returns:
        The length with the most expected tokens in a given time; 0 if drafting does not pay.
    """
    gain, length = DraftGain(cost, pending), 0
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

    rate: float
    at_most: int
    pending: int = 1


def batch_lengths(rows: Sequence[RowOutlook], cost: PassCost, *, pads: bool) -> list[int]:
    """Return how many tokens each row of a batch drafts for the next pass.

    The rows of a pass are padded to its width. The chosen width maximises the product of the rows'
    speeds (proportional fairness), so a row that drafts well gets no width that costs the others
    more than it gains. A row drafts up to the width, as far as its tokens have a chance.

    Args:
        rows: The rows.
        cost: The cost of passes and drafts.
        pads: Whether padding is nearly free, as on a GPU. Each row then has its own length.

    Returns:
        The lengths. Rows with more pending tokens than ``1 + max(lengths)`` process the others
        later, if padding costs.
    """
    if pads or len(rows) == 1:
        return [draft_length(row.rate, cost, row.at_most, pending=row.pending) for row in rows]
    longest = [_sensible_length(row) for row in rows]

    def lengths(width: int) -> list[int]:
        pairs = zip(rows, longest, strict=True)
        return [max(0, min(length, width - row.pending)) for row, length in pairs]

    def log_speed(width: int) -> float:
        drafted = lengths(width)
        # A pass is as wide as its longest draft, which may be narrower than the width allows.
        pairs = zip(rows, drafted, strict=True)
        width = max((row.pending + length for row, length in pairs if length), default=1)
        time = cost.of_pass(width * len(rows)) + cost.of_draft(max(drafted))
        progress = [
            min(width, row.pending) - 1 + expected_tokens(min(row.rate, _MAX_RATE), length)
            for row, length in zip(rows, drafted, strict=True)
        ]
        return sum(math.log(tokens / time) for tokens in progress)

    pairs = zip(rows, longest, strict=True)
    widest = max((row.pending + length for row, length in pairs if length), default=1)
    return lengths(max(range(1, widest + 1), key=log_speed)) if rows else []


def _sensible_length(row: RowOutlook) -> int:
    """Return how many proposed tokens have a chance to be accepted."""
    rate = min(row.rate, _MAX_RATE)
    if rate < _MIN_CHANCE:
        return 0
    return min(max(0, row.at_most), math.floor(math.log(_MIN_CHANCE) / math.log(rate)))


_FIRST_RATE = 0.75
"""Rate before the first draft. With a pass cost of a CPU, the first draft has 5 tokens."""

_MEMORY = 0.9
"""Weight of the evidence so far, after each draft."""

_MAX_EVIDENCE = 16.0
"""Largest number of tokens that count, so that a drafter that was good is abandoned soon."""

_REFUSALS_BEFORE_PAUSE = 3
_FIRST_PAUSE = 4
_PAUSE_GROWTH = 4
_MAX_PAUSE = 1024
_RETRY_RATE = 0.4
"""Lowest rate after a pause, so that the drafter is tried again, with a short draft."""


@dataclass(slots=True)
class _Record:
    """What happened to the drafts of one drafter in one part.

    Attributes:
        accepted: Accepted tokens, weighted.
        refused: Refused tokens, weighted: at most one in each draft.
        refusals: Drafts since the last accepted token.
        resumes_at: Number of generated tokens from which the drafter may draft again.
    """

    accepted: float = 0.0
    refused: float = 0.0
    refusals: int = 0
    resumes_at: int = 0

    @property
    def rate(self) -> float:
        """The estimate: the first rate counts as one more token."""
        return (_FIRST_RATE + self.accepted) / (1 + self.accepted + self.refused)


class AcceptanceRates:
    """Estimates the acceptance rates of the drafters of one sequence.

    A draft of ``n`` tokens tells of its accepted tokens and of the first refused one; the tokens
    behind that were never judged. The estimate is the share of accepted tokens among the judged
    ones, and recent drafts count more.

    A drafter whose drafts are refused from the first token pauses: for 4 tokens after the third
    such draft in a row, then for 16, and so on up to 1,024. A single accepted token ends that.
    """

    def __init__(self) -> None:
        self._generated = 0
        self._records: dict[tuple[str, str], _Record] = {}

    def advance(self, tokens: int) -> None:
        """Count generated tokens, forced ones included. Pauses are counted in tokens."""
        self._generated += tokens

    def rate(self, part: str, source: str) -> float:
        """Return the expected probability that a proposed token is accepted.

        It is the probability of each token of a draft, provided that those before it are accepted.

        Args:
            part: The part of the answer that the token belongs to.
            source: The name of the drafter.

        Returns:
            0 during a pause.
        """
        record = self._records.get((part, source))
        if record is None:
            return _FIRST_RATE
        if self._generated < record.resumes_at:
            return 0.0
        if record.refusals >= _REFUSALS_BEFORE_PAUSE:
            return max(record.rate, _RETRY_RATE)
        return record.rate

    def record(self, part: str, source: str, drafted: int, accepted: int) -> None:
        """Record the outcome of a draft.

        Args:
            part: The part of the answer in which the draft begins.
            source: The name of the drafter.
            drafted: Proposed tokens that were verified.
            accepted: How many of them were accepted.
        """
        if drafted <= 0:
            return
        record = self._records.setdefault((part, source), _Record())
        hits, misses = float(accepted), float(accepted < drafted)
        room = max(0.0, _MAX_EVIDENCE - hits - misses)
        before = record.accepted + record.refused
        kept = min(_MEMORY, room / before) if before else 0.0
        scale = min(1.0, _MAX_EVIDENCE / (hits + misses))
        record.accepted = kept * record.accepted + scale * hits
        record.refused = kept * record.refused + scale * misses
        if accepted:
            record.refusals, record.resumes_at = 0, 0
            return
        record.refusals += 1
        excess = record.refusals - _REFUSALS_BEFORE_PAUSE
        if excess >= 0:
            pause = min(_MAX_PAUSE, _FIRST_PAUSE * _PAUSE_GROWTH ** min(excess, 8))
            record.resumes_at = self._generated + pause


def device_pass_cost() -> PassCost:
    """Return the cost of passes that is assumed on the default device."""
    if mx.default_device().type == mx.DeviceType.gpu:
        return GPU
    return FAST_CPU if has_fast_blas() else SLOW_CPU
