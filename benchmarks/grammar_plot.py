"""Draw the times of masks of grammars, by grammar and engine."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from plot_style import STYLE

__all__ = ["draw_grammars"]

_COLOURS = {"ours": "#0b6e4f", "llguidance": "#c1440e", "xgrammar": "#3a5a9b"}
_STATISTICS = {"p50": "|", "mean": "o", "worst": "x"}


def draw_grammars(report: dict[str, Any]) -> Figure:
    """Draw median, mean and worst of each grammar in the first pass, a panel for each notation."""
    with mpl.rc_context(STYLE):
        notations = list(dict.fromkeys(case["notation"] for case in report["cases"]))
        most = max(
            sum(case["notation"] == notation for case in report["cases"]) for notation in notations
        )
        figure = Figure(figsize=(10, 0.42 * most + 1.6), layout="constrained")
        grid = figure.subplots(1, len(notations), sharex=True, squeeze=False)
        for axes, notation in zip(grid.flat, notations, strict=True):
            cases = [case for case in report["cases"] if case["notation"] == notation]
            _draw_notation(axes, cases)
            axes.set_title(notation)
        handles, labels = grid[0][0].get_legend_handles_labels()
        unique = dict(zip(labels, handles, strict=True))
        figure.legend(
            unique.values(), unique.keys(), loc="outside lower center", ncols=3, fontsize=8
        )
        return figure


def _draw_notation(axes: Axes, cases: list[dict[str, Any]]) -> None:
    engines = list(dict.fromkeys(engine for case in cases for engine in case["engines"]))
    for place, engine in enumerate(engines):
        offset = 0.22 * (place - (len(engines) - 1) / 2)
        for statistic, marker in _STATISTICS.items():
            points = [
                (case["engines"][engine]["passes"][0][statistic], row + offset)
                for row, case in enumerate(cases)
                if case["engines"].get(engine, {}).get("passes")
            ]
            axes.plot(
                [time for time, _ in points],
                [height for _, height in points],
                color=_COLOURS.get(engine, "#000000"),
                marker=marker,
                markersize=4,
                linestyle="",
                label=f"{engine}, {statistic}",
            )
    axes.set_xscale("log")
    axes.set_xlabel("µs, first pass")
    axes.set_yticks(range(len(cases)), [case["name"] for case in cases])
    axes.set_ylim(len(cases) - 0.5, -0.5)
