"""Distances between the engine's answers and the exact distribution, by number of particles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from distributions import chi_square_p_value, frequencies, sampling_noise, total_variation
from exact_conditional import ExactConditional
from faithfulness_cases import Case

from proxy_engine import GenerationResult, InferenceEngine

__all__ = ["measure_case", "measure_point"]

_SEEDS_APART = 1_000_000
"""Distance between the seeds of numbers of particles; more than there are draws."""


def measure_case(
    case: Case, counts: Sequence[int], draws: int, on_point: Any = None
) -> dict[str, Any]:
    """Return the distances of a case.

    Args:
        case: The case.
        counts: Numbers of particles; 1 is masking.
        draws: Requests per number of particles.
        on_point: Called with each point.
    """
    with case.engine(max(counts)) as engine:
        exact = case.exact(engine)
        by_text, masked = exact.by_text, exact.masked_by_text
        points = []
        for count in counts:
            points.append(measure_point(engine, case, exact, count, draws))
            if on_point is not None:
                on_point(case.name, points[-1])
    return {
        "case": case.name,
        "sequences": len(exact.sequences),
        "texts": len(by_text),
        "log_evidence": _short(exact.log_evidence),
        "masking": _short(total_variation(by_text, masked)),
        "noise": _short(sampling_noise(by_text, draws)),
        "likeliest": [
            {"text": text, "exact": _short(by_text[text]), "masking": _short(masked[text])}
            for text in sorted(by_text, key=lambda text: -by_text[text])[:6]
        ],
        "points": points,
    }


def measure_point(
    engine: InferenceEngine, case: Case, exact: ExactConditional, particles: int, draws: int
) -> dict[str, Any]:
    """Return the distance of some answers to the exact distribution, with one draw per request.

    ``evidence`` is the mean of the estimates of the evidence, divided by the exact one.
    """
    texts: list[str] = []
    ratios: list[float] = []
    for result in _results(engine, case, particles, draws):
        texts.append(exact.text(result.token_ids))
        if result.log_evidence is not None:
            ratios.append(math.exp(result.log_evidence - exact.log_evidence))
    point: dict[str, Any] = {
        "particles": particles,
        "draws": draws,
        "distance": _short(total_variation(frequencies(texts), exact.by_text)),
        "p_value": _short(chi_square_p_value(texts, exact.by_text)),
        "p_value_of_masking": _short(chi_square_p_value(texts, exact.masked_by_text)),
    }
    if ratios:
        error = float(np.std(ratios, ddof=1)) / math.sqrt(len(ratios))
        point |= {"evidence": _short(float(np.mean(ratios))), "evidence_error": _short(error)}
    return point


def _results(
    engine: InferenceEngine, case: Case, particles: int, draws: int
) -> Iterator[GenerationResult[Any]]:
    options = {"temperature": 1.0, **case.arguments}
    if particles > 1:
        options["particles"] = particles
    for number in range(draws):
        seed = particles * _SEEDS_APART + number
        yield engine.generate(case.prompt, seed=seed, **options)


def _short(value: float) -> float:
    return float(f"{value:.4g}")
