"""Tables of the end-to-end figures, with the targets that some of them have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from documents import STRING
from speculation_tables import by_kind, passes_rows, speculation_rows
from tables import aligned, duration

__all__ = ["figure_rows", "left_out", "missed_targets", "overhead_rows", "render"]

_TARGETS = {
    ("free strings", "mlx-lm"): ">= 0.97",
    ("extraction", "llguidance"): "<= 0.7",
    ("extraction", "outlines"): "<= 0.6",
    ("first token, new schema", "mlx-lm"): "<= 1.05",
    ("first token, 80% shared prefix", "ours, cold"): "<= 0.35",
    ("8 requests together", "ours, 8 x single"): "<= 0.5",
    ("whole within max_tokens", ""): "= 1",
}


def figure_rows(figures: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return a row for each figure: ratio, the quartiles of its repeats, both values, target."""
    rows = [["figure", "model", "ours beside", "ratio", "quartiles", "ours", "theirs", "target"]]
    for figure in figures:
        target = _TARGETS.get((figure["figure"], figure["against"]), "")
        # Of documents all together have the target, met for the first time.
        is_part = "schemas" in figure and (figure["kind"], figure["schemas"]) != ("all", "new")
        quartiles = f"{figure['low']:.2f} to {figure['high']:.2f}" if "low" in figure else "–"
        rows.append(
            [
                _title(figure),
                figure["model"],
                figure["against"] or "–",
                f"{figure['value']:.3f}",
                quartiles,
                _value(figure, "ours"),
                _value(figure, "theirs"),
                "" if is_part else target,
            ]
        )
    return rows


def missed_targets(figures: Sequence[dict[str, Any]]) -> list[str]:
    """Return a sentence that names the figures which miss their target; nothing if none does."""
    header, *rows = figure_rows(figures)
    of, model, beside, ratio, target = (
        header.index(name) for name in ("figure", "model", "ours beside", "ratio", "target")
    )
    missed = [
        f"{row[of]} ({row[model]}, beside {row[beside]}: {row[ratio]}, target {row[target]})"
        for row in rows
        if row[target] and not _meets(float(row[ratio]), row[target])
    ]
    return [f"Targets missed: {'; '.join(missed)}."] if missed else []


def _meets(ratio: float, target: str) -> bool:
    sign, bound = target.split()
    return {"<=": ratio <= float(bound), ">=": ratio >= float(bound)}.get(
        sign, ratio == float(bound)
    )


def overhead_rows(overhead: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return rows of the added time per token, by model, stack, kind and pass."""
    rows = [["model", "stack", "documents", "schemas", "model a token", "added", "quartiles"]]
    for point in overhead:
        quartiles = [_signed(point[name]) for name in ("low_us", "high_us")]
        rows.append(
            [
                point["model"],
                point["stack"],
                point["kind"] if point["kind"] == STRING else f"{point['kind']}-heavy",
                point["schemas"],
                duration(point["model_us"]),
                _signed(point["added_us"]),
                " to ".join(quartiles),
            ]
        )
    return rows


def left_out(report: dict[str, Any]) -> list[str]:
    """Say which figures there are none of, and which documents a stack did not write."""
    sentences = [f"Not measured: {skip['figure']}, {skip['reason']}." for skip in report["skipped"]]
    for stack in dict.fromkeys(failure["stack"] for failure in report["failures"]):
        names = {f["document"]: None for f in report["failures"] if f["stack"] == stack}
        sentences.append(f"Refused or written otherwise by {stack}: {', '.join(names)}.")
    return list(dict.fromkeys(sentences))


def render(report: dict[str, Any]) -> str:
    """Return all of it for a terminal."""
    blocks = []
    if report["figures"]:
        blocks.append(aligned(figure_rows(report["figures"]), texts=3))
    if report["overhead"]:
        blocks.append(aligned(overhead_rows(report["overhead"]), texts=4))
    if report["speculation"]:
        times, passes = by_kind(report["speculation"])
        blocks.append(aligned(speculation_rows(times), texts=4))
        blocks.append(aligned(passes_rows(passes), texts=3))
    reasons = [
        f"  {failure['stack']}, {failure['failure']}, {failure['document']}: {failure['reason']}"
        for failure in report["failures"]
    ]
    return "\n\n".join([*blocks, "\n".join([*left_out(report), *reasons])])


def _title(figure: dict[str, Any]) -> str:
    title = str(figure["figure"])
    if "schemas" in figure:
        kind = "" if figure["kind"] == "all" else f" {figure['kind']}-heavy"
        title += f", {figure['documents']} of {figure['of']}{kind} schemas, {figure['schemas']}"
    title += f", {figure['kind']}, {figure['way']}" if "way" in figure else ""
    return title + (f", {figure['sampling']}" if "sampling" in figure else "")


def _value(figure: dict[str, Any], name: str) -> str:
    if name not in figure:
        counted = name == "ours" and "whole" in figure
        return f"{figure['whole']:,} of {figure['of']:,}" if counted else "–"
    if figure["unit"] == "s":
        return duration(figure[name] * 1e6)
    return f"{figure[name]:.4g} {figure['unit']}"


def _signed(microseconds: float) -> str:
    return ("-" if microseconds < 0 else "") + duration(abs(microseconds))
