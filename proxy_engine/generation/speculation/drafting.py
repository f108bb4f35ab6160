"""The drafting state of a sequence: drafters, their acceptance rates, a draft model's text."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import groupby

from state_machines.budgets import step_limit
from state_machines.errors import GrammarBudgetError

from ...options.generation import SpeculationOptions
from ..batch_rows import BatchRows, CachedText
from ..constraint import Constraint
from ..restrictions import ADVANCE_STEPS
from .draft_length import DraftGain, RowOutlook, StepCosts, can_pay, draft_length
from .drafts import MAX_TOKENS_PER_STEP, Draft, Drafter

_log = logging.getLogger(__name__)

_FIRST_RATE = 0.75
"""Rate before the first draft. With the base of a CPU, the first draft has 5 tokens."""

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


class AcceptanceRate:
    """Estimates how often the proposals of one drafter are accepted in one part of an answer.

    A draft of ``n`` tokens tells of its accepted tokens and of the first refused one; the tokens
    behind that were never judged. The estimate is the share of accepted tokens among the judged
    ones, and recent drafts count more.

    A drafter whose drafts are refused from the first token pauses: for 4 tokens after the third
    such draft in a row, then for 16, and so on up to 1,024. A single accepted token ends that.
    """

    def __init__(self) -> None:
        # Weighted numbers of tokens. At most one token of a draft is refused.
        self._accepted = 0.0
        self._refused = 0.0
        # Drafts since the last accepted token.
        self._refusals = 0
        self._resumes_at = 0

    def at(self, generated: int) -> float:
        """Return the expected probability that a proposed token is accepted.

        It is the probability of each token of a draft, provided that those before it are accepted.

        Args:
            generated: Tokens that the sequence has generated, forced ones included.

        Returns:
            0 during a pause.
        """
        if generated < self._resumes_at:
            return 0.0
        # The first rate counts as one more token.
        rate = (_FIRST_RATE + self._accepted) / (1 + self._accepted + self._refused)
        return max(rate, _RETRY_RATE) if self._refusals >= _REFUSALS_BEFORE_PAUSE else rate

    def record(self, drafted: int, accepted: int, generated: int) -> None:
        """Record the outcome of a draft.

        Args:
            drafted: Proposed tokens that were verified.
            accepted: How many of them were accepted.
            generated: Tokens that the sequence has generated.
        """
        if drafted <= 0:
            return
        hits, misses = float(accepted), float(accepted < drafted)
        room = max(0.0, _MAX_EVIDENCE - hits - misses)
        before = self._accepted + self._refused
        kept = min(_MEMORY, room / before) if before else 0.0
        scale = min(1.0, _MAX_EVIDENCE / (hits + misses))
        self._accepted = kept * self._accepted + scale * hits
        self._refused = kept * self._refused + scale * misses
        if accepted:
            self._refusals, self._resumes_at = 0, 0
            return
        self._refusals += 1
        excess = self._refusals - _REFUSALS_BEFORE_PAUSE
        if excess >= 0:
            pause = min(_MAX_PAUSE, _FIRST_PAUSE * _PAUSE_GROWTH ** min(excess, 8))
            self._resumes_at = generated + pause


class DraftedText(CachedText):
    """The prefix of a sequence that a draft model has read. Its tail is a draft.

    Args:
        tokens: The tokens of the sequence, which appends to the same list.
        processed: Leading tokens that the cache holds.

    Attributes:
        rows: The batch that has its cache.
    """

    def __init__(self, tokens: list[int], processed: int) -> None:
        super().__init__(tokens, processed)
        self.rows: BatchRows[DraftedText] = BatchRows()

    def move_to(self, rows: BatchRows[DraftedText]) -> None:
        """Move the cache to another batch."""
        cache = self.rows.remove(self, wants_cache=True) or []
        self.rows = rows
        rows.add(self, cache)


class Drafting:
    """The drafting state of a sequence: drafters, their acceptance rates, a draft model's text.

    Args:
        drafters: In the order in which they are asked.
        options: Limits of drafts.
        costs: The cost of passes, from which the length of drafts follows.
        model: Names the draft model or head in acceptance rates; ``None``: there is none.
        model_cost: Time in which it makes a token, in the time of a pass over one token.

    Attributes:
        drafted: Number of verified draft tokens, by source.
        accepted: Number of accepted draft tokens, by source.
        text: The sequence's text, as far as the draft model or head has read it.
    """

    def __init__(
        self,
        drafters: Sequence[Drafter],
        options: SpeculationOptions,
        costs: StepCosts,
        model: str | None = None,
        model_cost: float = 0.0,
    ) -> None:
        self.drafted = Counter[str]()
        self.accepted = Counter[str]()
        self.text: DraftedText | None = None
        self._drafters = list(drafters)
        self._options = options
        self._costs = costs
        self._model = model if options.draft_model else None
        self._model_cost = model_cost
        # By part of the answer and source of the proposal.
        self._rates: defaultdict[tuple[str, str], AcceptanceRate] = defaultdict(AcceptanceRate)

    @property
    def has_model(self) -> bool:
        """Whether a draft model or head may draft."""
        return self._model is not None

    @property
    def is_adaptive(self) -> bool:
        """Whether the length of drafts follows the acceptance rate."""
        return self._options.is_adaptive

    def may_pay(self, constraint: Constraint, rows: int) -> bool:
        """Whether a draft of the sequence can pay; see :meth:`expected_draft`."""
        if self._model is not None:
            return True
        return any(self._pays(constraint, drafter, rows) for drafter in self._drafters)

    def expected_draft(
        self, tokens: Sequence[int], constraint: Constraint, rows: int
    ) -> RowOutlook:
        """Return the draft that is likely once the next token is known.

        Args:
            tokens: The tokens of the sequence.
            constraint: Its constraint.
            rows: Rows of the pass that are padded to the same width.
        """
        for drafter in list(self._drafters):
            if not self._pays(constraint, drafter, rows):
                # It takes the tokens once they may be of use.
                continue
            rate = self._rate(constraint, drafter.source)
            try:
                drafter.update(tokens)
                if drafter.expects_draft(constraint.matcher):
                    return RowOutlook(rate, self._options.max_draft_tokens)
            except Exception as error:
                self._drop(drafter, error)
        if self._model is None:
            return RowOutlook()
        return RowOutlook(self._rate(constraint, self._model), self.model_length(constraint))

    def fill(self, draft: Draft, pending: int) -> None:
        """Fill an empty draft with the proposals of the drafters.

        Args:
            draft: The draft.
            pending: Tokens that the pass processes before it.
        """
        for drafter in list(self._drafters):
            try:
                drafter.update(draft.text)
            except Exception as error:
                self._drop(drafter, error)
        draft.at_most = self._options.max_draft_tokens
        gain, limit = DraftGain(self._costs.base, pending), MAX_TOKENS_PER_STEP * draft.at_most
        # No grammar makes other requests wait.
        with step_limit(ADVANCE_STEPS):
            while not draft.is_closed and len(draft.tokens) < limit:
                # A drafter may continue the proposal of another, and text behind forced tokens.
                if not any(self._extend(draft, drafter, gain) for drafter in list(self._drafters)):
                    break
        draft.cut(limit)

    def model_length(self, constraint: Constraint, pending: int = 1) -> int:
        """Return how many tokens the draft model or head would draft now.

        Args:
            constraint: The constraint of the sequence.
            pending: Tokens that the pass processes before the draft.
        """
        options = self._options
        if self._model is None:
            return 0
        if options.num_draft_tokens is not None:
            return options.num_draft_tokens
        if not options.is_adaptive:
            return options.max_draft_tokens
        return draft_length(
            self._rate(constraint, self._model),
            self._costs.base,
            options.max_draft_tokens,
            pending=pending,
            draft_cost=self._model_cost,
        )

    def outlook(self, draft: Draft, pending: int) -> RowOutlook:
        """Return the length and the acceptance rate of a draft.

        Args:
            draft: The draft.
            pending: Tokens that the pass processes before it.
        """
        if not draft.steps:
            return RowOutlook(pending=pending)
        first = draft.steps[0]
        rate = self._rates[first.part, first.source].at(draft.generated)
        return RowOutlook(rate, len(draft.tokens), pending)

    def record(self, draft: Draft) -> None:
        """Record the result of a verification."""
        sources = [step.source for step in draft.steps]
        self.drafted.update(sources)
        self.accepted.update(sources[: draft.accepted])
        left = draft.accepted
        judged = draft.steps[: draft.judged]
        for (part, source), steps in groupby(judged, lambda step: (step.part, step.source)):
            drafted = len(list(steps))
            self._rates[part, source].record(drafted, min(left, drafted), draft.generated)
            if left < drafted:
                break
            left -= drafted

    def drop_model(self) -> None:
        """Draft without the draft model or head from now on."""
        self._model = None

    def _rate(self, constraint: Constraint, source: str) -> float:
        return self._rates[constraint.part_name, source].at(constraint.generated)

    def _pays(self, constraint: Constraint, drafter: Drafter, rows: int) -> bool:
        if not self.is_adaptive:
            return True
        return can_pay(self._rate(constraint, drafter.source), self._costs.base, rows)

    def _extend(self, draft: Draft, drafter: Drafter, gain: DraftGain) -> bool:
        """Append the tokens of a proposal that pay; return whether a token was added."""
        constraint, steps = draft.constraint, len(draft.steps)
        left = draft.at_most - steps
        if left <= 0:
            return False
        try:
            proposed = list(drafter.propose(draft.text, constraint.matcher, left))[:left]
        except GrammarBudgetError:
            return False
        except Exception as error:
            self._drop(drafter, error)
            return False
        rate = self._rate(constraint, drafter.source)
        while proposed and (gain.pays(rate) or not self.is_adaptive):
            if not draft.append(proposed[0], drafter.source):
                break
            follow = draft.steps[-1].forced
            gain.add(rate, 1 + len(follow))
            forced, proposed = proposed[1 : 1 + len(follow)], proposed[1 + len(follow) :]
            if forced != follow[: len(forced)]:
                break
        return len(draft.steps) > steps

    def _drop(self, drafter: Drafter, error: Exception) -> None:
        _log.warning("the drafter %s is disabled for a request: %r", drafter.name, error)
        self._drafters.remove(drafter)
