"""Tables of the figures of questions about images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["embedding_rows", "question_rows"]

_QUESTIONS = ("first question, first token", "second question, first token")
_FIRST = "first question"
_FURTHER = "second question, further tokens"


def question_rows(figures: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return the times of two questions about an image, a column for each stack."""
    found = {
        (figure["figure"], figure["against"]): figure
        for figure in figures
        if figure["figure"] in (*_QUESTIONS, _FURTHER) and figure["against"] != _FIRST
    }
    peers = list(dict.fromkeys(peer for _, peer in found))
    rows = [["figure", "this engine", *peers]]
    for name in (*_QUESTIONS, _FURTHER):
        beside = [found.get((name, peer)) for peer in peers]
        ours = next((figure for figure in beside if figure is not None), None)
        if ours is None:
            continue
        times = ["–" if figure is None else _milliseconds(figure["theirs"]) for figure in beside]
        rows.append([name, _milliseconds(ours["ours"]), *times])
    ratios = {
        figure["stack"]: _ratio(figure)
        for figure in figures
        if figure["figure"] == "second question, first token" and figure["against"] == _FIRST
    }
    if ratios:
        cells = [ratios.get(name, "–") for name in ("ours", *peers)]
        rows.append(["second question over the first", *cells])
    return rows


def embedding_rows(figures: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return the other ratios, with their quartiles."""
    rows = [["figure", "over", "ratio", "quartiles"]]
    rows += [
        [figure["figure"], figure["against"], *_ratio(figure).removesuffix(")").split(" (")]
        for figure in figures
        if "question" not in figure["figure"]
    ]
    return rows


def _ratio(figure: dict[str, Any]) -> str:
    return f"{figure['value']:.3f} ({figure['low']:.3f} to {figure['high']:.3f})"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms"
