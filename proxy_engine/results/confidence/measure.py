"""The confidences of an answer by JSON Pointer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from .answer_values import Answer, AnswerValues, read_values
from .exact_choices import Choice, exact_confidences
from .pointers import check_pointer, prefixes


class WeightedAnswer(Answer, Protocol):
    """A particle: :class:`~proxy_engine.results.generation.Particle`."""

    @property
    def probability(self) -> float:
        """Its weight over the sum of all weights."""


class Measured(Answer, Protocol):
    """An answer with its alternatives, as :class:`~proxy_engine.GenerationResult`."""

    @property
    def scored_choices(self) -> Sequence[Choice]:
        """The finite choices that were drawn exactly."""

    @property
    def particles(self) -> Sequence[WeightedAnswer]:
        """The weighted answers from which this one was drawn."""


def confidence(answer: Measured, pointer: str = "") -> float | None:
    """Return the probability of a value of an answer; ``None`` if it was not measured.

    Raises:
        InvalidOptionError: ``pointer`` is malformed, or the answer has no value there.
    """
    values = read_values(answer)
    check_pointer(pointer, values.spans)
    return _confidences(values, answer).get(pointer)


def confidences(answer: Measured) -> dict[str, float]:
    """Return the probabilities of all values that were measured, in document order."""
    return _confidences(read_values(answer), answer)


def _confidences(values: AnswerValues, answer: Measured) -> dict[str, float]:
    exact = exact_confidences(values, answer.scored_choices)
    if not answer.particles:
        return exact
    sampled = _particle_confidences(values, answer.particles)
    # A container's values depend on each other, which particles measure and products do not.
    return {
        pointer: exact[pointer] if pointer in values.leaves and pointer in exact else estimate
        for pointer, estimate in sampled.items()
    }


def _particle_confidences(
    values: AnswerValues, particles: Iterable[WeightedAnswer]
) -> dict[str, float]:
    """Return the total probability of the particles with an equal value, by pointer."""
    found = dict.fromkeys(values.spans, 0.0)
    for particle in particles:
        differing = values.leaves.items() ^ read_values(particle).leaves.items()
        changed = {outer for pointer, _ in differing for outer in prefixes(pointer)}
        for pointer in found:
            if pointer not in changed:
                found[pointer] += particle.probability
    return {pointer: min(total, 1.0) for pointer, total in found.items()}
