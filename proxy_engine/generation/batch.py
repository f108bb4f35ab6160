"""The generation loop: each step yields a token per sequence, sampled under the sequence's mask.

A step is four calls: :meth:`Batch.sample`, :meth:`Batch.run_ahead`, :meth:`Batch.commit` and
:meth:`Batch.run_pass`. One of the two passes is run: ahead of the tokens, or behind them.

Forward pass and mask overlap. The forward pass for the next token is dispatched as soon as the last
token is sampled on the device, before the CPU knows which token it is. While the device runs the
pass, the CPU reads the token, advances the matcher and computes the next mask; then masking and
sampling are dispatched behind the pass. A logits processor in mlx-lm's own ``generate_step`` cannot
do this: it is called between two passes, while the device is idle.

Forced text is not sampled: its tokens are processed in one pass. Where forced text is likely to
follow in any sequence, the pass waits until the last tokens are read, so that the forced tokens
join it; masks are computed while it runs. Rows of caches that cannot drop padding process forced
tokens one per pass.

A single sequence is a batch of one, in mlx-lm's caches for a single sequence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..runtime.extras import requires_backend

with requires_backend():
    import mlx.core as mx

from mlx.nn.layers.base import Module

from ..runtime.device_memory import clear_cache
from .batch_rows import BatchRows
from .cache_layers import can_merge, can_retract, can_trim, padded_tokens
from .exact_choices import draw_choice
from .forward_pass import ForwardPass, PassOutput, position_arguments
from .model_checks import ModelChecks
from .sampling import NextToken
from .sequence import GeneratedSequence, Status
from .speculation.batch_drafts import BatchDrafts
from .speculation.draft_length import StepCosts, pass_width
from .speculation.draft_model import ModelDrafter
from .step import (
    commit,
    perform,
    prepare,
    sample,
    sample_draft,
    sample_rows,
    sample_together,
)

_STEPS_BETWEEN_CACHE_CLEARINGS = 256

_UNREAD = -1
"""Stands in for a token on trial that is not read yet."""


class Batch:
    """Sequences that share the forward passes of one model. To be used by one thread.

    Call :meth:`sample`, :meth:`run_ahead` and :meth:`commit`, remove the sequences that are not
    ``RUNNING`` any more, call :meth:`run_pass`, and repeat. An error that is raised by one of these
    methods concerns all sequences.

    Args:
        model: The model. Batches of one model can share a ``ForwardPass``.
        quantize: Called with the cache after every pass. Quantized caches cannot be merged, so such
            a batch holds one sequence.
        pads: Whether sequences may take different numbers of tokens in one pass, padded to the
            longest. ``None``: on a GPU, where a wider pass costs little more; a CPU pays for
            padding as for tokens.
        probe: Determines which batches the model computes correctly; batches of one model can
            share it. A model that computes none correctly runs one sequence at a time.
        draft_model: Drafts tokens for sequences whose other drafters propose none.
        costs: The measured cost of passes; batches of one model can share it.
    """

    def __init__(
        self,
        model: Module | ForwardPass,
        *,
        quantize: Callable[[list[Any]], None] | None = None,
        pads: bool | None = None,
        probe: ModelChecks | None = None,
        draft_model: ModelDrafter | None = None,
        costs: StepCosts | None = None,
    ) -> None:
        self._pass = ForwardPass.of(model)
        self._probe = probe or ModelChecks(self._pass.model)
        if pads is None:
            pads = mx.default_device().type == mx.DeviceType.gpu
        self._pads = pads
        self._quantize = quantize
        self._draft_model = draft_model
        self._rows: BatchRows[GeneratedSequence] = BatchRows()
        self._costs = costs or StepCosts()
        self._drafts = BatchDrafts(self._rows, self._probe, draft_model, self._costs, pads=pads)
        # The step: sampled sequences and tokens, and whether its pass has drafts or runs ahead.
        self._sampled: list[GeneratedSequence] = []
        self._drawn: list[NextToken] = []
        self._is_drafted = False
        self._is_ahead = False
        self._passes = 0
        # Tokens of the last pass, and of that behind which the step has sampled.
        self._pass_tokens = 0
        self._sampled_tokens = 0
        # The time of the step, from one pass to the next.
        self._seconds = 0.0
        # Sequences have joined since the last step, which waits for their prompts.
        self._has_joined = True

    @property
    def sequences(self) -> Sequence[GeneratedSequence]:
        """The sequences."""
        return self._rows.sequences

    def can_add(self, cache: Sequence[Any]) -> bool:
        """Whether a sequence with this cache can be added."""
        rows = self._rows
        if not rows.sequences:
            return True
        can_grow = rows.is_merged or can_merge(rows.cache)
        can_share = self._quantize is None and can_merge(cache)
        return can_grow and can_share and self._probe.can_decode()

    @property
    def can_prefill_together(self) -> bool:
        """Whether several prompts can share a prefill pass."""
        return self._quantize is None and self._probe.can_pad()

    def add(self, sequence: GeneratedSequence, cache: list[Any]) -> None:
        """Add a sequence that has ``logits``, with its cache, which the batch takes over."""
        self._has_joined = True
        sequence.status = Status.RUNNING
        self._rows.add(sequence, cache)
        self._drafts.change()

    def add_all(self, sequences: Sequence[GeneratedSequence], cache: list[Any]) -> None:
        """Add sequences after a joint prefill, with their batch cache."""
        self._has_joined = True
        for sequence in sequences:
            sequence.status = Status.RUNNING
        self._rows.add_all(sequences, cache)
        self._drafts.change()

    def remove(self, sequence: GeneratedSequence, *, wants_cache: bool = True) -> list[Any] | None:
        """Remove a sequence.

        Returns:
            The sequence's cache if it is wanted. It holds ``sequence.processed`` tokens.
        """
        sequence.draft = None
        if self._draft_model is not None:
            self._draft_model.remove(sequence, keeps_cache=wants_cache)
        cache = self._rows.remove(sequence, wants_cache=wants_cache)
        self._drafts.change()
        return cache

    def unmerge(self) -> None:
        """Convert the batch cache of a single remaining sequence to a plain one, which is faster.

        To be called if no other sequence is about to be added.
        """
        self._rows.unmerge()

    def sample(self) -> None:
        """Sample a token for every sequence that has logits, without waiting for it."""
        started = time.perf_counter()
        self._is_drafted = False
        ready: list[GeneratedSequence] = []
        left: list[GeneratedSequence] = []
        for sequence in self._rows.sequences:
            self._is_drafted |= sequence.draft is not None
            if sequence.choices is not None:
                perform((sequence,), self._draw_choice)
            if sequence.is_ready:
                ready.append(sequence)
        for sequence in perform(ready, prepare):
            if sequence.draft is not None:
                perform((sequence,), sample_draft)
            elif not sequence.sampled:
                left.append(sequence)
        perform(sample_rows(left) if len(left) > 1 else left, sample)
        for sequence in ready:
            if sequence.status is Status.RUNNING:
                self._sampled.append(sequence)
                self._drawn += sequence.sampled
        self._sampled_tokens = self._pass_tokens
        # Apart from the forward pass: arrays of one async_eval are ready when all of them are, and
        # the tokens are read while the pass runs.
        mx.async_eval(NextToken.arrays(self._drawn))
        self._seconds += time.perf_counter() - started

    def run_ahead(self) -> None:
        """Dispatch the next pass before the sampled tokens are read, if it needs no other tokens.

        The tokens are on trial in it. Where all sequences are free, those behind it are drawn, too.
        """
        sampled = self._sampled
        is_whole = len(sampled) == len(self._rows.sequences) and not self._is_drafted
        self._is_ahead = bool(sampled) and is_whole and self._may_run_ahead()
        if not self._is_ahead:
            return
        started = time.perf_counter()
        for sequence in sampled:
            sequence.propose((_UNREAD,))
        inputs = self._forward(NextToken.joined(self._drawn)[:, None], [1] * len(sampled))
        mx.async_eval(self._draw_ahead() or inputs)
        ended = time.perf_counter()
        for sequence in sampled:
            sequence.timings.add("dispatch", started, ended)
        self._seconds += ended - started

    def commit(self) -> None:
        """Read the sampled tokens, and append them to their sequences with what they force."""
        started = time.perf_counter()
        sampled = self._sampled
        NextToken.read(self._drawn)
        read = time.perf_counter()
        for sequence in sampled:
            timings = sequence.timings
            if timings.first_token is None:
                timings.first_token = read
            timings.add("wait", started, read)
        going = perform(sampled, commit)
        if self._is_ahead:
            self._settle_ahead(going)
        self._rows.settle()
        if self._is_drafted:
            self._drafts.record()
        self._seconds += time.perf_counter() - started
        self._measure()
        self._sampled, self._drawn = [], []

    def _may_run_ahead(self) -> bool:
        """Whether to dispatch the next pass, without drafts, before the sampled tokens are read."""
        sequences, rows = self._rows.sequences, self._rows
        may_refuse, is_at_limit = False, True
        for sequence in sequences:
            if not sequence.is_free:
                mask = sequence.mask
                if (
                    mask is not None
                    and mask.ids is not None
                    and sequence.constraint.expects_fast_forward
                ):
                    return False
                may_refuse = True
            is_at_limit = is_at_limit and sequence.is_at_limit
        if is_at_limit or (self._drafts.are_possible and self._drafts.are_expected()):
            return False
        return not may_refuse or rows.is_plain or can_trim(rows.cache, 1)

    def _draw_ahead(self) -> list[mx.array]:
        """Draw the tokens behind a pass before the tokens of the pass are read.

        Only where the logits and the sampler alone decide about them. If a text ends with a token
        of the pass, the draw behind it is in vain.

        Returns:
            The drawn tokens, not evaluated; none if they cannot be drawn.
        """
        sequences = self._rows.sequences
        if not (sequences[0].is_free and all(sequence.is_free for sequence in sequences)):
            return []
        parameters = {sequence.row_parameters for sequence in sequences}
        if len(parameters) > 1 or None in parameters:
            return []
        for sequence in sequences:
            sequence.prepare(unread=1)
        if {sequence.row_parameters for sequence in sequences} != parameters:
            return []
        following = sample_together(sequences)
        for sequence, token in zip(sequences, following, strict=True):
            sequence.drawn_ahead = token
        return [following[0].drawn]

    def _settle_ahead(self, going: Sequence[GeneratedSequence]) -> None:
        """Keep the tokens of a pass that was dispatched before they were read.

        Args:
            going: The sequences that have not failed.
        """
        is_refused = False
        for sequence, token in zip(self._sampled, self._drawn, strict=True):
            sequence.timings.step += 1
            is_refused |= sequence.sampled[0] is not token
        if is_refused:
            # Another token is sampled in place of one of the pass.
            self._rows.withdraw()
            return
        for sequence in going:
            sequence.tail = [sequence.sampled[0].token_id]

    def _measure(self) -> None:
        """Record the time of a step in which every sequence has sampled a token, for later drafts.

        The draft model's part in it is not the pass's.
        """
        if not self._drafts.are_possible or len(self._sampled) < len(self._rows.sequences):
            return
        if not self._has_joined:
            seconds = self._seconds - self._drafts.model_seconds
            self._costs.record(self._sampled_tokens, seconds, is_drafted=self._is_drafted)
        self._has_joined, self._seconds = False, 0.0

    def run_pass(self) -> None:
        """Dispatch a pass over the pending tokens, unless a sequence has logits to sample from."""
        sequences = self._rows.sequences
        if not sequences:
            return
        for sequence in sequences:
            if sequence.processed == len(sequence.tokens):
                return
        started = time.perf_counter()
        has_drafts = self._drafts.are_possible and self._drafts.make()
        pending = [sequence.pending for sequence in sequences]
        tokens: list[list[int]] = []
        for sequence, of_row, count in zip(
            sequences, pending, self._token_counts(pending), strict=True
        ):
            sequence.processed += count
            if sequence.draft is not None:
                sequence.propose(sequence.draft.tokens)
            tokens.append(of_row[:count] + sequence.tail)
        lengths = [len(of_row) for of_row in tokens]
        if has_drafts or min(lengths) < max(lengths) or (self._rows.is_merged and max(lengths) > 1):
            self._rows.begin_trial(lengths)
        dispatched = time.perf_counter()
        mx.async_eval(self._forward(padded_tokens(tokens), lengths))
        ended = time.perf_counter()
        for sequence in sequences:
            sequence.timings.add("dispatch", dispatched, ended)
            sequence.timings.step += 1
        if not has_drafts:
            self._rows.settle()
        self._seconds = time.perf_counter() - started

    def _draw_choice(self, sequence: GeneratedSequence) -> None:
        if sequence.is_at_choice:
            sequence.output += draw_choice(sequence, self._rows, self._pass.model)

    def _token_counts(self, pending: Sequence[Sequence[int]]) -> list[int]:
        """Return how many of its pending tokens each sequence takes in the next pass.

        A sequence with a draft takes all of them.
        """
        rows, lengths = self._rows, [len(of_row) for of_row in pending]
        widths = [
            length + len(sequence.draft.tokens)
            for sequence, length in zip(rows.sequences, lengths, strict=True)
            if sequence.draft is not None
        ]
        if widths:
            return [min(length, max(widths)) for length in lengths]
        if len(lengths) == 1 and (not rows.is_merged or rows.is_plain):
            return lengths
        width = max(lengths)
        if width > 1 and not self._pads:
            width = pass_width(lengths, self._costs.base)
        if width > 1 and not (can_retract(rows.cache) and self._probe.can_pad()):
            width = 1
        # The rest is left for later passes.
        return [min(length, width) for length in lengths]

    def _forward(self, tokens: mx.array, lengths: Sequence[int]) -> list[mx.array]:
        """Build a pass, and set the logits of sequences of which it processes all tokens.

        Args:
            tokens: Shape (rows, longest length). Those of a draft are the last ones of its row.
            lengths: Tokens of each row without padding.

        Returns:
            What the pass computes before logits are used, not evaluated.
        """
        sequences = self._rows.sequences
        deltas = [sequence.rope_delta for sequence in sequences]
        output = self._run(tokens, position_arguments(deltas) if any(deltas) else {})
        model = self._draft_model
        for sequence in sequences:
            row, draft = sequence.row, sequence.draft
            if draft is None:
                if sequence.processed == len(sequence.tokens):
                    sequence.logits = output.at(row, lengths[row] - 1)
            else:
                before = lengths[row] - len(draft.tokens) - 1
                sequence.logits = output.at(row, before)
                draft.logits = [output.at(row, before + step.end) for step in draft.steps]
            if model is not None and model.reads_states and sequence.drafting is not None:
                end = sequence.processed + len(sequence.tail)
                model.observe(sequence, output.states(row, lengths[row]), end)
        return [output.inputs]

    def _run(self, tokens: mx.array, arguments: Mapping[str, Any]) -> PassOutput:
        """Run a pass. Nothing is evaluated."""
        self._pass_tokens = tokens.size
        output = self._pass(tokens, self._rows.cache, **arguments)
        if self._quantize is not None:
            self._quantize(self._rows.cache)
        for sequence in self._rows.sequences:
            sequence.forward_passes += 1
        self._passes += 1
        if self._passes % _STEPS_BETWEEN_CACHE_CLEARINGS == 0:
            clear_cache()
        return output
