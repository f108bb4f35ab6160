"""Draw reliability diagrams: accuracy by confidence, for each method and kind of value."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from plot_style import STYLE

__all__ = ["draw_calibration"]

_TITLES = {
    "values": "confidence",
    "values_per_token": "confidence per token",
    "exact": "exact choices",
}
_COLOURS = {"values": "#c1440e", "values_per_token": "#3a5a9b", "exact": "#0b6e4f"}
_KINDS = {
    "string": "strings",
    "number": "numbers",
    "integer": "integers up to 200",
    "boolean": "Booleans",
    "enum": "enumerations",
}


def draw_calibration(report: dict[str, Any]) -> Figure:
    """Draw accuracy over confidence, in bins of equal mass."""
    methods = report["methods"]
    size = (2.2 * len(_KINDS) + 0.5, 2.5 * len(methods))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(methods), len(_KINDS), sharex=True, sharey=True, squeeze=False)
        for row, (name, found) in zip(grid, methods.items(), strict=True):
            row[0].set_ylabel(f"{_TITLES[name]}\nright answers")
            for axes, kind in zip(row, _KINDS, strict=True):
                if kind in found["kinds"]:
                    _draw_kind(axes, name, found["kinds"][kind])
                else:
                    axes.set_axis_off()
        for axes, title in zip(grid[0], _KINDS.values(), strict=True):
            axes.set_title(f"{title}\n{axes.get_title()}", fontsize=9)
        return figure


def _draw_kind(axes: Axes, method: str, found: dict[str, Any]) -> None:
    bins = found["bins"]
    confidence = [each["confidence"] for each in bins]
    accuracy = [each["accuracy"] for each in bins]
    colour = _COLOURS.get(method, "#000000")
    axes.plot([0, 1], [0, 1], color="#777777", linewidth=0.8)
    axes.vlines(confidence, accuracy, confidence, color=colour, linewidth=0.8, alpha=0.5)
    axes.plot(confidence, accuracy, color=colour, marker="o", markersize=3)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_aspect("equal")
    axes.set_xlabel("confidence")
    auroc = "" if found["auroc"] is None else f", AUROC {found['auroc'][0]:.2f}"
    axes.set_title(f"{found['values']} values{auroc}", fontsize=9)
