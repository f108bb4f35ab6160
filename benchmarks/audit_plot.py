"""Draw how many schemas each engine refuses and gets wrong."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from plot_style import STYLE

__all__ = ["draw_audit"]

_KINDS = {
    "right": ("right", "#0b6e4f"),
    "refused": ("refused", "#aaaaaa"),
    "over": ("a valid instance refused", "#3a5a9b"),
    "under": ("an invalid instance accepted", "#c1440e"),
}


def draw_audit(report: dict[str, Any]) -> Figure:
    """Draw a bar for each engine and kind of verdict, in percent of the schemas."""
    engines = report["engines"]
    total = report["environment"]["schemas"]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 0.7 * len(engines) + 1.2), layout="constrained")
        axes = figure.subplots()
        height = 0.8 / len(_KINDS)
        for place, (kind, (label, colour)) in enumerate(_KINDS.items()):
            shares = [100 * engine["schemas"].get(kind, 0) / total for engine in engines]
            rows = [row + height * place for row in range(len(engines))]
            bars = axes.barh(rows, shares, height, color=colour, label=label)
            axes.bar_label(bars, fmt="%.1f", padding=2, fontsize=7)
        middle = height * (len(_KINDS) - 1) / 2
        axes.set_yticks(
            [row + middle for row in range(len(engines))], [engine["engine"] for engine in engines]
        )
        axes.invert_yaxis()
        axes.set_xlabel("% of the schemas")
        figure.legend(loc="outside lower center", ncols=4, fontsize=8)
        return figure
