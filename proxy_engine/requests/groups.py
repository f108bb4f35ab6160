"""The sequences that answer one request: one, or several particles or independent samples.

The sequences of a group share the prompt's prefill, then each has a row of the batch. Particles are
resampled between two forward passes: rows are replaced by copies of others. A group of several
sequences occupies as many rows as it has sequences until all of them are finished, since a finished
particle can be replaced by a copy of one that is not.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from mlx_lm.models.cache import make_prompt_cache

from state_machines import Vocabulary

from ..answers.composition import REASONING
from ..conversation.chat_template import chat_template
from ..generation import (
    Constraint,
    Deadline,
    DeviceMasks,
    Drafting,
    FastForward,
    GeneratedSequence,
    ModelDrafter,
    PartLimits,
    SequenceOptions,
    SequenceSamplers,
    StepCosts,
    Timings,
    end_token_ids,
    text_token_mask,
    xtc_special_tokens,
)
from ..generation.particles import ParticleSystem
from ..generation.speculation import CopyDrafter, Drafter
from ..models.loading import LoadedModel
from ..options.generation import GenerationOptions
from ..results.events import Event
from ..results.generation import GenerationResult
from ..results.parts import Particle
from .request import Job, Request
from .samples import Sample


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
    rows: list[GeneratedSequence] = field(default_factory=list)
    parked: dict[GeneratedSequence, tuple[list[Any], Future[None]]] = field(default_factory=dict)
    waiting: list[Sample] = field(default_factory=list)
    cache: list[Any] = field(default_factory=list)
    is_batched: bool = True
    count: int = field(init=False)
    is_single: bool = field(init=False)
    _system: ParticleSystem[Sample] | None = None
    _streams: itertools.count[int] = field(default_factory=partial(itertools.count, 1))

    def __post_init__(self) -> None:
        self.count = self.job.request.sequences
        self.is_single = self.count == 1

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
    def active(self) -> dict[GeneratedSequence, GeneratedSequence]:
        """Its sequences in the batch that stay in their rows."""
        active = {sample.sequence for sample in self.samples if sample.is_active}
        return {row: row for row in self.rows if row in active}

    def multiply(self) -> None:
        """Copy the first sequence, whose prompt is processed, to all others."""
        if not self.is_single:
            forks = [self.first.fork(next(self._streams)) for _ in range(self.count - 1)]
            seed = self.job.request.options.seed
            self._system = ParticleSystem([self.first, *forks], seed=seed)

    def resample(self) -> dict[GeneratedSequence, GeneratedSequence]:
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
            twin = sample.fork(next(self._streams))
            sources[twin.sequence] = sample.sequence
            return twin

        counts = [
            len(sample.sequence.weights.sums) - 1
            for sample in self.samples
            if sample.is_active and sample.sequence.weights is not None
        ]
        if counts and self._system is not None:
            tokens = min(counts)
            self._system.resample(copy, lambda sample: sample.log_weight_of(tokens))
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
        self.read_weights()
        for sample in self.samples:
            sample.sequence.timings.end()
        if self._system is None and self.first.error is None and self.job.request.watches:
            self.first.read_to_end()

    def result(self) -> GenerationResult[Any]:
        """Return the result of the request, and emit the last events. On any thread, after the end.

        A particle that fails, or that a validator rejects, has no weight.

        Raises:
            Exception: The error of the first particle if all have failed; the first error of
                independent samples.
        """
        options = self.job.request.options
        if self._system is None:
            # Of several sequences as well, if it was cancelled before they were copied.
            if self.first.error is not None:
                raise self.first.error
            return self.first.result()
        events: dict[Sample, list[Event]] = {}
        results: dict[Sample, GenerationResult[Any]] = {}
        for sample in self.samples:
            events[sample] = []
            sample.emit = events[sample].append
            if sample.error is None:
                try:
                    if sample.request.watches:
                        sample.read_to_end()
                    results[sample] = sample.result()
                except Exception as error:
                    # The caller's validators may raise errors of any type.
                    sample.error = error
        weighs = options.particles > 1
        errors = [sample.error for sample in self.samples if sample.error is not None]
        if errors and not (weighs and results):
            raise errors[0]
        if not weighs:
            drawn = self._system.particles
            answers = [results[sample] for sample in drawn]
            particles: tuple[Particle[Any], ...] = ()
        else:
            drawn, particles = self._draw(self._system, results)
            shared = self.count if self.is_batched else 1
            answers = [
                replace(result, usage=replace(result.usage, particles_per_pass=shared))
                for result in map(results.__getitem__, drawn)
            ]
        for event in events[drawn[0]]:
            self.job.emit(event)
        return replace(
            answers[0],
            particles=particles,
            log_evidence=self._system.log_evidence if weighs else None,
            choices=tuple(answers) if options.n > 1 else (),
        )

    def _draw(
        self, system: ParticleSystem[Sample], results: dict[Sample, GenerationResult[Any]]
    ) -> tuple[list[Sample], tuple[Particle[Any], ...]]:
        """Draw ``n`` particles; return them and all particles with their probabilities."""
        options = self.job.request.options
        pool = system
        if system.log_evidence == -math.inf:
            # All weights are 0, so that the draw is uniform.
            valid = [sample for sample in system.particles if sample.error is None]
            pool = ParticleSystem(valid, seed=options.seed)
        drawn = [pool.particles[index] for index in pool.draw(options.n)]
        share = dict(zip(pool.particles, pool.probabilities.tolist(), strict=True))
        weights = zip(system.particles, system.log_weights.tolist(), strict=True)
        return drawn, tuple(
            _particle(sample, results.get(sample), log_weight, share.get(sample, 0.0))
            for sample, log_weight in weights
        )


def _particle(
    sample: Sample, result: GenerationResult[Any] | None, log_weight: float, probability: float
) -> Particle[Any]:
    """Return a sample with its weight; its result is ``None`` if it failed."""
    return Particle(
        text=sample.text if result is None else result.text,
        parsed=None if result is None else result.parsed,
        log_weight=log_weight,
        probability=probability,
        tool_calls=() if result is None else result.tool_calls,
        token_ids=tuple(token.token_id for token in sample.tokens),
        parts=() if result is None else result.parts,
    )


class SequenceFactory:
    """Creates the sequences of one model.

    Args:
        loaded: The model.
        vocabulary: Its vocabulary.
        tokenizer_lock: Held while the tokenizer is used. The model thread does not need it, unless
            the tokenizer has no copy that nothing changes.
        draft_model: The draft model or head; ``None``: there is none.
        draft_cost: Time in which it makes a token, in the time of a pass of the model.
        num_draft_tokens: Tokens that the draft model drafts, for requests that do not set it.

    Attributes:
        fast_forward: Tokenizes forced text.
        masks: Masks on the device.
        costs: The measured cost of passes.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        vocabulary: Vocabulary,
        tokenizer_lock: threading.Lock,
        *,
        draft_model: ModelDrafter | None = None,
        draft_cost: float = 0.0,
        num_draft_tokens: int | None = None,
    ) -> None:
        self.loaded = loaded
        self.vocabulary = vocabulary
        control = chat_template(loaded.tokenizer).control_tokens
        self.fast_forward = FastForward(partial(control.encode, lock=tokenizer_lock), vocabulary)
        self.masks = DeviceMasks()
        self._text_tokens = text_token_mask(vocabulary)
        self.costs = StepCosts(make_prompt_cache(loaded.model))
        self._xtc_special_tokens = xtc_special_tokens(vocabulary)
        self._draft_model = draft_model
        self._draft_cost = draft_cost
        self._num_draft_tokens = num_draft_tokens

    def sequence(self, request: Request) -> GeneratedSequence:
        """Return the sequence that answers a request."""
        options = request.options
        guard = request.guard
        matcher = None if guard is None else guard.matcher
        seconds = options.max_seconds
        begin = time.perf_counter()
        if request.counts_waiting:
            # The time until a stream is read lies between the two, and does not count.
            begin = request.created - request.preparation_seconds
        deadline = None if seconds is None else Deadline(begin + seconds)
        samplers = SequenceSamplers(
            options,
            () if matcher is None else matcher.temperatures,
            hooks=request.hooks,
            xtc_special_tokens=self._xtc_special_tokens,
        )
        ends, usable_tokens = end_token_ids(self.vocabulary, self.loaded.tokenizer), None
        if matcher is None:
            ends = tuple(dict.fromkeys((*ends, *options.stop_ids)))
            usable_tokens = self._usable_tokens(options)
        constraint = Constraint(
            SequenceOptions(
                end_token_ids=ends,
                max_tokens=request.max_tokens,
                min_tokens=options.min_tokens,
                logprobs=options.logprobs,
                logprob_vectors=request.hooks.logprob_vectors,
                confidence=options.confidence,
                usable_tokens=usable_tokens,
                weighs=options.particles > 1,
                stop_repetition=options.stop_repetition,
            ),
            self.masks,
            PartLimits(options.parts, deadline, request.max_tokens, budgets=(REASONING,)),
            guard=guard,
            part=request.answer.part,
            fast_forward=self.fast_forward if options.fast_forward else None,
        )
        return GeneratedSequence(
            request.prompt.token_ids,
            constraint,
            samplers,
            masks=self.masks,
            choices=self.fast_forward if options.exact_choices else None,
            drafting=self._drafting(request),
            timings=Timings(is_traced=options.trace),
        )

    def drafters(self, prompt_ids: Sequence[int]) -> list[Drafter]:
        """Return the drafters of a sequence that need no model, the preferred one first."""
        return [CopyDrafter(prompt_ids, self.vocabulary, self.fast_forward)]

    def _usable_tokens(self, options: GenerationOptions) -> npt.NDArray[np.bool_] | None:
        """Return the mask of unconstrained text, which also allows the request's stop tokens."""
        usable = self._text_tokens
        stop = list(options.stop_ids)
        if usable is None or usable[stop].all():
            return usable
        usable = usable.copy()
        usable[stop] = True
        return usable

    def _drafting(self, request: Request) -> Drafting | None:
        """Return the drafters of a request; ``None`` if it takes one token per pass."""
        options = request.options.speculation_options
        if options is None or request.sequences > 1 or request.hooks.changes_tokens:
            return None
        # Where no draft pays, drafters need not search.
        has_drafters = options.prompt_lookup and (self.costs.cost.base or not options.is_adaptive)
        drafters = self.drafters(request.prompt.token_ids) if has_drafters else []
        # A draft model reads text only. A head reads the target's states of media.
        drafter = self._draft_model
        if drafter is not None and not drafter.reads_states and request.prompt.inputs is not None:
            drafter = None
        model = None if drafter is None else drafter.source
        options = options.with_defaults(self._num_draft_tokens)
        return Drafting(drafters, options, self.costs, model, self._draft_cost)
