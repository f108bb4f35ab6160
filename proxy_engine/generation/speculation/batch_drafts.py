"""The drafts of the passes of a batch."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from ..batch_rows import BatchRows
from ..cache_layers import can_retract
from ..model_checks import ModelChecks
from ..sequence import GeneratedSequence
from .draft_length import STEPS_BETWEEN_UPDATES, RowOutlook, StepCosts, batch_lengths
from .draft_model import ModelDrafter
from .drafting import Drafting
from .drafts import Draft

_log = logging.getLogger(__name__)


class BatchDrafts:
    """Makes the drafts of the passes of a batch. Each is that of its sequence.

    Args:
        rows: The sequences with their cache.
        probe: Determines whether the model computes wide passes and padded rows correctly.
        draft_model: Extends the drafts of sequences that allow it.
        costs: The cost of passes.
        pads: Whether padding is nearly free.

    Attributes:
        are_possible: Whether any of the sequences is drafted.
        model_seconds: Time in which the draft model has made the last drafts.
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
        self.are_possible = False
        self.model_seconds = 0.0
        self._rows = rows
        self._probe = probe
        self._draft_model = draft_model
        self._pads = pads
        self._costs = costs
        # For how many steps no draft will pay, if no sequence joins or leaves.
        self._rest = 0

    def change(self) -> None:
        """Notice that sequences have joined or left."""
        self._rest = 0
        sequences = self._rows.sequences
        self.are_possible = any(sequence.drafting is not None for sequence in sequences)

    def are_expected(self) -> bool:
        """Whether the next pass is likely to have drafts."""
        sequences = self._rows.sequences
        if self._rest:
            self._rest -= 1
            return False
        drafting = self._drafting()
        rows = self._padded_rows
        if not any(own.may_pay(one.constraint, rows) for one, own in drafting.items()):
            # A grammar may begin another part, whose drafts pay.
            if not drafting or all(sequence.is_free for sequence in sequences):
                self._rest = STEPS_BETWEEN_UPDATES
            return False
        outlooks = [
            drafting[sequence].expected_draft(sequence.tokens, sequence.constraint, rows)
            if sequence in drafting
            else RowOutlook()
            for sequence in sequences
        ]
        is_expected = any(outlook.at_most for outlook in outlooks)
        if len(outlooks) == 1 or not all(own.is_adaptive for own in drafting.values()):
            return is_expected
        return is_expected and any(batch_lengths(outlooks, self._costs.base, pads=self._pads))

    def make(self) -> bool:
        """Set the drafts for the next pass, as long as pays for all sequences together.

        Returns:
            Whether there are any.
        """
        self.model_seconds = 0.0
        drafting = self._drafting()
        drafts: dict[GeneratedSequence, Draft] = {}
        for sequence, own in drafting.items():
            if not own.may_pay(sequence.constraint, self._padded_rows):
                continue
            with sequence.timings.during("draft"):
                drafts[sequence] = sequence.begin_draft()
                own.fill(drafts[sequence], len(sequence.pending))
        if not drafts:
            return False
        if self._draft_model is not None:
            self._extend(self._draft_model, drafts, drafting)
        drafts = {sequence: draft for sequence, draft in drafts.items() if not draft.is_empty}
        if len(self._rows.sequences) > 1 and all(drafting[one].is_adaptive for one in drafts):
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
        for sequence, draft in drafts.items():
            sequence.draft = None if draft.is_empty else draft
        return any(sequence.draft is not None for sequence in drafts)

    def record(self) -> None:
        """Record the results of verifications, whose accepted tokens are committed."""
        for sequence in self._rows.sequences:
            draft, drafting = sequence.draft, sequence.drafting
            if draft is None or drafting is None:
                continue
            if draft.accepted and not (sequence.pending or sequence.finished):
                # The next token was not sampled, because a choice is to be scored first.
                sequence.logits = draft.logits[draft.accepted - 1]
            drafting.record(draft)
            sequence.draft = None

    @property
    def _padded_rows(self) -> int:
        """Rows of a pass that a draft widens: each costs a token of padding."""
        return 1 if self._pads else len(self._rows.sequences)

    def _check_pass(self, drafts: Mapping[GeneratedSequence, Draft]) -> None:
        """Empty the drafts if the model would compute other logits in a pass over them."""
        fed = [
            [*sequence.pending, *draft.tokens] for sequence, draft in drafts.items() if draft.steps
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
        wanted: dict[GeneratedSequence, Draft] = {}
        for sequence, draft in drafts.items():
            if draft.is_closed or not draft.is_empty:
                # Nothing behind copied text, which is right more often and costs nothing.
                continue
            length = drafting[sequence].model_length(sequence.constraint, len(sequence.pending))
            if length:
                draft.at_most = length
                wanted[sequence] = draft
        if not wanted:
            return
        started = time.perf_counter()
        try:
            model.extend(wanted, self._rows)
        except Exception as error:
            # Drafts do not change answers. Later requests draft again.
            _log.warning("the draft model drafts no more for %d requests: %r", len(wanted), error)
            for sequence in wanted:
                drafting[sequence].drop_model()
        ended = time.perf_counter()
        self.model_seconds = ended - started
        for sequence in wanted:
            sequence.timings.add("draft", started, ended)

    def _drafting(self) -> dict[GeneratedSequence, Drafting]:
        """Return the sequences that may draft now."""
        rows = self._rows
        found = {
            sequence: sequence.drafting
            for sequence in rows.sequences
            if sequence.drafting is not None and not sequence.finished
        }
        if not found or self._probe.is_wide_pass_known_wrong(rows.cache):
            return {}
        if rows.is_merged or len(rows.sequences) > 1:
            rows.merge()
            if not (can_retract(rows.cache) and self._probe.can_pad()):
                return {}
        return found
