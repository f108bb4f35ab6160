"""Tables of the figures of drafts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tables import duration

__all__ = ["by_kind", "passes_rows", "speculation_rows"]

_TARGETS = {
    ("copied", "ours, off"): "<= 0.55",
    ("copied", "llguidance"): "<= 0.45",
    ("paraphrased", "ours, off"): "<= 1.02",
    ("free text", "ours, off"): "<= 1.02",
    ("free string", "ours, off"): "<= 1.02",
}
_PASS_TARGETS = {("copied", "ours"): ">= 3", ("draft model", "ours, 4 draft tokens"): ">= 2.5"}


def by_kind(
    figures: Sequence[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the ratios of times, and the counts of forward passes."""
    times = [figure for figure in figures if "against" in figure]
    return times, [figure for figure in figures if "passes" in figure]


def speculation_rows(figures: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return a row for each ratio of times: wall-clock, of the processor, after the first token."""
    rows = [
        [
            *("documents", "model", "stack", "beside", "time", "quartiles", "processor"),
            *("after first", "ours", "theirs", "target"),
        ]
    ]
    for figure in figures:
        target = _TARGETS.get((figure["set"], figure["against"]), "")
        rows.append(
            [
                _title(figure),
                figure["model"],
                figure.get("stack", "ours"),
                figure["against"],
                f"{figure['value']:.3f}",
                f"{figure['low']:.2f} to {figure['high']:.2f}",
                _value(figure, "processor"),
                _value(figure, "after_first"),
                duration(figure["ours"] * 1e6),
                duration(figure["theirs"] * 1e6),
                target if figure.get("schemas") != "new" else "",
            ]
        )
    return rows


def passes_rows(figures: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return a row for each stack and set of documents: tokens per forward pass, acceptance."""
    rows = [
        [
            *("documents", "model", "stack", "tokens", "forced", "passes", "tokens/pass"),
            *("sampled/pass", "drafted", "accepted", "copied", "target"),
        ]
    ]
    for figure in figures:
        share = figure.get("share_in_prompt")
        rows.append(
            [
                _title(figure),
                figure["model"],
                figure["stack"],
                f"{figure['tokens']:,}",
                f"{figure['forced']:,}",
                f"{figure['passes']:,}",
                _number(figure["tokens_per_pass"]),
                _number(figure["sampled_per_pass"]),
                f"{figure['drafted']:,}",
                "–" if figure["acceptance"] is None else f"{figure['acceptance']:.0%}",
                "–" if share is None else f"{share:.0%}",
                _PASS_TARGETS.get((figure["set"], figure["stack"]), ""),
            ]
        )
    return rows


def _title(figure: dict[str, Any]) -> str:
    parts = [figure["set"], *(figure[name] for name in ("rows", "schemas") if name in figure)]
    if "equal_texts" in figure:
        parts.append(f"{figure['equal_texts']} of {figure['of']} texts equal")
    if figure.get("sampling", "greedy") != "greedy":
        parts.append(figure["sampling"])
    return ", ".join(parts)


def _value(figure: dict[str, Any], kind: str) -> str:
    return f"{figure[kind]['value']:.3f}" if kind in figure else "–"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
