"""The drafts of a batch: which sequences draft, and how long the drafts are together."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from .batch_rows import BatchRows
from .cache_layers import can_pad
from .draft_model import DraftModel
from .drafting import Drafting
from .drafts import Draft
from .model_checks import ModelChecks
from .pass_cost import device_pass_cost
from .sequence import Sequence
from .speculation.draft_length import RowOutlook, batch_lengths
from .verification import Verification

_log = logging.getLogger(__name__)


class BatchDrafts:
    """Makes the drafts of the passes of a batch.

    Args:
        rows: The sequences with their cache.
        probe: Determines whether the model computes wide passes and padded rows correctly.
        draft_model: Extends the drafts of sequences that allow it.
        pads: Whether padding is nearly free.

    Attributes:
        in_flight: The drafts whose pass is dispatched and not verified.
    """

    def __init__(
        self,
        rows: BatchRows[Sequence],
        probe: ModelChecks,
        draft_model: DraftModel | None,
        *,
        pads: bool,
    ) -> None:
        self.in_flight: dict[Sequence, Draft] = {}
        self._rows = rows
        self._probe = probe
        self._draft_model = draft_model
        self._pads = pads
        self._cost = device_pass_cost()

    def are_expected(self) -> bool:
        """Whether the next pass is likely to have drafts."""
        drafting = self._drafting()
        if not drafting:
            return False
        expected = {
            sequence: drafters.expected_draft(sequence) for sequence, drafters in drafting.items()
        }
        outlooks = [expected.get(sequence) or RowOutlook(0, 0) for sequence in self._rows.sequences]
        if len(outlooks) == 1 or not all(drafters.is_adaptive for drafters in drafting.values()):
            return any(outlook.at_most for outlook in outlooks)
        return any(batch_lengths(outlooks, self._cost, pads=self._pads))

    def make(self) -> dict[Sequence, Draft]:
        """Return drafts for the next pass, as long as pays for all sequences together."""
        drafting = self._drafting()
        drafts: dict[Sequence, Draft] = {}
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
                else RowOutlook(0, 0, len(sequence.pending))
                for sequence in self._rows.sequences
            ]
            lengths = batch_lengths(outlooks, self._cost, pads=self._pads)
            for sequence, length in zip(self._rows.sequences, lengths, strict=True):
                if sequence in drafts:
                    drafts[sequence].cut(length)
        self._check_pass(drafts)
        return {sequence: draft for sequence, draft in drafts.items() if not draft.is_empty}

    def record(self, sampled: Iterable[Verification]) -> None:
        """Record the results of verifications."""
        for verification in sampled:
            verification.settle()
            draft, drafting = verification.draft, verification.sequence.drafting
            if draft is not None and isinstance(drafting, Drafting):
                drafting.record(draft, verification.accepted, verification.judged)
        self.in_flight = {}

    def _check_pass(self, drafts: Mapping[Sequence, Draft]) -> None:
        """Empty the drafts if the model would compute other logits in a pass over them."""
        fed = [
            [*sequence.pending, *draft.tokens] for sequence, draft in drafts.items() if draft.tokens
        ]
        if fed and not self._probe.check_wide_pass(self._rows.cache, max(fed, key=len)):
            for draft in drafts.values():
                draft.cut(0)

    def _extend(
        self,
        model: DraftModel,
        drafts: Mapping[Sequence, Draft],
        drafting: Mapping[Sequence, Drafting],
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
            model.extend(wanted)
        except Exception as error:
            # Drafts do not change answers. Later requests draft again.
            _log.warning("the draft model drafts no more for %d requests: %r", len(wanted), error)
            for draft in wanted:
                drafting[draft.sequence].drop_model()
        ended = time.perf_counter()
        for draft in wanted:
            draft.sequence.timings.add("draft", started, ended)

    def _drafting(self) -> dict[Sequence, Drafting]:
        """Return the drafters of the sequences that may draft now."""
        rows = self._rows
        found = {
            sequence: sequence.drafting
            for sequence in rows.sequences
            if isinstance(sequence.drafting, Drafting)
            and not (sequence.finished or rows.is_shared(sequence))
        }
        if not found or self._probe.is_wide_pass_known_wrong(rows.cache):
            return {}
        if rows.is_merged or len(rows.sequences) > 1:
            # How fast the sequences of a group advance does not depend on others.
            if any(sequence.weights is not None for sequence in rows.sequences):
                return {}
            rows.merge()
            if not (can_pad(rows.cache) and self._probe.can_pad()):
                return {}
        return found
