"""Draw the times of sets of tools, by number of tools and engine."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from plot_style import STYLE

__all__ = ["draw_tools"]

_COLOURS = {"ours": "#0b6e4f", "llguidance": "#c1440e", "xgrammar": "#3a5a9b"}
_PANELS = {"cold": "new set of tools", "exchanged": "one tool exchanged"}


def draw_tools(report: dict[str, Any]) -> Figure:
    """Draw the time to the first mask by the number of tools, new and known ones."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        grid = figure.subplots(1, len(_PANELS), sharey=True)
        counts = [each["tools"] for each in report["sets"]]
        for axes, (time, title) in zip(grid, _PANELS.items(), strict=True):
            for engine in dict.fromkeys(
                name for each in report["sets"] for name in each["engines"]
            ):
                points = [
                    (each["tools"], each["engines"][engine][time] / 1000)
                    for each in report["sets"]
                    if each["engines"].get(engine, {}).get(time)
                ]
                axes.plot(
                    [count for count, _ in points],
                    [milliseconds for _, milliseconds in points],
                    color=_COLOURS.get(engine, "#000000"),
                    marker="o",
                    markersize=3,
                    label=engine,
                )
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.minorticks_off()
            axes.set_xticks(counts, [f"{count:,}" for count in counts])
            axes.set_xlabel("tools")
            axes.set_title(title)
        grid[0].set_ylabel("time to the first mask, ms")
        grid[0].legend(loc="upper left")
        return figure
