"""The sequences that answer one request: one, or several particles or independent samples.

The sequences of a group share the prompt's prefill, then each has a row of the batch. Particles are
resampled between two forward passes: rows are replaced by copies of others. A group of several
sequences occupies as many rows as it has sequences until all of them are finished, since a finished
particle can be replaced by a copy of one that is not.
"""

from __future__ import annotations

import itertools
import math
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from ..answers.compile_queue import CompileJob
from ..generation import Sequence, Step, Token
from ..generation.particles import ParticleSystem
from ..results.events import Event, PromptProgress
from ..results.generation import GenerationResult
from ..results.parts import Particle
from .job import Job
from .running import RunningRequest
from .sequence_factory import SequenceFactory


@dataclass(slots=True, eq=False)
class Sample:
    """One of the sequences that answer a request.

    Attributes:
        sequence: The sequence.
        tokens: Its generated tokens.
        error: It failed with this error.
        mask_job: Computes its slow masks.
    """

    sequence: Sequence
    tokens: list[Token]
    error: Exception | None = None
    mask_job: CompileJob | None = None

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

    def take(self, step: Step) -> None:
        """Take the result of a step."""
        self.error = step.error
        self.tokens += step.tokens


@dataclass(slots=True, eq=False)
class Group:
    """The sequences of one request while it runs. To be used on the model thread.

    Attributes:
        job: The request.
        first: The sequence whose prompt is processed.
        rows: Its sequences in the batch.
        parked: The sequences that have left the batch until slow masks are computed: their caches,
            and the ends of the computations.
        waiting: Sequences that run one after the other, since the caches cannot be batched.
        cache: The prompt's cache, for the waiting ones.
        is_batched: Whether the sequences run together.
        count: The number of its sequences.
        is_single: Whether it has one, whose tokens are reported as they are generated.
    """

    job: Job
    first: Sample
    rows: list[Sequence] = field(default_factory=list)
    parked: dict[Sequence, tuple[list[Any], Future[None]]] = field(default_factory=dict)
    waiting: list[Sample] = field(default_factory=list)
    cache: list[Any] = field(default_factory=list)
    is_batched: bool = True
    count: int = field(init=False)
    is_single: bool = field(init=False)
    _system: ParticleSystem[Sample] | None = None
    _streams: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.count = self.job.request.sequences
        self.is_single = self.count == 1

    @property
    def system(self) -> ParticleSystem[Sample]:
        """The sequences with their weights, once they are several."""
        if self._system is None:
            raise AssertionError("the group has several sequences")
        return self._system

    @property
    def samples(self) -> list[Sample]:
        """The distinct samples, in order."""
        if self._system is None:
            return [self.first]
        return list(dict.fromkeys(self._system.particles))

    @property
    def occupied_rows(self) -> int:
        """Rows of the batch that it has, or may have again."""
        if self.is_single:
            return 0 if self.parked else 1
        return self.count

    @property
    def active(self) -> dict[Sequence, Sequence]:
        """Its sequences in the batch that stay in their rows."""
        active = {sample.sequence for sample in self.samples if sample.is_active}
        return {row: row for row in self.rows if row in active}

    def multiply(self) -> None:
        """Copy the first sequence, whose prompt is processed, to all others."""
        if not self.is_single:
            forks = [self._fork(self.first) for _ in range(self.count - 1)]
            seed = self.job.request.options.seed
            self._system = ParticleSystem([self.first, *forks], seed=seed)

    def resample(self) -> dict[Sequence, Sequence]:
        """Resample the particles if necessary.

        A particle whose text is forced is ahead of others, by tokens of small weight. Particles are
        therefore compared by equally many tokens; finished ones may have fewer.

        Returns:
            The active sequences, each with the one whose row it continues.
        """
        self.read_weights()
        sources = {sample.sequence: sample.sequence for sample in self.samples if sample.is_active}

        def copy(sample: Sample) -> Sample:
            # A finished particle does not change any more.
            if not sample.is_active:
                return sample
            twin = self._fork(sample)
            sources[twin.sequence] = sample.sequence
            return twin

        counts = [
            len(sample.sequence.weights.sums) - 1
            for sample in self.samples
            if sample.is_active and sample.sequence.weights is not None
        ]
        if counts:
            tokens = min(counts)
            self.system.resample(copy, lambda sample: sample.log_weight_of(tokens))
        return {
            sample.sequence: sources[sample.sequence] for sample in self.samples if sample.is_active
        }

    def read_weights(self) -> None:
        """Read the weights of tokens that the model has processed."""
        for sample in self.samples:
            if sample.sequence.weights is not None:
                sample.sequence.weights.read()

    def end(self) -> None:
        """Record the end of generation, and read the last weights, which needs the model thread."""
        if self._system is None and self.first.error is None:
            self.job.running.end()
        self.read_weights()
        for sample in self.samples:
            sample.sequence.timings.end()

    def result(self, factory: SequenceFactory) -> GenerationResult[Any]:
        """Return the result of the request, and emit the last events. On any thread, after the end.

        A particle that fails, or that a validator rejects, has no weight.

        Raises:
            Exception: The error of the first particle if all have failed; the first error of
                independent samples.
        """
        request = self.job.request
        if self._system is None:
            # Of several sequences as well, if it was cancelled before they were copied.
            if self.first.error is not None:
                raise self.first.error
            return self.job.running.result()
        readings = {sample: _Reading.of(sample, self.job, factory) for sample in self.samples}
        errors = [sample.error for sample in readings if sample.error is not None]
        weighs = request.options.particles > 1
        if errors and (len(errors) == len(readings) or not weighs):
            raise errors[0]
        particles: tuple[Particle[Any], ...] = ()
        if not weighs:
            drawn = list(self.system.particles)
        else:
            drawn, particles = self._draw(readings)
        for event in readings[drawn[0]].events:
            self.job.emit(event)
        shared = self.count if self.is_batched else 1
        results = [readings[sample].known_result for sample in drawn]
        if weighs:
            results = [
                replace(result, usage=replace(result.usage, particles_per_pass=shared))
                for result in results
            ]
        return replace(
            results[0],
            particles=particles,
            log_evidence=self.system.log_evidence if weighs else None,
            choices=tuple(results) if request.options.n > 1 else (),
        )

    def _draw(
        self, readings: dict[Sample, _Reading]
    ) -> tuple[list[Sample], tuple[Particle[Any], ...]]:
        """Draw ``n`` particles; return them and all particles with their probabilities."""
        options = self.job.request.options
        pool = system = self.system
        if system.log_evidence == -math.inf:
            # All weights are 0, so that the draw is uniform.
            valid = [sample for sample in system.particles if sample.error is None]
            pool = ParticleSystem(valid, seed=options.seed)
        drawn = [pool.particles[index] for index in pool.draw(options.n)]
        share = dict(zip(pool.particles, pool.probabilities.tolist(), strict=True))
        particles = tuple(
            readings[sample].particle(log_weight, share.get(sample, 0.0))
            for sample, log_weight in zip(
                system.particles, system.log_weights.tolist(), strict=True
            )
        )
        return drawn, particles

    def _fork(self, sample: Sample) -> Sample:
        return Sample(sample.sequence.fork(next(self._streams)), list(sample.tokens))


