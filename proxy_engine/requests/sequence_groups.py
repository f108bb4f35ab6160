"""Requests that are answered by several sequences: particles, or independent samples.

The sequences of a group share the prompt's prefill, then each has a row of the batch. Particles are
resampled between two forward passes: rows are replaced by copies of others. A group occupies as
many rows as it has sequences until all of them are finished, since a finished particle can be
replaced by a copy of one that is not.

If the model's caches cannot be batched, the sequences run one after the other, without resampling.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..generation import Batch, SequenceState, Step, Token
from ..generation.particles import ParticleSystem
from ..prompt_cache.layers import copy_cache
from .request import Job
from .slow_masks import SlowMasks


@dataclass(slots=True, eq=False)
class Sample:
    """One of the sequences that answer a request.

    Attributes:
        sequence: The sequence.
        tokens: Its generated tokens.
        error: It failed with this error.
    """

    sequence: SequenceState
    tokens: list[Token]
    error: Exception | None = None

    @property
    def log_weight(self) -> float:
        """The sum of its tokens' log-weights that have been read; see ``TokenWeights``."""
        if self.error is not None:
            return -math.inf
        weights = self.sequence.weights
        return 0.0 if weights is None else weights.total

    def log_weight_of(self, tokens: int) -> float:
        """Return the sum of the log-weights of its first tokens."""
        weights = self.sequence.weights
        if self.error is not None or weights is None:
            return self.log_weight
        return weights.sum_of(tokens)

    @property
    def is_active(self) -> bool:
        """Whether it needs a row of the batch."""
        return self.error is None and self.sequence.needs_pass


class SequenceGroup:
    """The sequences of one request.

    Args:
        job: The request, whose running sequence is the first one.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.count = job.request.sequences
        self.is_parked = False
        """Whether the sequences have left the batch until a slow mask is computed."""
        self.waiting: list[Sample] = []
        """Sequences that run later, if the caches cannot be batched."""
        self.cache: list[Any] = []
        """The prompt's cache, for the waiting ones."""
        self._streams = itertools.count(1)
        first = Sample(job.running.sequence, list(job.running.tokens))
        self.system = ParticleSystem([first], seed=job.request.options.seed)
        self.is_batched = True

    @property
    def samples(self) -> list[Sample]:
        """The distinct samples, in order."""
        return list(dict.fromkeys(self.system.particles))

    def multiply(self) -> None:
        """Copy the first sequence, whose prompt is processed, to all others."""
        first = self.system.particles[0]
        forks = [self._fork(first) for _ in range(self.count - 1)]
        self.system = ParticleSystem([first, *forks], seed=self.job.request.options.seed)

    def end(self) -> None:
        """Record the end of generation, and read the last weights, which needs the model thread."""
        self.read_weights()
        for sample in self.samples:
            sample.sequence.timings.end()

    def read_weights(self) -> None:
        """Read the weights of tokens that the model has processed."""
        for sample in self.samples:
            if sample.sequence.weights is not None:
                sample.sequence.weights.read()

    def resample(self) -> dict[SequenceState, SequenceState]:
        """Resample the particles if necessary.

        A particle whose text is forced is ahead of others, by tokens of small weight. Particles are
        therefore compared by equally many tokens; finished ones may have fewer.

        Returns:
            The active sequences, each with the one whose row it continues.
        """
        sources = {one.sequence: one.sequence for one in self.samples if one.is_active}

        def copy(sample: Sample) -> Sample:
            # A finished particle does not change any more.
            if not sample.is_active:
                return sample
            twin = self._fork(sample)
            sources[twin.sequence] = sample.sequence
            return twin

        counts = [
            len(one.sequence.weights.sums) - 1
            for one in self.samples
            if one.is_active and one.sequence.weights is not None
        ]
        if counts:
            tokens = min(counts)
            self.system.resample(copy, lambda one: one.log_weight_of(tokens))
        return {one.sequence: sources[one.sequence] for one in self.samples if one.is_active}

    def _fork(self, sample: Sample) -> Sample:
        return Sample(sample.sequence.fork(next(self._streams)), list(sample.tokens))


