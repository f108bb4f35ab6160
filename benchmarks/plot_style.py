"""The style of plots, and how they are written to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

__all__ = ["STYLE", "save"]

STYLE: Any = {
    # Nothing of a drawing's file depends on when or how often it is drawn.
    "svg.hashsalt": "proxy-engine",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
}


def save(figure: Figure, path: Path) -> None:
    """Write an SVG that is the same each time."""
    with mpl.rc_context(STYLE):
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
