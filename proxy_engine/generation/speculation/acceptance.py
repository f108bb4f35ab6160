"""Acceptance rates: how likely the tokens of a drafter are accepted, by part of the answer."""

from __future__ import annotations

from dataclasses import dataclass

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
