"""Distances between the engine's answers and the exact distribution, by number of particles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from distributions import chi_square_p_value, frequencies, sampling_noise, total_variation
from exact_conditional import ExactConditional
from faithfulness_cases import Case
from faithfulness_simulation import simulated_texts

from proxy_engine import InferenceEngine

__all__ = ["engine_point", "measure_case", "simulated_point"]

_SEEDS_APART = 1_000_000
"""Distance between the seeds of numbers of particles; more than there are draws."""

_LIKELIEST = 6


def measure_case(
    case: Case,
    *,
    counts: Sequence[int],
    draws: int,
    engine_counts: Sequence[int],
    engine_draws: int,
    on_point: Callable[[str, dict[str, Any]], None] = lambda *_: None,
) -> dict[str, Any]:
    """Return the distances of a case.

    Args:
        case: The case.
        counts: Numbers of particles of simulated systems; 1 is masking.
        draws: Simulated systems per number of particles, with one draw each.
        engine_counts: Numbers of particles of requests to the engine.
        engine_draws: Requests per number of particles.
        on_point: Called with each point.
    """
    with case.engine(max(engine_counts, default=1)) as engine:
        exact = case.exact(engine)
        by_text, masked = exact.by_text, exact.masked_by_text
        simulated, points = [], []
        for count in counts:
            simulated.append(simulated_point(exact, count, draws))
            on_point(f"{case.name}, simulated", simulated[-1])
        for count in engine_counts:
            points.append(engine_point(engine, case, exact, count, engine_draws))
            on_point(case.name, points[-1])
    likeliest = sorted(by_text, key=lambda text: -by_text[text])[:_LIKELIEST]
    return {
        "case": case.name,
        "sequences": len(exact.sequences),
        "texts": len(by_text),
        "log_evidence": _short(exact.log_evidence),
        "masking": _short(total_variation(by_text, masked)),
        "noise": _short(sampling_noise(by_text, draws)),
        "engine_noise": _short(sampling_noise(by_text, engine_draws)),
        "likeliest": [
            {"text": text, "exact": _short(by_text[text]), "masking": _short(masked[text])}
            for text in likeliest
        ],
        "simulated": simulated,
        "engine": points,
    }


def simulated_point(exact: ExactConditional, particles: int, draws: int) -> dict[str, Any]:
    """Return the distance of draws of particle systems on the tree of answers."""
    found = list(simulated_texts(exact, particles, draws))
    return _point(exact, particles, [text for text, _ in found], [log for _, log in found])


def engine_point(
    engine: InferenceEngine, case: Case, exact: ExactConditional, particles: int, draws: int
) -> dict[str, Any]:
    """Return the distance of answers of the engine, one per request."""
    options = {"temperature": 1.0, **case.arguments}
    if particles > 1:
        options["particles"] = particles
    texts, log_evidences = [], []
    for number in range(draws):
        seed = particles * _SEEDS_APART + number
        result = engine.generate(case.prompt, seed=seed, **options)
        texts.append(exact.text(result.token_ids))
        if result.log_evidence is not None:
            log_evidences.append(result.log_evidence)
    return _point(exact, particles, texts, log_evidences)


def _point(
    exact: ExactConditional,
    particles: int,
    texts: Sequence[str],
    log_evidences: Iterable[float],
) -> dict[str, Any]:
    """Return figures of some draws.

    ``evidence`` is the mean of the estimates of the evidence over the exact one.
    """
    point: dict[str, Any] = {
        "particles": particles,
        "draws": len(texts),
        "distance": _short(total_variation(frequencies(texts), exact.by_text)),
        "p_value": _short(chi_square_p_value(texts, exact.by_text)),
    }
    ratios = [math.exp(estimate - exact.log_evidence) for estimate in log_evidences]
    if ratios:
        error = float(np.std(ratios, ddof=1)) / math.sqrt(len(ratios))
        point |= {"evidence": _short(float(np.mean(ratios))), "evidence_error": _short(error)}
    return point


def _short(value: float) -> float:
    return float(f"{value:.4g}")