class SequenceGroups:
    """The running groups of a batch. To be used on the model thread.

    Args:
        batch: Has the rows of the sequences.
        slow: Computes slow masks.
        finish: Called with a group whose sequences are all finished, or that was cancelled.
    """

    def __init__(
        self, batch: Batch, slow: SlowMasks, finish: Callable[[SequenceGroup], None]
    ) -> None:
        self._batch = batch
        self._slow = slow
        self._finish = finish
        self._groups: list[SequenceGroup] = []
        # The group and the sample of each sequence in the batch, or whose mask is being computed.
        self._members: dict[SequenceState, tuple[SequenceGroup, Sample]] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[SequenceGroup]:
        return iter(list(self._groups))

    def __contains__(self, sequence: SequenceState) -> bool:
        return sequence in self._members

    @property
    def reserved_rows(self) -> int:
        """Rows of the batch that the groups occupy or may occupy again."""
        return sum(group.count for group in self._groups)

    @property
    def slow_sequences(self) -> int:
        """Sequences that have left the batch until a slow mask is computed."""
        return sum(sequence in self._slow for sequence in self._members)

    def start(self, group: SequenceGroup, cache: list[Any]) -> None:
        """Begin to generate, after the prompt has been processed.

        Args:
            group: The group.
            cache: The prompt's cache, which the group takes over.
        """
        self._groups.append(group)
        group.multiply()
        if not any(sample.is_active for sample in group.samples):
            self._end(group)
        elif self._batch.can_fork(cache):
            samples = group.samples
            self._batch.add_forks([one.sequence for one in samples], cache)
            self._members |= {one.sequence: (group, one) for one in samples}
        else:
            group.is_batched = False
            group.waiting, group.cache = group.samples, cache
            self._add_waiting(group)

    def take(self, steps: Sequence[Step]) -> None:
        """Take a step's tokens, resample, and remove finished sequences from the batch."""
        stepped: dict[SequenceGroup, bool] = {}
        for step in steps:
            group, sample = self._members[step.sequence]
            stepped[group] = stepped.get(group, False) or step.is_slow
            sample.error = step.error
            sample.tokens += step.tokens
        for group, is_slow in stepped.items():
            if is_slow:
                self._park(group)
                continue
            group.read_weights()
            self._arrange(group, group.resample() if group.is_batched else self._active(group))

    def remove_weighed(self) -> None:
        """Remove finished sequences whose last weights have just been dispatched."""
        for group in self:
            active = self._active(group)
            if len(active) < len(self._rows(group)):
                self._arrange(group, active)

    def resume(self) -> None:
        """Return parked groups to the batch; begin the next sequences that wait for their turn."""
        done = {sequence: (cache, error) for sequence, cache, error in self._slow.finished()}
        for group in self:
            if group.job.is_cancelled:
                # Its masks may have errors because of that.
                continue
            if not group.is_parked:
                self._add_waiting(group)
                continue
            rows = self._rows(group)
            if not all(row in done for row in rows) or not self._batch.can_add(done[rows[0]][0]):
                continue
            group.is_parked = False
            for row in rows:
                cache, error = done[row]
                self._slow.remove(row)
                if error is None:
                    self._batch.add(row, cache)
                elif isinstance(error, Exception):
                    self._members.pop(row)[1].error = error
                else:
                    raise error
            if not self._rows(group):
                self._end_or_continue(group)

    def remove_cancelled(self) -> None:
        """End the groups of cancelled requests."""
        for group in self:
            if group.job.is_cancelled:
                group.waiting.clear()
                self._arrange(group, {})

    def _park(self, group: SequenceGroup) -> None:
        """Remove all sequences from the batch until the slow masks are computed.

        They advance together, so that the results do not depend on the time that a mask takes.
        """
        active = self._active(group)
        self._arrange(group, active)
        group.is_parked = bool(active)
        for row in active:
            cache = self._batch.remove(row) or []
            self._slow.add(row, cache, group.job.request.cancelled)

    def _arrange(self, group: SequenceGroup, sources: dict[SequenceState, SequenceState]) -> None:
        """Let a group have the given sequences, each with a copy of the row of another one."""
        rows = self._rows(group)
        if rows and rows == list(sources) == list(sources.values()):
            return
        for row in rows:
            if row in self._slow:
                self._slow.remove(row)
        self._batch.replace([row for row in rows if row in self._batch.sequences], sources)
        for row in rows:
            del self._members[row]
        samples = {sample.sequence: sample for sample in group.samples}
        self._members |= {row: (group, samples[row]) for row in sources}
        if not sources:
            self._end_or_continue(group)

    def _active(self, group: SequenceGroup) -> dict[SequenceState, SequenceState]:
        """Return the sequences that stay in their rows."""
        return {row: row for row in self._rows(group) if self._members[row][1].is_active}

    def _rows(self, group: SequenceGroup) -> list[SequenceState]:
        return [row for row, (owner, _) in self._members.items() if owner is group]

    def _add_waiting(self, group: SequenceGroup) -> None:
        if group.waiting and not self._rows(group) and self._batch.can_add(group.cache):
            sample = group.waiting.pop(0)
            self._members[sample.sequence] = group, sample
            self._batch.add(
                sample.sequence, copy_cache(group.cache) if group.waiting else group.cache
            )

    def _end_or_continue(self, group: SequenceGroup) -> None:
        if not group.waiting:
            self._end(group)

    def _end(self, group: SequenceGroup) -> None:
        self._groups.remove(group)
        self._finish(group)
