"""Results of requests that are answered by several sequences."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from ..generation.particles import ParticleSystem
from ..results.events import Event, PromptProgress
from ..results.generation import GenerationResult, Particle
from .running import RunningRequest
from .sequence_factory import SequenceFactory
from .sequence_groups import Sample, SequenceGroup


@dataclass(frozen=True, slots=True)
class _Reading:
    """The output of one sample.

    Attributes:
        running: Its reader.
        events: Its events.
        result: Its result; ``None`` if it failed.
    """

    running: RunningRequest
    events: list[Event]
    result: GenerationResult[Any] | None


def group_result(group: SequenceGroup, factory: SequenceFactory) -> GenerationResult[Any]:
    """Return the result of a group, and emit the events of the sample that is the result.

    To be called after :meth:`SequenceGroup.end`, on any thread.

    A particle that fails, or that a validator rejects, has no weight.

    Raises:
        Exception: The error of the first particle if all have failed; the first error of
            independent samples.
    """
    request = group.job.request
    readings = {sample: _read(sample, group, factory) for sample in group.samples}
    errors = [sample.error for sample in readings if sample.error is not None]
    weighs = request.options.particles > 1
    if errors and (len(errors) == len(readings) or not weighs):
        raise errors[0]
    if weighs:
        drawn, particles = _draw(group, readings)
    else:
        drawn, particles = list(group.system.particles), ()
    for event in readings[drawn[0]].events:
        group.job.emit(event)
    results = [_result(readings[sample]) for sample in drawn]
    if weighs:
        shared = group.count if group.is_batched else 1
        results = [
            replace(result, usage=replace(result.usage, particles_per_pass=shared))
            for result in results
        ]
    return replace(
        results[0],
        particles=particles,
        log_evidence=group.system.log_evidence if weighs else None,
        choices=tuple(results) if request.options.n > 1 else (),
    )


def _read(sample: Sample, group: SequenceGroup, factory: SequenceFactory) -> _Reading:
    """Read and parse a sample's tokens."""
    events: list[Event] = []
    request = group.job.request
    running = RunningRequest(request, factory, events.append, sample.sequence)
    running.cached_tokens = group.job.running.cached_tokens
    result = None
    try:
        running.report(sample.tokens)
        if sample.error is None:
            running.end()
            result = running.result()
    except Exception as error:
        # The caller's validators may raise errors of any type.
        sample.error = sample.error or error
    # The progress of the prompt has been reported.
    return _Reading(running, [one for one in events if not isinstance(one, PromptProgress)], result)


def _draw(
    group: SequenceGroup, readings: dict[Sample, _Reading]
) -> tuple[list[Sample], tuple[Particle[Any], ...]]:
    """Draw ``n`` particles; return them and all particles with their probabilities."""
    system, options = group.system, group.job.request.options
    pool = system
    if system.log_evidence == -math.inf:
        # All weights are 0, so that the draw is uniform.
        valid = [sample for sample in system.particles if sample.error is None]
        pool = ParticleSystem(valid, seed=options.seed)
    drawn = [pool.particles[index] for index in pool.draw(options.n)]
    share = dict(zip(pool.particles, pool.probabilities.tolist(), strict=True))
    log_weights = system.log_weights.tolist()
    particles = tuple(
        _particle(sample, readings[sample], log_weight, share.get(sample, 0.0))
        for sample, log_weight in zip(system.particles, log_weights, strict=True)
    )
    return drawn, particles


def _particle(
    sample: Sample, reading: _Reading, log_weight: float, probability: float
) -> Particle[Any]:
    result = reading.result
    return Particle(
        text=reading.running.text,
        parsed=None if result is None else result.parsed,
        log_weight=log_weight,
        probability=probability,
        tool_calls=() if result is None else result.tool_calls,
        token_ids=tuple(token.token_id for token in sample.tokens),
        parts=() if result is None else result.parts,
    )


def _result(reading: _Reading) -> GenerationResult[Any]:
    if reading.result is None:
        raise AssertionError("a sample without a weight is not drawn")
    return reading.result
