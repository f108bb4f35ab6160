"""Draw reliability diagrams: accuracy by confidence, one panel for each method."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from plot_style import STYLE

__all__ = ["draw_calibration"]

_TITLES = {
    "tokens": "product of token probabilities",
    "exact": "exact choices",
    "particles": "8 particles",
    "values": "all values",
    "values_per_token": "all values, per token",
}
_COLOURS = {"tokens": "#c1440e", "exact": "#0b6e4f", "particles": "#3a5a9b"}


def draw_calibration(report: dict[str, Any]) -> Figure:
    """Draw accuracy over confidence, in bins of equal mass."""
    methods = report["methods"]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.3 * len(methods) + 0.5, 3.6), layout="constrained")
        grid = figure.subplots(1, len(methods), sharey=True, squeeze=False)
        for axes, (name, found) in zip(grid.flat, methods.items(), strict=True):
            _draw_method(axes, name, found)
        figure.axes[0].set_ylabel("right answers")
        return figure


def _draw_method(axes: Axes, name: str, found: dict[str, Any]) -> None:
    bins = found["bins"]
    confidence = [each["confidence"] for each in bins]
    accuracy = [each["accuracy"] for each in bins]
    colour = _COLOURS.get(name, "#000000")
    axes.plot([0, 1], [0, 1], color="#777777", linewidth=0.8)
    axes.vlines(confidence, accuracy, confidence, color=colour, linewidth=0.8, alpha=0.5)
    axes.plot(confidence, accuracy, color=colour, marker="o", markersize=4)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_aspect("equal")
    axes.set_xlabel("confidence")
    error, low, high = found["calibration_error"]
    axes.set_title(
        f"{_TITLES.get(name, name)}\ncalibration error {error:.2f} ({low:.2f} to {high:.2f})",
        fontsize=9,
    )