@dataclass(frozen=True, slots=True)
class _Reading:
    """The output of one of several samples.

    Attributes:
        sample: The sample.
        running: Its reader.
        events: Its events.
        result: Its result; ``None`` if it failed.
    """

    sample: Sample
    running: RunningRequest
    events: list[Event]
    result: GenerationResult[Any] | None

    @classmethod
    def of(cls, sample: Sample, job: Job, factory: SequenceFactory) -> _Reading:
        """Read and parse a sample's tokens."""
        events: list[Event] = []
        running = RunningRequest(job.request, factory, events.append, sample.sequence)
        running.cached_tokens = job.running.cached_tokens
        result = None
        try:
            running.tokens += sample.tokens
            running.report()
            if sample.error is None:
                running.end()
                result = running.result()
        except Exception as error:
            # The caller's validators may raise errors of any type.
            sample.error = sample.error or error
        # The progress of the prompt has been reported.
        events = [event for event in events if not isinstance(event, PromptProgress)]
        return cls(sample, running, events, result)

    @property
    def known_result(self) -> GenerationResult[Any]:
        """The result of a sample that did not fail."""
        if self.result is None:
            raise AssertionError("a sample without a weight is not drawn")
        return self.result

    def particle(self, log_weight: float, probability: float) -> Particle[Any]:
        """Return the sample with its weight."""
        result = self.result
        return Particle(
            text=self.running.text,
            parsed=None if result is None else result.parsed,
            log_weight=log_weight,
            probability=probability,
            tool_calls=() if result is None else result.tool_calls,
            token_ids=tuple(token.token_id for token in self.sample.tokens),
            parts=() if result is None else result.parts,
        )
