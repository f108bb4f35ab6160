"""The drafts of a batch: how long they are together, and how the cache drops refused tokens."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence

from .batch_rows import BatchRows
from .cache_layers import can_pad, trim_rows
from .draft_model import DraftModel
from .drafting import drafting_of
from .drafts import Draft
from .model_checks import ModelChecks
from .pass_cost import device_pass_cost
from .rollback import Rollback
from .sequence_state import SequenceState
from .speculation.draft_length import RowOutlook, batch_lengths
from .verification import Verification

_log = logging.getLogger(__name__)


class BatchDrafts:
    """Makes the drafts of the next pass, and ends them after verification.

    Args:
        rows: The sequences with their cache.
        probe: Determines whether the model computes wide passes and padded rows correctly.
        draft_model: Extends the drafts of sequences that allow it.
        pads: Whether padding is nearly free.

    Attributes:
        in_flight: The drafts whose pass is dispatched and not verified.
    """

    def __init__(
        self, rows: BatchRows, probe: ModelChecks, draft_model: DraftModel | None, *, pads: bool
    ) -> None:
        self._rows = rows
        self._probe = probe
        self._draft_model = draft_model
        self._pads = pads
        self.in_flight: dict[SequenceState, Draft] = {}
        self._cost = device_pass_cost()
        self._padding: list[int] = []
        self._rollback: Rollback | None = None

    def are_expected(self) -> bool:
        """Whether the next pass is likely to have drafts."""
        drafting = {one: drafting_of(one) for one in self._rows.sequences if self._may_draft(one)}
        outlooks = [
            (drafting[one].expected_draft(one) if one in drafting else None) or RowOutlook(0, 0)
            for one in self._rows.sequences
        ]
        is_adaptive = all(one.is_adaptive for one in drafting.values())
        if len(outlooks) == 1 or not is_adaptive:
            return any(one.at_most for one in outlooks)
        return any(batch_lengths(outlooks, self._cost, pads=self._pads))

    def make(self) -> dict[SequenceState, Draft]:
        """Return drafts for the next pass, as long as pays for all sequences together."""
        sequences = [one for one in self._rows.sequences if self._may_draft(one)]
        drafts: dict[SequenceState, Draft] = {}
        for sequence in sequences:
            with sequence.timings.during("draft"):
                drafts[sequence] = drafting_of(sequence).draft(sequence)
        self._extend(drafts)
        drafts = {one: draft for one, draft in drafts.items() if not draft.is_empty}
        if not drafts:
            return {}
        outlooks = [
            drafting_of(one).outlook(drafts[one], len(one.pending))
            if one in drafts
            else RowOutlook(0, 0, len(one.pending))
            for one in self._rows.sequences
        ]
        if len(outlooks) > 1 and all(drafting_of(one).is_adaptive for one in drafts):
            lengths = batch_lengths(outlooks, self._cost, pads=self._pads)
            for sequence, length in zip(self._rows.sequences, lengths, strict=True):
                if sequence in drafts:
                    drafts[sequence].cut(length)
        self._check_pass(drafts)
        return {one: draft for one, draft in drafts.items() if not draft.is_empty}

    def begin(self, drafts: Mapping[SequenceState, Draft], lengths: Sequence[int]) -> None:
        """Prepare for a pass over drafts; to be called before it.

        Args:
            drafts: The drafts.
            lengths: Tokens of each row, those of its draft included.
        """
        self.in_flight = dict(drafts)
        longest = max(lengths)
        # The padding is dropped together with refused tokens.
        self._padding = [longest - length for length in lengths]
        if not self._rows.is_merged:
            self._rollback = Rollback.before(self._rows.cache, longest)

    def uncommitted(self, sequence: SequenceState) -> int:
        """Return how many columns at the end of a sequence's row are not its tokens.

        Until :meth:`end`, these are its draft in flight, and padding for the drafts of other rows.
        """
        draft = self.in_flight.get(sequence)
        padding = self._padding[self._rows.row(sequence)] if self._padding else 0
        return padding + (0 if draft is None else len(draft.tokens))

    def end(self, sampled: Collection[Verification] = ()) -> None:
        """Drop refused tokens, and the padding of the pass, from the cache.

        Args:
            sampled: Verified sequences. The drafts of others are withdrawn.
        """
        counts, self._padding = self._padding, []
        withdrawn, self.in_flight = self.in_flight, {}
        for one in sampled:
            draft = withdrawn.pop(one.sequence, None)
            if draft is not None:
                counts[self._rows.row(one.sequence)] += one.settle()
                drafting_of(one.sequence).record(draft, one.accepted, one.judged)
        for sequence, draft in withdrawn.items():
            counts[self._rows.row(sequence)] += len(draft.tokens)
        rollback, self._rollback = self._rollback, None
        if rollback is not None:
            (sequence,) = self._rows.sequences
            kept = rollback.token_count - counts[0]
            replayed = kept - rollback.keep(kept)
            processed = sequence.processed
            sequence.pending[:0] = sequence.tokens[processed - replayed : processed]
        elif any(counts):
            trim_rows(self._rows.cache, counts)
            self._rows.drop_padding()

    def _check_pass(self, drafts: Mapping[SequenceState, Draft]) -> None:
        """Empty the drafts if the model would compute other logits in a pass over them."""
        given = [[*one.pending, *draft.tokens] for one, draft in drafts.items() if draft.tokens]
        if given and not self._probe.check_wide_pass(self._rows.cache, max(given, key=len)):
            for draft in drafts.values():
                draft.cut(0)

    def _extend(self, drafts: Mapping[SequenceState, Draft]) -> None:
        """Let the draft model extend drafts."""
        lengths = {draft: drafting_of(one).model_length(draft) for one, draft in drafts.items()}
        wanted = {draft: length for draft, length in lengths.items() if length}
        if self._draft_model is None or not wanted:
            return
        started = time.perf_counter()
        try:
            self._draft_model.extend(wanted)
        except Exception as error:
            # Drafts do not change answers. Later requests draft again.
            _log.warning("the draft model drafts no more for %d requests: %r", len(wanted), error)
            for draft in wanted:
                drafting_of(draft.sequence).drop_model()
        ended = time.perf_counter()
        for draft in wanted:
            draft.sequence.timings.add("draft", started, ended)

    def _may_draft(self, sequence: SequenceState) -> bool:
        rows = self._rows
        if sequence.drafting is None or sequence.finished or rows.is_shared(sequence):
            return False
        if self._probe.is_wide_pass_known_wrong(rows.cache):
            return False
        if not rows.is_merged and len(rows) == 1:
            return True
        # How fast the sequences of a group advance does not depend on others.
        has_groups = any(one.weights is not None for one in rows.sequences)
        return not has_groups and self._can_pad_rows

    @property
    def _can_pad_rows(self) -> bool:
        self._rows.merge()
        return can_pad(self._rows.cache) and self._probe.can_pad()
