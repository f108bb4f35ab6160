"""Figures and tables of the benchmark of grammars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
from alternation import ratio_of
from grammar_worker import GrammarResult, PassTimes
from tables import duration

__all__ = ["OURS", "case_figures", "engine_rows", "ratio_rows", "refusals", "slowest_rows"]

OURS = "ours"

_SLOWEST = 5
_RATIOS = ("mean", "p50", "p99", "worst")


def case_figures(results: Mapping[str, Sequence[GrammarResult]]) -> dict[str, Any]:
    """Return the figures of one grammar, from the results of each engine in each repeat.

    A time is the median over the repeats. A ratio is the median of the ratios of the repeats: in
    each, the value of ours over that of the faster peer.
    """
    engines = {}
    for name, repeats in results.items():
        first = repeats[0]
        figures: dict[str, Any] = {"version": first.version, "reason": first.reason}
        if not first.reason:
            passes = [[_statistics(one) for one in repeat.passes] for repeat in repeats]
            figures["compile_us"] = _rounded(median(r.compile_ns for r in repeats) / 1000)
            figures["tokens"] = len(first.passes[0].between_ns)
            figures["passes"] = [_medians(same) for same in zip(*passes, strict=True)]
            figures["refusals"] = [vars(refusal) for refusal in first.refusals]
            figures["slowest"] = _slowest(repeats)
        engines[name] = figures
    return {"engines": engines, "ratios": _ratios(results)}


def _statistics(times: PassTimes) -> dict[str, float]:
    """Return the statistics of one pass in microseconds."""
    between, mask, advance = (
        np.array(values) / 1000 for values in (times.between_ns, times.mask_ns, times.advance_ns)
    )
    return {
        "mean": float(between.mean()) if between.size else 0.0,
        "p50": float(np.percentile(between, 50)) if between.size else 0.0,
        "p99": float(np.percentile(between, 99)) if between.size else 0.0,
        "worst": float(mask.max()),
        "mask_mean": float(mask.mean()),
        "mask_p50": float(np.percentile(mask, 50)),
        "mask_p99": float(np.percentile(mask, 99)),
        "advance_mean": float(advance.mean()) if advance.size else 0.0,
        "advance_worst": float(advance.max()) if advance.size else 0.0,
    }


def _medians(repeats: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: _rounded(median(one[name] for one in repeats)) for name in repeats[0]}


def _slowest(repeats: Sequence[GrammarResult]) -> list[dict[str, Any]]:
    """Return the slowest masks of the first pass: medians over the repeats, with their places."""
    firsts = [repeat.passes[0] for repeat in repeats]
    # A text that an engine stops early in one repeat has fewer masks in it.
    count = min(len(first.mask_ns) for first in firsts)
    times = np.median([first.mask_ns[:count] for first in firsts], axis=0) / 1000
    order = np.argsort(-times)[:_SLOWEST]
    return [
        {
            "microseconds": _rounded(float(times[number])),
            "text": firsts[0].places[number][0],
            "position": firsts[0].places[number][1],
        }
        for number in order
    ]


def _ratios(results: Mapping[str, Sequence[GrammarResult]]) -> list[dict[str, Any]]:
    """Return the ratios of each pass; none without ours or without a peer that walked all."""
    whole = {
        name: repeats
        for name, repeats in results.items()
        if not repeats[0].reason and not repeats[0].refusals
    }
    peers = [name for name in whole if name != OURS]
    if OURS not in whole or not peers:
        return []
    found = []
    for number in range(len(whole[OURS][0].passes)):
        ratios = {}
        for name in _RATIOS:

            def values(engine: str, name: str = name, number: int = number) -> list[float]:
                return [_statistics(result.passes[number])[name] for result in whole[engine]]

            fastest = [min(pair) for pair in zip(*map(values, peers), strict=True)]
            ratios[name] = ratio_of(values(OURS), fastest).as_record()
        found.append(ratios)
    return found


def engine_rows(cases: Sequence[dict[str, Any]], number: int = 0) -> list[list[str]]:
    """Return a row for each grammar and engine, with the times of pass ``number``."""
    titles = ["compile", "mean", "p50", "p99", "worst mask", "advance"]
    rows = [["grammar", "notation", "engine", "tokens", *titles]]
    for case in cases:
        for engine, figures in case["engines"].items():
            row = [case["name"], case["notation"], engine]
            if figures["reason"]:
                rows.append([*row, "refused", *["–"] * len(titles)])
                continue
            times = figures["passes"][number]
            cells = [times[name] for name in ("mean", "p50", "p99", "worst", "advance_mean")]
            tokens = f"{figures['tokens']:,}"
            rows.append([*row, tokens, *map(duration, (figures["compile_us"], *cells))])
    return rows


def ratio_rows(cases: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return a row for each grammar: ours over the faster peer, in each pass."""
    rows = [["grammar", "notation", *_RATIOS, *(f"{name}, again" for name in _RATIOS)]]
    for case in cases:
        cells = [
            f"{ratios[name]['value']:.2f}" for ratios in case["ratios"][:2] for name in _RATIOS
        ]
        cells += ["–"] * (2 * len(_RATIOS) - len(cells))
        rows.append([case["name"], case["notation"], *cells])
    return rows


def refusals(cases: Sequence[dict[str, Any]]) -> list[str]:
    """Return a sentence for each grammar or text that an engine does not admit."""
    sentences = []
    for case in cases:
        for engine, figures in case["engines"].items():
            place = f"{engine}, {case['name']} ({case['notation']})"
            if figures["reason"]:
                sentences.append(f"{place}: {figures['reason'].splitlines()[0]}")
            for refusal in figures.get("refusals", ()):
                token = refusal["token"]
                what = "the end" if token is None else f"token {token!r}"
                error = f" ({refusal['error']})" if refusal["error"] else ""
                sentences.append(
                    f"{place}: text {refusal['text']}: {what} is not allowed "
                    f"after {refusal['after']} tokens{error}"
                )
    return sentences


def slowest_rows(
    cases: Sequence[dict[str, Any]], before: Callable[[str, str, int], str], engine: str = OURS
) -> list[list[str]]:
    """Return a row for each of an engine's slowest masks.

    Args:
        cases: The figures.
        before: Returns the end of a text before a token, from grammar, text and position.
        engine: The engine.
    """
    rows = [["grammar", "notation", "text", "token", "after", "mask"]]
    for case in cases:
        for mask in case["engines"].get(engine, {}).get("slowest", ()):
            text, position = mask["text"], mask["position"]
            after = repr(before(case["name"], text, position))
            place = [case["name"], case["notation"], text, str(position), after]
            rows.append([*place, duration(mask["microseconds"])])
    return rows


def _rounded(value: float) -> float:
    """Four significant digits: nothing is measured better."""
    return float(f"{value:.4g}")
