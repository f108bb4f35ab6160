"""The confidences of an answer by JSON Pointer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...checks.pointers import check_pointer, prefixes
from .answer_values import AnswerValues, read_values
from .choice_confidence import choice_confidences

if TYPE_CHECKING:
    from ..generation import GenerationResult, Particle


def confidence(answer: GenerationResult[Any], pointer: str = "") -> float | None:
    """Return the probability of a value of an answer; ``None`` if it was not measured.

    Raises:
        InvalidOptionError: ``pointer`` is malformed, or the answer has no value there.
    """
    values = read_values(answer)
    check_pointer(pointer, values.spans)
    return _confidences(values, answer).get(pointer)


def confidences(answer: GenerationResult[Any]) -> dict[str, float]:
    """Return the probabilities of all values that were measured, in document order."""
    return _confidences(read_values(answer), answer)


def _confidences(values: AnswerValues, answer: GenerationResult[Any]) -> dict[str, float]:
    exact = choice_confidences(values, answer.scored_choices)
    if not answer.particles:
        return exact
    sampled = _particle_confidences(values, answer.particles)
    # A container's values depend on each other, which particles measure and products do not.
    return {
        pointer: exact[pointer] if pointer in values.leaves and pointer in exact else estimate
        for pointer, estimate in sampled.items()
    }


def _particle_confidences(
    values: AnswerValues, particles: Iterable[Particle[Any]]
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
