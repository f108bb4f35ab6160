"""The generation loop: each step yields a token per sequence, sampled under the sequence's mask.

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

from ..runtime.backends import requires_backend

with requires_backend():
    import mlx.core as mx

from mlx.nn.layers.base import Module

from .batch_rows import BatchRows
from .cache_layers import can_merge, can_retract, can_trim, padded_tokens
from .exact_choices import ExactChoices
from .forward_pass import ForwardPass, NextLogits, PassOutput, position_arguments
from .model_checks import ModelChecks
from .sampling import NextToken
from .sequence import GeneratedSequence
from .speculation.draft_length import StepCosts
from .speculation.drafting import BatchDrafts
from .speculation.drafts import Draft
from .speculation.model_drafter import ModelDrafter
from .step import Step, sample_together
from .timings import Work
from .wired_memory import clear_cache

_STEPS_BETWEEN_CACHE_CLEARINGS = 256

_UNREAD = -1
"""Stands in for a token on trial that is not read yet."""


class Batch:
    """Sequences that share the forward passes of one model. To be used by one thread.

    Call :meth:`generate_step`, remove finished sequences, then call :meth:`feed`, and repeat.

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
        self._choices = ExactChoices(self._pass.model, self._rows)
        self._passes = 0
        self._pass_tokens = 0
        self._feed_seconds = 0.0
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
        self._drafts.change()
        self._rows.add(sequence, cache)

    def add_all(self, sequences: Sequence[GeneratedSequence], cache: list[Any]) -> None:
        """Add sequences after a joint prefill, with their batch cache."""
        self._has_joined = True
        self._drafts.change()
        self._rows.add_all(sequences, cache)

    def remove(self, sequence: GeneratedSequence, *, wants_cache: bool = True) -> list[Any] | None:
        """Remove a sequence.

        Returns:
            The sequence's cache if it is wanted. It holds ``sequence.processed`` tokens.
        """
        self._drafts.drop(sequence)
        self._drafts.change()
        if self._draft_model is not None:
            self._draft_model.remove(sequence, keeps_cache=wants_cache)
        return self._rows.remove(sequence, wants_cache=wants_cache)

    def unmerge(self) -> None:
        """Convert the batch cache of a single remaining sequence to a plain one, which is faster.

        To be called if no other sequence is about to be added.
        """
        self._rows.unmerge()

    def generate_step(self) -> list[Step]:
        """Sample a token for every sequence that has logits, and append what the token forces.

        Remove the finished sequences afterwards, then call :meth:`feed`. An error that is raised
        here concerns all sequences.
        """
        started, pass_tokens = time.perf_counter(), self._pass_tokens
        drafts = self._drafts.in_flight()
        steps = [Step(sequence, drafts.get(sequence)) for sequence in self._rows.sequences]
        sampled = self._sample(steps)
        runs_ahead = len(sampled) == len(steps) and not drafts and self._may_run_ahead()
        drawn: list[NextToken] = []
        for step in sampled:
            drawn += step.sampled
        shared: list[Work] = []
        # Apart from the forward pass: arrays of one async_eval are ready when all of them are, and
        # the tokens are read while the pass runs.
        mx.async_eval(NextToken.arrays(drawn))
        if runs_ahead:
            for step in sampled:
                step.sequence.propose((_UNREAD,))
            dispatched = time.perf_counter()
            inputs = self._forward(NextToken.joined(drawn)[:, None], [1] * len(sampled), {})
            mx.async_eval(self._draw_ahead(drawn) or inputs)
            shared.append(("dispatch", dispatched, time.perf_counter()))
        shared.append(self._read(sampled, drawn))
        accepted = Step.perform(sampled, Step.advance)
        if runs_ahead:
            self._settle_ahead(sampled, accepted)
        self._rows.settle()
        if drafts:
            self._drafts.record(sampled)
        for step in steps:
            timings = step.sequence.timings
            timings.add_all(step.work + shared)
            timings.step += runs_ahead
        if len(sampled) == len(steps):
            self._measure(pass_tokens, time.perf_counter() - started, is_drafted=bool(drafts))
            return steps
        return [step for step in steps if step.tokens or step.is_slow or step.error is not None]

    def _may_run_ahead(self) -> bool:
        """Whether to dispatch the next pass, without drafts, before the sampled tokens are read."""
        rows, may_refuse, is_at_limit = self._rows, False, True
        for sequence in rows.sequences:
            constraint = sequence.constraint
            if constraint.has_grammar:
                if constraint.expects_fast_forward:
                    return False
                may_refuse = True
            is_at_limit = is_at_limit and sequence.is_at_limit
        if is_at_limit or self._drafts.are_expected():
            return False
        return not may_refuse or rows.is_plain or can_trim(rows.cache, 1)

    def _draw_ahead(self, drawn: Sequence[NextToken]) -> list[mx.array]:
        """Draw the tokens behind a pass before the tokens of the pass are read.

        Only where the logits and the sampler alone decide about them. If a text ends with a token
        of the pass, the draw behind it is in vain.

        Args:
            drawn: The tokens of the pass.

        Returns:
            The drawn tokens, not evaluated; none if they cannot be drawn.
        """
        sequences = self._rows.sequences
        parameters = drawn[0].row_parameters
        if parameters is None or not all(sequence.is_free for sequence in sequences):
            return []
        if any(token.row_parameters != parameters for token in drawn):
            return []
        following = [sequence.next_token(unread=1) for sequence in sequences]
        if any(token.row_parameters != parameters for token in following):
            return []
        logits = NextLogits.stacked([sequence.next_logits for sequence in sequences])
        NextToken.sample_together(following, logits)
        for sequence, token in zip(sequences, following, strict=True):
            sequence.drawn = token
        return [following[0].drawn]

    def _settle_ahead(self, sampled: list[Step], accepted: list[Step]) -> None:
        """Keep the tokens of a pass that was dispatched before they were read."""
        for step in sampled:
            if step.is_redrawn:
                self._rows.withdraw()
                return
        for step in accepted:
            step.sequence.tail = [step.sampled[0].token_id]

    def _measure(self, tokens: int, seconds: float, *, is_drafted: bool) -> None:
        """Record the time of a step. The draft model's part in it is not the pass's."""
        if not self._has_joined:
            seconds += self._feed_seconds - self._drafts.model_seconds
            self._costs.record(tokens, seconds, is_drafted=is_drafted)
        self._has_joined, self._feed_seconds = False, 0.0

    def feed(self) -> None:
        """Dispatch a pass over the pending tokens, unless a sequence has logits to sample from.

        To be called after every step.
        """
        sequences = self._rows.sequences
        if not sequences:
            return
        for sequence in sequences:
            if sequence.processed == len(sequence.tokens):
                return
        started = time.perf_counter()
        pending = {sequence: sequence.pending for sequence in sequences}
        drafts = self._drafts.make()
        counts = self._token_counts(
            pending, {sequence: draft.tokens for sequence, draft in drafts.items()}
        )
        tokens: list[list[int]] = []
        for sequence, count in zip(sequences, counts, strict=True):
            sequence.processed += count
            if sequence in drafts:
                sequence.propose(drafts[sequence].tokens)
            tokens.append(pending[sequence][:count] + sequence.tail)
        lengths = [len(of_row) for of_row in tokens]
        if drafts or min(lengths) < max(lengths) or (self._rows.is_merged and max(lengths) > 1):
            self._rows.begin_trial(lengths)
        dispatched = time.perf_counter()
        mx.async_eval(self._forward(padded_tokens(tokens), lengths, drafts))
        work: Work = ("dispatch", dispatched, time.perf_counter())
        for sequence in sequences:
            sequence.timings.add_all((work,))
            sequence.timings.step += 1
        if not drafts:
            self._rows.settle()
        self._feed_seconds = time.perf_counter() - started

    def _sample(self, steps: list[Step]) -> list[Step]:
        """Sample tokens for the sequences with logits, and return their steps."""
        if any(step.sequence.choices is not None for step in steps):
            Step.perform(steps, self._draw_choice)
        begun = [step for step in Step.perform(steps, Step.begin) if step.sampled]
        left = [step for step in begun if not step.sampled[0].is_drawn]
        alone = sample_together(left) if len(left) > 1 else left
        if len(Step.perform(alone, Step.sample)) == len(alone):
            return begun
        return [step for step in begun if step.error is None and not step.is_slow]

    def _draw_choice(self, step: Step) -> None:
        if step.sequence.is_at_choice:
            step.tokens += self._choices.draw(step.sequence)

    def _read(self, sampled: Sequence[Step], drawn: Sequence[NextToken]) -> Work:
        """Wait for the sampled tokens, and return the time."""
        started = time.perf_counter()
        NextToken.read(drawn)
        ended = time.perf_counter()
        for step in sampled:
            if step.sequence.timings.first_token is None:
                step.sequence.timings.first_token = ended
        return "wait", started, ended

    def _token_counts(
        self,
        pending: Mapping[GeneratedSequence, Sequence[int]],
        drafts: Mapping[GeneratedSequence, Sequence[int]],
    ) -> list[int]:
        """Return how many of its pending tokens each sequence takes in the next pass.

        A sequence with a draft takes all of them.
        """
        lengths = [len(tokens) for tokens in pending.values()]
        rows = self._rows
        if drafts:
            width = max(len(pending[sequence]) + len(tokens) for sequence, tokens in drafts.items())
            return [min(length, width) for length in lengths]
        if len(lengths) == 1 and (not rows.is_merged or rows.is_plain):
            return lengths
        if not (self._pads and can_retract(rows.cache) and self._probe.can_pad()):
            # Without padding, every row takes one token; the rest is left for later passes.
            return [1] * len(lengths)
        return lengths

    def _forward(
        self,
        tokens: mx.array,
        lengths: Sequence[int],
        drafts: Mapping[GeneratedSequence, Draft],
    ) -> list[mx.array]:
        """Build a pass, and set each sequence's logits after its last token.

        Args:
            tokens: Shape (rows, longest length).
            lengths: Tokens of each row without padding.
            drafts: The drafts whose tokens are in the pass.

        Returns:
            What the pass computes before logits are used, not evaluated.
        """
        sequences = self._rows.sequences
        deltas = [sequence.rope_delta for sequence in sequences]
        output = self._run(tokens, position_arguments(deltas) if any(deltas) else {})
        of_rows = output.last(lengths)
        model = self._draft_model
        for sequence in sequences:
            row = sequence.row
            sequence.logits = of_rows[row]
            draft = drafts.get(sequence)
            if draft is not None:
                first = lengths[row] - len(draft.tokens)
                sequence.logits = output.at(row, first - 1)
                draft.logits = [output.at(row, first + at) for at in draft.positions]
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
