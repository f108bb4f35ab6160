"""The drafters of one sequence, and how often their proposals were accepted."""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby

from state_machines.budgets import step_limit
from state_machines.errors import GrammarBudgetError

from ...options.generation import SpeculationOptions
from ..batch_rows import BatchRows
from ..cache_layers import can_retract
from ..model_checks import ModelChecks
from ..restrictions import ADVANCE_STEPS
from ..sequence import GeneratedSequence
from .draft_length import (
    STEPS_BETWEEN_UPDATES,
    DraftGain,
    RowOutlook,
    StepCosts,
    batch_lengths,
    can_pay,
    draft_length,
)
from .drafts import MAX_TOKENS_PER_STEP, Draft, Drafter
from .model_drafter import ModelDrafter

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


class Drafting:
    """Makes the drafts of one sequence.

    Args:
        drafters: In the order in which they are asked.
        options: Limits of drafts.
        costs: The cost of passes, from which the length of drafts follows.
        model: Names the draft model or head in acceptance rates; ``None``: there is none.
        model_cost: Time in which it makes a token, in the time of a pass over one token.

    Attributes:
        drafted: Number of verified draft tokens, by source.
        accepted: Number of accepted draft tokens, by source.
        in_flight: The draft whose pass is dispatched and not verified.
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
        self.in_flight: Draft | None = None
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

    def may_pay(self, sequence: GeneratedSequence, rows: int) -> bool:
        """Whether a draft of the sequence can pay; see :meth:`expected_draft`."""
        if self._model is not None:
            return True
        return any(self._pays(sequence, drafter, rows) for drafter in self._drafters)

    def expected_draft(self, sequence: GeneratedSequence, rows: int) -> RowOutlook | None:
        """Return the draft that is likely once the next token is known; ``None``: there is none.

        Args:
            sequence: The sequence.
            rows: Rows of the pass that are padded to the same width.
        """
        for drafter in list(self._drafters):
            if not self._pays(sequence, drafter, rows):
                # It takes the tokens once they may be of use.
                continue
            rate = self._rate(sequence, drafter.source)
            try:
                drafter.update(sequence.tokens)
                if drafter.expects_draft(sequence.constraint.matcher):
                    return RowOutlook(rate, self._options.max_draft_tokens)
            except Exception as error:
                self._drop(drafter, error)
        length = self._model_length(sequence, pending=1)
        if self._model is None or not length:
            return None
        return RowOutlook(self._rate(sequence, self._model), length)

    def draft(self, sequence: GeneratedSequence) -> Draft:
        """Return a draft behind the sequence's pending tokens; it may be empty."""
        for drafter in list(self._drafters):
            try:
                drafter.update(sequence.tokens)
            except Exception as error:
                self._drop(drafter, error)
        draft = Draft(sequence)
        gain = DraftGain(self._costs.base, max(1, len(sequence.pending)))
        limit = MAX_TOKENS_PER_STEP * self._options.max_draft_tokens
        # No grammar makes other requests wait.
        with step_limit(ADVANCE_STEPS):
            while not draft.is_closed and len(draft.tokens) < limit:
                # A drafter may continue the proposal of another, and text behind forced tokens.
                if not any(self._extend(draft, drafter, gain) for drafter in list(self._drafters)):
                    break
        draft.cut(limit)
        return draft

    def model_length(self, draft: Draft) -> int:
        """Return how many tokens the draft model should append to a draft.

        Nothing behind copied text, which is right more often and costs nothing.
        """
        if draft.is_closed or not draft.is_empty:
            return 0
        state = draft.state
        return self._model_length(state, pending=max(1, len(state.pending)))

    def may_use_model(self, sequence: GeneratedSequence) -> bool:
        """Whether the draft model or head would draft now, by its acceptance rate and cost."""
        return self._model_length(sequence, pending=1) > 0

    def outlook(self, draft: Draft, pending: int) -> RowOutlook:
        """Return the length and the acceptance rate of a draft.

        Args:
            draft: A draft of the sequence.
            pending: Tokens that the pass processes before it.
        """
        if not draft.steps:
            return RowOutlook(pending=pending)
        first = draft.steps[0]
        rate = self._rates[first.part, first.source].at(draft.sequence.generated)
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
            generated = draft.sequence.generated
            self._rates[part, source].record(drafted, min(left, drafted), generated)
            if left < drafted:
                break
            left -= drafted

    def drop_model(self) -> None:
        """Draft without the draft model or head from now on."""
        self._model = None

    def _rate(self, sequence: GeneratedSequence, source: str) -> float:
        return self._rates[sequence.constraint.part_name, source].at(sequence.generated)

    def _pays(self, sequence: GeneratedSequence, drafter: Drafter, rows: int) -> bool:
        if not self.is_adaptive:
            return True
        return can_pay(self._rate(sequence, drafter.source), self._costs.base, rows)

    def _model_length(self, sequence: GeneratedSequence, *, pending: int) -> int:
        options = self._options
        if self._model is None:
            return 0
        if options.num_draft_tokens is not None:
            return options.num_draft_tokens
        if not options.is_adaptive:
            return options.max_draft_tokens
        return draft_length(
            self._rate(sequence, self._model),
            self._costs.base,
            options.max_draft_tokens,
            pending=pending,
            draft_cost=self._model_cost,
        )

    def _extend(self, draft: Draft, drafter: Drafter, gain: DraftGain) -> bool:
        """Append the proposal of a drafter, as far as it pays; return whether a token was added."""
        state, steps = draft.state, len(draft.steps)
        left = self._options.max_draft_tokens - steps
        if left <= 0:
            return False
        try:
            proposed = list(drafter.propose(state.tokens, state.constraint.matcher, left))[:left]
        except GrammarBudgetError:
            return False
        except Exception as error:
            self._drop(drafter, error)
            return False
        rate = self._rate(state, drafter.source)
        while proposed and (gain.pays(rate) or not self.is_adaptive):
            if not draft.append(proposed[0], drafter.source):
                break
            follow = draft.steps[-1].forced
            gain.add(rate, 1 + len(follow))
            forced, proposed = proposed[1 : 1 + len(follow)], proposed[1 + len(follow) :]
            if tuple(forced) != follow[: len(forced)]:
                break
        return len(draft.steps) > steps

    def _drop(self, drafter: Drafter, error: Exception) -> None:
        _log.warning("the drafter %s is disabled for a request: %r", drafter.name, error)
        self._drafters.remove(drafter)


