"""From results to figures, and from figures to a table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from figures import PERCENTILES, distribution, quantile_curve
from supervisor import EngineRun
from tables import aligned
from worker import CaseResult

__all__ = ["common_positions", "engine_figures", "notes", "render_report"]

_TIMES = ("compile", "first_mask", "time_to_first_mask", "between_masks", "mask", "advance")
_OUTCOMES = ("right", "refused", "valid_rejected", "invalid_accepted", "crashed", "timed_out")


def engine_figures(
    run: EngineRun, positions: Collection[int] | None = None, of: int | None = None
) -> dict[str, Any]:
    """All figures of an engine; times in microseconds, memory in bytes.

    ``positions`` are the cases to count (all; a few of them get no curves), ``of`` is the number of
    cases in the whole sample.
    """
    passes = [
        [
            result
            for position, result in results.items()
            if positions is None or position in positions
        ]
        for results in run.passes
    ]
    peaks = [max(r.peak_bytes for r in results.values()) for results in run.passes]
    return {
        "engine": run.engine,
        "version": run.version,
        "sample": len(run.first),
        "of": len(run.first) if of is None else of,
        "case_seconds": run.case_seconds,
        "setup_seconds": run.setup_seconds,
        "setup_peak_bytes": run.setup_peak_bytes,
        "peak_bytes": peaks[0],
        "kept_peak_bytes": peaks[1] if len(peaks) > 1 else None,
        "restarts": run.restarts,
        "passes": [_pass_figures(results, curve=positions is None) for results in passes],
    }


def common_positions(runs: Sequence[EngineRun]) -> set[int]:
    """Cases that every engine was given and got right, so that all took the same tokens."""
    right = [
        {i for i, r in run.first.items() if r.outcome == "done" and not r.wrong} for run in runs
    ]
    return set.intersection(*right) if right else set()


def _pass_figures(results: Sequence[CaseResult], *, curve: bool) -> dict[str, Any]:
    done = [result for result in results if result.outcome == "done"]
    return {
        "schemas": len(results),
        "right": sum(not result.wrong for result in done),
        "refused": sum(result.outcome == "refused" for result in results),
        "crashed": sum(result.outcome == "crashed" for result in results),
        "timed_out": sum(result.outcome == "timed out" for result in results),
        "valid_rejected": sum(any(v.valid for v in result.wrong) for result in done),
        "invalid_accepted": sum(any(not v.valid for v in result.wrong) for result in done),
        # Right as soon as they are taken: nothing is put through their masks.
        "right_without_instances": sum(not result.mask_ns for result in done),
        "skipped_instances": sum(result.skipped for result in results),
        "tokens": sum(len(result.advance_ns) for result in results),
        "masks": sum(len(result.mask_ns) for result in results),
        "microseconds": {kind: distribution(_times(results, kind)) for kind in _TIMES},
        "between_masks_curve": quantile_curve(_times(results, "between_masks")) if curve else [],
        "slowest_mask": _slowest_mask(results),
        "longest_collection": max((r.collection_ns for r in results), default=0) / 1000,
    }


def _times(results: Iterable[CaseResult], kind: str) -> Iterable[int]:
    match kind:
        case "compile":
            return (r.compile_ns for r in results if r.compile_ns is not None)
        case "first_mask":
            return (r.first_mask_ns for r in results if r.first_mask_ns is not None)
        case "time_to_first_mask":
            return (
                r.compile_ns + r.first_mask_ns
                for r in results
                if r.compile_ns is not None and r.first_mask_ns is not None
            )
        case "between_masks":
            return (ns for r in results for ns in r.between_ns)
        case "mask":
            return (ns for r in results for ns in r.mask_ns)
    return (ns for r in results for ns in r.advance_ns)


def _slowest_mask(results: Sequence[CaseResult]) -> dict[str, Any] | None:
    """The slowest mask: its time, its schema and its index (from 0)."""
    measured = [result for result in results if result.mask_ns]
    if not measured:
        return None
    worst = max(measured, key=lambda result: max(result.mask_ns))
    slowest = max(worst.mask_ns)
    return {
        "microseconds": slowest / 1000,
        "schema": worst.name,
        "mask": worst.mask_ns.index(slowest),
    }


def notes(engines: Sequence[dict[str, Any]]) -> list[str]:
    """Print notes on the figures: smaller samples, cases that timed out."""
    sentences = []
    for engine in engines:
        name = engine["engine"]
        if engine["sample"] < engine["of"]:
            sentences.append(
                f"{name} was given {engine['sample']} of the {engine['of']} schemas, by chance."
            )
        late = engine["passes"][0]["timed_out"]
        if late:
            sentences.append(
                f"{name} took more than {engine['case_seconds']:g} s for {late} schemas; they were "
                "stopped there, and their times are not among the figures."
            )
    return sentences


def render_report(report: dict[str, Any]) -> str:
    """Plain text: for each tokenizer the outcomes, the times, and those of the common cases."""
    return "\n\n\n".join(_render_tokenizer(part) for part in report["tokenizers"])


def _render_tokenizer(part: dict[str, Any]) -> str:
    engines, common = part["engines"], part["common"]
    blocks = [
        f"{part['tokenizer']}, {part['vocabulary_size']} tokens",
        aligned(_outcome_rows(engines), texts=1),
        aligned(_time_rows(engines), texts=2),
        aligned(_slowest_rows(engines), texts=1),
        *notes(engines),
    ]
    if len(engines) > 1 and common["schemas"]:
        blocks += [
            f"The {common['schemas']} schemas that every engine was given and got right:",
            aligned(_time_rows(common["engines"]), texts=2),
        ]
    return "\n\n".join(blocks)


def _outcome_rows(engines: Sequence[dict[str, Any]]) -> list[list[str]]:
    titles = [name.replace("_", " ") for name in _OUTCOMES]
    rows = [["engine", "pass", "schemas", *titles, "tokens", "peak MiB", "set-up MiB"]]
    for engine in engines:
        for number, one_pass in enumerate(engine["passes"], start=1):
            peak = engine["peak_bytes"] if number == 1 else engine["kept_peak_bytes"]
            rows.append(
                [f"{engine['engine']} {engine['version']}", str(number), str(one_pass["schemas"])]
                + [str(one_pass[name]) for name in _OUTCOMES]
                + [str(one_pass["tokens"])]
                + [f"{size / 2**20:.0f}" for size in (peak, engine["setup_peak_bytes"])]
            )
    return rows


def _time_rows(engines: Sequence[dict[str, Any]]) -> list[list[str]]:
    columns = ("mean", *PERCENTILES, "max")
    rows = [["µs", "engine", "pass", *columns]]
    for kind in _TIMES:
        for engine in engines:
            for number, one_pass in enumerate(engine["passes"], start=1):
                row = one_pass["microseconds"][kind]
                if row is not None:
                    rows.append(
                        [kind.replace("_", " "), engine["engine"], str(number)]
                        + [f"{row[column]:.1f}" for column in columns]
                    )
    return rows


def _slowest_rows(engines: Sequence[dict[str, Any]]) -> list[list[str]]:
    rows = [["slowest mask", "pass", "ms", "mask", "schema", "longest garbage collection, ms"]]
    for engine in engines:
        for number, one_pass in enumerate(engine["passes"], start=1):
            worst = one_pass["slowest_mask"]
            if worst is not None:
                milliseconds = f"{worst['microseconds'] / 1000:.2f}"
                place = [str(worst["mask"]), worst["schema"]]
                collection = f"{one_pass['longest_collection'] / 1000:.2f}"
                rows.append([engine["engine"], str(number), milliseconds, *place, collection])
    return rows
