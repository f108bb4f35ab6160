"""Draw the distance to the exact distribution by number of particles, one panel for each case."""

from __future__ import annotations

import math
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from plot_style import STYLE

__all__ = ["draw_faithfulness"]

_COLUMNS = 4
_COLOURS = {"simulated": "#0b6e4f", "engine": "#3a5a9b"}
_LABELS = {"simulated": "particles, simulated", "engine": "requests to the engine"}
_LEVEL = 0.01


def draw_faithfulness(report: dict[str, Any]) -> Figure:
    """Draw total variation distances, masking's exact one, and that of as many exact draws."""
    cases = [*report["distance"], *report.get("animals", ())]
    columns = min(_COLUMNS, len(cases))
    rows = math.ceil(len(cases) / columns)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.2 * columns, 2.7 * rows + 0.5), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
        for axes, case in zip(grid.flat, cases, strict=False):
            _draw_case(axes, case)
        for axes in list(grid.flat)[len(cases) :]:
            axes.set_visible(False)
        for line in grid:
            line[0].set_ylabel("total variation distance")
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        return figure


def _draw_case(axes: Axes, case: dict[str, Any]) -> None:
    axes.axhline(case["masking"], color="#c1440e", linestyle="--", label="masking, exact")
    axes.axhline(case["noise"], color="#777777", linestyle=":", label="exact draws")
    for kind, colour in _COLOURS.items():
        points = case[kind]
        numbers = [point["particles"] for point in points]
        distances = [point["distance"] for point in points]
        line = "-" if kind == "simulated" else ""
        axes.plot(numbers, distances, line, color=colour, label=_LABELS[kind])
        for point in points:
            # Open: the chi-square test rejects that the draws come from the exact distribution.
            axes.plot(
                point["particles"],
                point["distance"],
                marker="o" if kind == "simulated" else "s",
                markersize=4,
                color=colour,
                fillstyle="full" if point["p_value"] >= _LEVEL else "none",
            )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("particles")
    axes.set_title(f"{case['case']} ({case['texts']:,} answers)", fontsize=9)