class BatchDrafts:
    """Makes the drafts of the passes of a batch.

    Args:
        rows: The sequences with their cache.
        probe: Determines whether the model computes wide passes and padded rows correctly.
        draft_model: Extends the drafts of sequences that allow it.
        costs: The cost of passes.
        pads: Whether padding is nearly free.

    Attributes:
        model_seconds: Time in which the draft model has made them.
    """

    def __init__(
        self,
        rows: BatchRows[GeneratedSequence],
        probe: ModelChecks,
        draft_model: ModelDrafter | None,
        costs: StepCosts,
        *,
        pads: bool,
    ) -> None:
        self.model_seconds = 0.0
        self._rows = rows
        self._probe = probe
        self._draft_model = draft_model
        self._pads = pads
        self._costs = costs
        # For how many steps no draft will pay, if no sequence joins or leaves.
        self._rest = 0

    def in_flight(self) -> dict[GeneratedSequence, Draft]:
        """Return the drafts whose pass is dispatched and not verified."""
        return {
            sequence: sequence.drafting.in_flight
            for sequence in self._rows.sequences
            if isinstance(sequence.drafting, Drafting) and sequence.drafting.in_flight is not None
        }

    def change(self) -> None:
        """Notice that sequences have joined or left."""
        self._rest = 0

    def are_expected(self) -> bool:
        """Whether the next pass is likely to have drafts."""
        sequences = self._rows.sequences
        if self._rest:
            self._rest -= 1
            return False
        drafting = self._drafting()
        rows = 1 if self._pads else len(sequences)
        if not any(drafters.may_pay(sequence, rows) for sequence, drafters in drafting.items()):
            # A grammar may begin another part, whose drafts pay.
            if all(sequence.is_free for sequence in sequences):
                self._rest = STEPS_BETWEEN_UPDATES
            return False
        expected = {
            sequence: drafters.expected_draft(sequence, rows)
            for sequence, drafters in drafting.items()
        }
        if not any(expected.values()):
            return False
        outlooks = [expected.get(sequence) or RowOutlook() for sequence in self._rows.sequences]
        if len(outlooks) == 1 or not all(drafters.is_adaptive for drafters in drafting.values()):
            return any(outlook.at_most for outlook in outlooks)
        return any(batch_lengths(outlooks, self._costs.base, pads=self._pads))

    def make(self) -> dict[GeneratedSequence, Draft]:
        """Return drafts for the next pass, as long as pays for all sequences together."""
        self.model_seconds = 0.0
        drafting = self._drafting()
        drafts: dict[GeneratedSequence, Draft] = {}
        for sequence, drafters in drafting.items():
            with sequence.timings.during("draft"):
                drafts[sequence] = drafters.draft(sequence)
        if not drafts:
            return {}
        if self._draft_model is not None:
            self._extend(self._draft_model, drafts, drafting)
        drafts = {sequence: draft for sequence, draft in drafts.items() if not draft.is_empty}
        if len(self._rows.sequences) > 1 and all(
            drafting[sequence].is_adaptive for sequence in drafts
        ):
            outlooks = [
                drafting[sequence].outlook(drafts[sequence], len(sequence.pending))
                if sequence in drafts
                else RowOutlook(pending=len(sequence.pending))
                for sequence in self._rows.sequences
            ]
            lengths = batch_lengths(outlooks, self._costs.base, pads=self._pads)
            for sequence, length in zip(self._rows.sequences, lengths, strict=True):
                if sequence in drafts:
                    drafts[sequence].cut(length)
        self._check_pass(drafts)
        drafts = {sequence: draft for sequence, draft in drafts.items() if not draft.is_empty}
        for sequence, draft in drafts.items():
            drafting[sequence].in_flight = draft
        return drafts

    def record(self) -> None:
        """Record the results of verifications, whose accepted tokens are committed."""
        for sequence, draft in self.in_flight().items():
            if draft.accepted and not (sequence.pending or sequence.finished):
                # The next token was not sampled, because a choice is to be scored first.
                sequence.logits = draft.logits[draft.accepted - 1]
            if isinstance(sequence.drafting, Drafting):
                sequence.drafting.record(draft)
            self.drop(sequence)

    def drop(self, sequence: GeneratedSequence) -> None:
        """Forget the draft of a sequence that is in flight."""
        if isinstance(sequence.drafting, Drafting):
            sequence.drafting.in_flight = None

    def _check_pass(self, drafts: Mapping[GeneratedSequence, Draft]) -> None:
        """Empty the drafts if the model would compute other logits in a pass over them."""
        fed = [
            [*sequence.pending, *draft.tokens] for sequence, draft in drafts.items() if draft.tokens
        ]
        if fed and not self._probe.check_wide_pass(self._rows.cache, max(fed, key=len)):
            for draft in drafts.values():
                draft.cut(0)

    def _extend(
        self,
        model: ModelDrafter,
        drafts: Mapping[GeneratedSequence, Draft],
        drafting: Mapping[GeneratedSequence, Drafting],
    ) -> None:
        """Let the draft model extend drafts."""
        lengths = {
            draft: drafting[sequence].model_length(draft) for sequence, draft in drafts.items()
        }
        wanted = {draft: length for draft, length in lengths.items() if length}
        if not wanted:
            return
        started = time.perf_counter()
        try:
            model.extend(wanted, self._rows)
        except Exception as error:
            # Drafts do not change answers. Later requests draft again.
            _log.warning("the draft model drafts no more for %d requests: %r", len(wanted), error)
            for draft in wanted:
                drafting[draft.sequence].drop_model()
        ended = time.perf_counter()
        self.model_seconds = ended - started
        for draft in wanted:
            draft.sequence.timings.add("draft", started, ended)

    def _drafting(self) -> dict[GeneratedSequence, Drafting]:
        """Return the drafters of the sequences that may draft now."""
        rows = self._rows
        found = {
            sequence: sequence.drafting
            for sequence in rows.sequences
            if isinstance(sequence.drafting, Drafting) and not sequence.finished
        }
        if not found or self._probe.is_wide_pass_known_wrong(rows.cache):
            return {}
        if rows.is_merged or len(rows.sequences) > 1:
            rows.merge()
            if not (can_retract(rows.cache) and self._probe.can_pad()):
                return {}
        return found
