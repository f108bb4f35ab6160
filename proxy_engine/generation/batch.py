"""The generation loop: each step yields a token per sequence, sampled under the sequence's mask.

Forward pass and mask overlap. The forward pass for the next token is dispatched as soon as the last
token is sampled on the device, before the CPU knows which token it is. While the device runs the
pass, the CPU reads the token, advances the matcher and computes the next mask; then masking and
sampling are dispatched behind the pass. A logits processor in mlx-lm's own ``generate_step`` cannot
do this: it is called between two passes, while the device is idle.

Forced text is not sampled: its tokens are processed in one pass. Where forced text is likely to
follow in any sequence, the pass waits until the last tokens are read, so that the forced tokens
join it; masks are computed while it runs. Caches that do not support padding (sliding windows,
recurrent states) process forced tokens one per pass.

A single sequence is a batch of one, in mlx-lm's caches for a single sequence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..runtime.backends import requires_backend

with requires_backend():
    import mlx.core as mx

from mlx.nn.layers.base import Module

from ..runtime.blas import has_fast_blas
from .batch_drafts import BatchDrafts
from .batch_rows import BatchRows
from .cache_layers import (
    can_merge,
    can_pad,
    can_trim,
    right_padded,
    trim,
)
from .draft_model import DraftModel
from .drafts import Draft
from .exact_choices import ExactChoices
from .forward_pass import ForwardPass, position_arguments
from .model_checks import ModelChecks
from .next_mask import SlowMaskError
from .pass_cost import most_efficient_count
from .sequence_state import SequenceState
from .token_weights import KnownWeights
from .tokens import Token
from .verification import Verification
from .wired_memory import clear_cache

_STEPS_BETWEEN_CACHE_CLEARINGS = 256


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one step for one sequence.

    Attributes:
        sequence: The sequence.
        tokens: Its new tokens: the sampled one, and forced ones behind it.
        error: The sequence failed with this error. Other sequences are not affected.
        is_slow: The mask exceeds the step budget of the model thread. The sequence has to
            :meth:`~Batch.remove` until :meth:`SequenceState.compute_mask` has returned.
    """

    sequence: SequenceState
    tokens: list[Token]
    error: Exception | None = None
    is_slow: bool = False


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
    """

    def __init__(
        self,
        model: Module | ForwardPass,
        *,
        quantize: Callable[[list[Any]], None] | None = None,
        pads: bool | None = None,
        probe: ModelChecks | None = None,
        draft_model: DraftModel | None = None,
    ) -> None:
        self._pass = ForwardPass.of(model)
        self._probe = probe or ModelChecks(self._pass.model)
        if pads is None:
            pads = mx.default_device().type == mx.DeviceType.gpu
        self._pads = pads
        self._quantize = quantize
        self._draft_model = draft_model
        self._rows = BatchRows()
        self._drafts = BatchDrafts(self._rows, self._probe, draft_model, pads=pads)
        self._steps = 0
        self._choices = ExactChoices(self._pass.model)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def sequences(self) -> Sequence[SequenceState]:
        """The sequences."""
        return self._rows.sequences

    def can_add(self, cache: Sequence[Any]) -> bool:
        """Whether a sequence with this cache can be added."""
        if not self._rows:
            return True
        can_grow = self._rows.is_merged or can_merge(self._rows.cache)
        can_join = self._quantize is None and can_grow and can_merge(cache)
        return can_join and self._probe.can_decode()

    def can_fork(self, cache: Sequence[Any]) -> bool:
        """Whether several sequences can begin with copies of a cache and share passes."""
        return self._quantize is None and can_merge(cache) and self._probe.can_decode()

    @property
    def can_prefill_together(self) -> bool:
        """Whether several prompts can share a prefill pass."""
        return self._quantize is None and self._probe.can_pad()

    def add(self, sequence: SequenceState, cache: list[Any]) -> None:
        """Add a sequence after its prefill: it has ``logits``. The batch takes over the cache."""
        self._drafts.end()
        self._rows.add([sequence], cache)

    def add_forks(self, sequences: Sequence[SequenceState], cache: list[Any]) -> None:
        """Add sequences that were forked after their prefill, with the cache that all continue."""
        self._drafts.end()
        self._rows.add(sequences, cache)

    def add_all(self, sequences: Sequence[SequenceState], cache: list[Any]) -> None:
        """Add sequences after a joint prefill, with their batch cache."""
        self._drafts.end()
        self._rows.add_all(sequences, cache)

    def replace(
        self, old: Collection[SequenceState], new: Mapping[SequenceState, SequenceState]
    ) -> None:
        """Replace sequences by others that continue copies of their caches.

        Args:
            old: The sequences to remove.
            new: The sequences to add, each with the sequence in the batch that it continues; that
                may be itself.
        """
        self._drafts.end()
        self._rows.replace(old, new)

    def remove(self, sequence: SequenceState, *, wants_cache: bool = True) -> list[Any] | None:
        """Remove a sequence.

        Returns:
            The sequence's cache if it is wanted. It holds ``sequence.processed`` tokens or one
            more.
        """
        self._drafts.end()
        if self._draft_model is not None:
            self._draft_model.remove(sequence, keeps_cache=wants_cache)
        return self._rows.remove(sequence, wants_cache=wants_cache)

    def unmerge(self) -> None:
        """Convert the batch cache of a single remaining sequence to a plain one, which is faster.

        To be called if no other sequence is about to be added.
        """
        if self._rows.is_merged and len(self._rows) == 1:
            self._drafts.end()
            self._rows.unmerge()

    def generate_step(self) -> list[Step]:
        """Sample a token for every sequence that has logits, and append what the token forces.

        Remove the finished sequences afterwards, then call :meth:`feed`. An error that is raised
        here concerns all sequences.
        """
        drawn, others = self._draw_choices()
        sampled, unsampled = self._sample()
        others += unsampled
        runs_ahead = len(sampled) == len(self._rows) and self._may_run_ahead()
        # Apart from the forward pass: arrays of one async_eval are ready when all of them are, and
        # the tokens are read while the pass runs.
        mx.async_eval(*(array for one in sampled for array in one.arrays))
        if runs_ahead:
            tokens = mx.concatenate([one.first.token for one in sampled])
            self._forward(tokens[:, None], [1] * len(sampled))
        self._read(sampled)
        accepted = []
        for one in sampled:
            try:
                if not one.check():
                    # After this token the text could not be completed within the limit: undo the
                    # pass.
                    if runs_ahead:
                        trim(self._rows.cache, 1)
                        runs_ahead = False
                    one.sample_again()
            except Exception as error:
                others.append(_failed(one.sequence, error))
            else:
                accepted.append(one)
        advanced = [self._advance(one, is_processed=runs_ahead) for one in accepted]
        self._drafts.end(sampled)
        return _merged(drawn, others + advanced)

    def _draw_choices(self) -> tuple[dict[SequenceState, list[Token]], list[Step]]:
        """Draw finite choices; return the tokens that they append, and the steps that fail."""
        drawn: dict[SequenceState, list[Token]] = {}
        failed = []
        for sequence in self.sequences:
            rows = self._rows
            behind = self._drafts.uncommitted(sequence)
            is_own = not (rows.is_merged or rows.is_shared(sequence) or behind)
            try:
                tokens = self._choices.draw(
                    sequence, rows.cache, None if is_own else rows.row(sequence), behind
                )
            except Exception as error:
                failed.append(_failed(sequence, error))
                continue
            if tokens:
                drawn[sequence] = tokens
        return drawn, failed

    def feed(self) -> None:
        """Dispatch a pass over the pending tokens, unless a sequence has logits to sample from.

        To be called after every step.
        """
        sequences = self.sequences
        if not sequences or not all(one.pending for one in sequences):
            return
        drafts = self._drafts.make()
        counts = self._token_counts(drafts)
        given = {one: one.pending[:count] for one, count in zip(sequences, counts, strict=True)}
        for sequence, draft in drafts.items():
            given[sequence] = [*sequence.pending, *draft.tokens]
        tokens = self._rows.arrange(given)
        for sequence in sequences:
            del sequence.pending[: len(given[sequence])]
        lengths = [len(own) for own in tokens]
        longest = max(lengths)
        padded = mx.array([[*own, *[0] * (longest - len(own))] for own in tokens])
        if drafts:
            self._drafts.begin(drafts, lengths)
        if drafts or min(lengths) == longest:
            self._forward(padded, lengths)
        else:
            cache = self._rows.cache
            with right_padded(cache, lengths):
                self._forward(padded, lengths)
            self._rows.drop_padding()

    def _token_counts(self, drafts: Mapping[SequenceState, Draft]) -> list[int]:
        """Return how many of its pending tokens each sequence takes in the next pass.

        A sequence with a draft takes all of them.

        How fast the sequences of a group advance does not depend on other sequences, so that the
        weights that are compared with each other do not either.
        """
        # A finished sequence with weights needs no logits after its last token.
        lengths = [
            len(one.pending) - (one.finished and one.weights is not None) for one in self.sequences
        ]
        rows = self._rows
        if drafts:
            width = max(len(one.pending) + len(draft.tokens) for one, draft in drafts.items())
            return [min(length, width) for length in lengths]
        # By row, since sequences that share one take the same tokens once.
        pending = {
            (rows.row(one), *one.pending[:length]): (one, length)
            for one, length in zip(self.sequences, lengths, strict=True)
        }
        if len(pending) == 1 and (not rows.is_merged or can_pad(rows.cache)):
            return lengths
        rows.merge()
        groups: dict[object, list[int]] = {}
        unfinished = {one.group for one in self.sequences if not one.finished}
        for sequence, length in pending.values():
            if sequence.weights is not None:
                groups.setdefault(sequence.group, []).append(length)
        wants_padding = self._pads or (groups and has_fast_blas())
        if not (wants_padding and can_pad(rows.cache) and self._probe.can_pad()):
            # Without padding, every row takes one token; the rest is left for later passes.
            return [1] * len(lengths)
        if self._pads:
            return lengths
        # A later pass would have nothing else to do for a finished group.
        counts = {
            group: most_efficient_count(few) if group in unfinished else max(few)
            for group, few in groups.items()
        }
        return [
            min(length, counts.get(sequence.group, 1))
            for sequence, length in zip(self.sequences, lengths, strict=True)
        ]

    def _sample(self) -> tuple[list[Verification], list[Step]]:
        """Sample tokens for the sequences with logits; also return the steps of failures."""
        sampled: list[Verification] = []
        others = []
        for sequence in self.sequences:
            if sequence.pending or sequence.finished:
                continue
            try:
                sampled.append(Verification(sequence, self._drafts.in_flight.get(sequence)))
            except SlowMaskError:
                others.append(Step(sequence, [], is_slow=True))
            except Exception as error:
                others.append(_failed(sequence, error))
        return sampled, others

    def _advance(self, sampled: Verification, *, is_processed: bool) -> Step:
        sequence = sampled.sequence
        try:
            with sequence.timings.during("advance"):
                return Step(sequence, sampled.advance(is_processed=is_processed))
        except Exception as error:
            return _failed(sequence, error)

    def _may_run_ahead(self) -> bool:
        """Whether to dispatch the next pass before the sampled tokens are read.

        Not for sequences with weights: they may be replaced by others before the pass.
        """
        sequences = self.sequences
        if not self._rows.is_one_each:
            return False
        if any(one.expects_fast_forward or one.weights is not None for one in sequences):
            return False
        if self._drafts.in_flight or all(one.is_at_limit for one in sequences):
            return False
        if self._drafts.are_expected():
            return False
        return can_trim(self._rows.cache, 1) or not any(one.may_reject for one in sequences)

    def _read(self, sampled: Sequence[Verification]) -> None:
        """Wait for the sampled tokens."""
        started = time.perf_counter()
        for one in sampled:
            one.read()
        ended = time.perf_counter()
        for sequence in self.sequences:
            sequence.timings.add("wait", started, ended)
        for one in sampled:
            if one.sequence.timings.first_token is None:
                one.sequence.timings.first_token = ended

    def _forward(self, tokens: mx.array, lengths: Sequence[int]) -> None:
        """Dispatch a pass and set each sequence's logits after its last token.

        Args:
            tokens: Shape (rows, longest length).
            lengths: Tokens of each row without padding.
        """
        started = time.perf_counter()
        deltas = [0] * len(lengths)
        for sequence in self.sequences:
            deltas[self._rows.row(sequence)] = sequence.rope_delta
        output = self._pass(tokens, self._rows.cache, **position_arguments(deltas))
        if self._quantize is not None:
            self._quantize(self._rows.cache)
        of_rows = [output.at(row, length - 1) for row, length in enumerate(lengths)]
        weights: list[mx.array] = []
        known: list[KnownWeights] = [{} for _ in lengths]
        for sequence in self.sequences:
            row = self._rows.row(sequence)
            sequence.logits = of_rows[row]
            draft = self._drafts.in_flight.get(sequence)
            if draft is not None:
                first = lengths[row] - len(draft.tokens)
                sequence.logits = output.at(row, first - 1)
                draft.logits = [output.at(row, first + at) for at in draft.positions]
            if sequence.weights is not None and not sequence.weights.is_complete:
                sequence.weigh_forced(output.logits[row, : lengths[row]], known[row])
                weights += sequence.weights.unread
        mx.async_eval(output.inputs, *weights)
        ended = time.perf_counter()
        for sequence in self.sequences:
            sequence.timings.add("dispatch", started, ended)
            sequence.timings.step += 1
            sequence.forward_passes += 1
        self._steps += 1
        if self._steps % _STEPS_BETWEEN_CACHE_CLEARINGS == 0:
            clear_cache()


def _merged(drawn: dict[SequenceState, list[Token]], steps: list[Step]) -> list[Step]:
    """Return one step for each sequence, with the tokens of its drawn choices first."""
    rest = dict(drawn)
    merged = [replace(step, tokens=rest.pop(step.sequence, []) + step.tokens) for step in steps]
    return merged + [Step(sequence, tokens) for sequence, tokens in rest.items()]


def _failed(sequence: SequenceState, error: Exception) -> Step:
    sequence.finished = True
    return Step(sequence, [], error)
