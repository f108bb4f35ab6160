"""From results to figures, and from figures to a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from supervisor import EngineRun
from worker import CaseResult

__all__ = ["engine_figures", "render_table"]

_PERCENTILES = {"p25": 25, "p50": 50, "p75": 75, "p90": 90, "p99": 99, "p99.9": 99.9}


def engine_figures(run: EngineRun) -> dict[str, Any]:
    """All figures of an engine; times in microseconds, memory in bytes."""
    return {
        "engine": run.engine,
        "version": run.version,
        "setup_seconds": run.setup_seconds,
        "setup_peak_bytes": run.setup_peak_bytes,
        "peak_bytes": run.peak_bytes,
        "restarts": run.restarts,
        "passes": [_pass_figures(results) for results in run.passes],
    }


def _pass_figures(results: Sequence[CaseResult]) -> dict[str, Any]:
    done = [result for result in results if result.outcome == "done"]
    return {
        "schemas": len(results),
        "right": sum(not result.wrong for result in done),
        "refused": sum(result.outcome == "refused" for result in results),
        "crashed": sum(result.outcome == "crashed" for result in results),
        "valid_rejected": sum(any(v.valid for v in result.wrong) for result in done),
        "invalid_accepted": sum(any(not v.valid for v in result.wrong) for result in done),
        # Right as soon as they are taken: nothing is put through their masks.
        "right_without_instances": sum(not result.mask_ns for result in done),
        "skipped_instances": sum(result.skipped for result in results),
        "tokens": sum(len(result.advance_ns) for result in results),
        "masks": sum(len(result.mask_ns) for result in results),
        "microseconds": {
            "compile": _distribution(r.compile_ns for r in results if r.compile_ns is not None),
            "first_mask": _distribution(
                r.first_mask_ns for r in results if r.first_mask_ns is not None
            ),
            "time_to_first_mask": _distribution(
                r.compile_ns + r.first_mask_ns
                for r in results
                if r.compile_ns is not None and r.first_mask_ns is not None
            ),
            "between_masks": _distribution(ns for r in results for ns in r.between_ns),
            "mask": _distribution(ns for r in results for ns in r.mask_ns),
            "advance": _distribution(ns for r in results for ns in r.advance_ns),
        },
    }


def _distribution(nanoseconds: Iterable[int]) -> dict[str, float] | None:
    values = np.fromiter(nanoseconds, dtype=np.float64) / 1000
    if not values.size:
        return None
    figures = {"mean": float(values.mean())}
    for name, percentile in _PERCENTILES.items():
        figures[name] = float(np.percentile(values, percentile))
    return {**figures, "max": float(values.max())}


_OUTCOMES = ("right", "refused", "valid_rejected", "invalid_accepted", "crashed")
_TIMES = ("compile", "first_mask", "time_to_first_mask", "between_masks", "mask", "advance")


def render_table(figures: Sequence[dict[str, Any]]) -> str:
    """Plain text: outcomes for each engine and pass, then the times."""
    titles = [name.replace("_", " ") for name in _OUTCOMES]
    outcomes = [["engine", "pass", "schemas", *titles, "tokens", "peak MiB", "set-up MiB"]]
    times = [["µs", "engine", "pass", "mean", *_PERCENTILES, "max"]]
    for engine in figures:
        for number, one_pass in enumerate(engine["passes"], start=1):
            outcomes.append(
                [f"{engine['engine']} {engine['version']}", str(number), str(one_pass["schemas"])]
                + [str(one_pass[name]) for name in _OUTCOMES]
                + [str(one_pass["tokens"])]
                + [f"{engine[key] / 2**20:.0f}" for key in ("peak_bytes", "setup_peak_bytes")]
            )
    for kind in _TIMES:
        for engine in figures:
            for number, one_pass in enumerate(engine["passes"], start=1):
                row = one_pass["microseconds"][kind]
                if row is not None:
                    numbers = [row[name] for name in ("mean", *_PERCENTILES, "max")]
                    times.append(
                        [kind.replace("_", " "), engine["engine"], str(number)]
                        + [f"{number:.1f}" for number in numbers]
                    )
    return _align(outcomes, texts=1) + "\n\n" + _align(times, texts=2)


def _align(rows: Sequence[Sequence[str]], texts: int) -> str:
    """Line up columns: the first ``texts`` of them to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if position < texts else cell.rjust(width)
            for position, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
