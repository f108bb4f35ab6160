"""Draw the plots of the documentation, and fill in its tables, from the files of figures.

Reads the files that ``write_up.TABLES`` names, ``calibration.json`` in
``docs/plots``, as far as they are there. The same figures give the same files.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from audit_plot import draw_audit
from calibration_plot import draw_calibration
from documents import STRING
from grammar_plot import draw_grammars
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from overlap import CPU_WORK, busiest, flights
from plot_style import STYLE, save
from tools_plot import draw_tools
from write_up import DOCUMENTS, TABLES, filled, slug, spans_of

__all__ = [
    "draw_between_masks",
    "draw_growth",
    "draw_memory",
    "draw_overhead",
    "draw_overlap",
    "main",
    "save",
]

_DOCS = Path(__file__).parents[1] / "docs"

_COLOURS = {
    "ours": "#0b6e4f",
    "llguidance": "#c1440e",
    "xgrammar": "#3a5a9b",
    "outlines": "#8a6d00",
}
_COSTS = {
    "compile": "#777777",
    "first_mask": "#3a5a9b",
    "mean_mask": "#0b6e4f",
    "slowest_mask": "#c1440e",
}
_PHASES = {
    "prompt": "#777777",
    "mask": "#c1440e",
    "advance": "#8a6d00",
    "sample": "#0b6e4f",
    "dispatch": "#3a5a9b",
    "wait": "#dddddd",
}
_PASSES = ("#7a8fbf", "#aab8d8")
_STEPS = 12
_SUBJECTS = {"strings": "-", "unlisted names": "--", "unique items": ":"}
_MILLISECONDS = [1, 2, 5, 10, 20, 50]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    parser = argparse.ArgumentParser(prog="plots.py", description=__doc__.splitlines()[0])
    parser.add_argument("--docs", type=Path, default=_DOCS, help="(%(default)s)")
    docs: Path = parser.parse_args(arguments).docs
    tables = {}
    for name in (*TABLES, "calibration"):
        file = docs / "plots" / f"{name}.json"
        if not file.exists():
            continue
        report = json.loads(file.read_text(encoding="utf-8"))
        for plot, figure in _drawings(name, report).items():
            save(figure, docs / "plots" / plot)
        if name in TABLES:
            tables[name] = TABLES[name](report)
    for document in (docs / name for name in DOCUMENTS if (docs / name).exists()):
        document.write_text(filled(document.read_text(encoding="utf-8"), tables), encoding="utf-8")
    return 0


def _drawings(name: str, report: dict[str, Any]) -> dict[str, Figure]:
    if name == "maskbench":
        return {
            f"between-masks-{slug(part['tokenizer'])}.svg": draw_between_masks(part)
            for part in report["tokenizers"]
        }
    if name == "memory":
        return {"memory.svg": draw_memory(report)}
    if name == "growth":
        return {"growth.svg": draw_growth(report)}
    if name == "calibration":
        return {"calibration.svg": draw_calibration(report)}
    if name == "overlap":
        return {"overlap.svg": draw_overlap(report)}
    if name == "end_to_end" and report["overhead"]:
        return {"end-to-end.svg": draw_overhead(report)}
    if name == "audit":
        return {"audit.svg": draw_audit(report)}
    if name == "grammars":
        return {"grammars.svg": draw_grammars(report)}
    if name == "tools":
        return {"tools.svg": draw_tools(report)}
    return {}


def draw_between_masks(part: dict[str, Any]) -> Figure:
    """Draw how many of the times between masks are below a time; finer the rarer the rest is."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.subplots()
        for engine in part["engines"]:
            for number, one_pass in enumerate(engine["passes"]):
                tokens = max(one_pass["tokens"], 2)
                points = [
                    # The maximum is drawn at the quantile of one in ``count``.
                    (max(time, 0.01), min(fraction, 1 - 1 / tokens))
                    for fraction, time in one_pass["between_masks_curve"]
                ]
                axes.plot(
                    [time for time, _ in points],
                    [-math.log10(1 - fraction) for _, fraction in points],
                    color=_COLOURS.get(engine["engine"], "#000000"),
                    linestyle="--" if number else "-",
                    label=engine["engine"] + (", second pass" if number else ""),
                )
        levels = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999]
        axes.set_yticks([-math.log10(1 - level) for level in levels])
        axes.set_yticklabels([f"{level * 100:g}%" for level in levels])
        axes.set_ylim(0, 5)
        axes.set_xscale("log")
        axes.set_xlabel("time between masks (mask and advance), µs")
        axes.set_ylabel("tokens that took less")
        axes.set_title(f"{part['tokenizer']}, {part['vocabulary_size']:,} tokens")
        axes.legend(loc="lower right")
        return figure


def draw_growth(report: dict[str, Any]) -> Figure:
    """Draw each family's costs by size, both on logarithmic axes."""
    families = report["families"]
    columns = 4
    rows = math.ceil(len(families) / columns)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(12, 2.5 * rows + 0.5), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, family in zip(grid.flat, families, strict=False):
            _draw_family(axes, family)
        for axes in list(grid.flat)[len(families) :]:
            axes.set_visible(False)
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        return figure


def _draw_family(axes: Axes, family: dict[str, Any]) -> None:
    for cost, colour in _COSTS.items():
        points = [(p["size"], p[cost]) for p in family["points"] if p.get(cost)]
        axes.plot(
            [size for size, _ in points],
            [time for _, time in points],
            color=colour,
            marker="o",
            markersize=2.5,
            label=cost.replace("_", " ") + ", µs",
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.minorticks_off()
    sizes = [point["size"] for point in family["points"]]
    ticks = sorted({sizes[0], sizes[len(sizes) // 2], sizes[-1]})
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_title(family["family"], fontsize=9)
    axes.set_xlabel(family["grows"], fontsize=8)


def draw_memory(report: dict[str, Any]) -> Figure:
    """Draw resident memory by schemas that were met, and by texts of machines that are kept."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        for curve in report["curves"]:
            unit = "texts" if curve["kept"] else "schemas"
            points = [p for p in curve["points"] if p["after"] in ("first mask", "cases")]
            label = curve["engine"] + (f", {curve['subject']}" if curve["kept"] else "")
            (right if curve["kept"] else left).plot(
                [point[unit] for point in points],
                [point["resident_bytes"] / 2**20 for point in points],
                color=_COLOURS.get(curve["engine"], "#000000"),
                linestyle=_SUBJECTS.get(curve["subject"], "-"),
                label=label,
            )
        for axes, unit, title in (
            (left, "schemas met, each dropped after its texts", "Different schemas"),
            (right, "different texts", "One machine that is kept"),
        ):
            axes.set_ylim(bottom=0)
            axes.set_xlabel(unit)
            axes.set_ylabel("resident memory, MiB")
            axes.set_title(f"{title}; {report['tokenizer']}")
            if axes.get_legend_handles_labels()[0]:
                axes.legend(fontsize=8)
        return figure


def draw_overhead(report: dict[str, Any]) -> Figure:
    """Draw the time that a constraint adds per token over the model's time per token."""
    with mpl.rc_context(STYLE):
        kinds = list(dict.fromkeys(point["kind"] for point in report["overhead"]))
        figure = Figure(figsize=(4.5 * len(kinds) + 1, 3.8), layout="constrained")
        grid = figure.subplots(1, len(kinds), sharey=True, squeeze=False)
        for axes, kind in zip(grid.flat, kinds, strict=True):
            points = [point for point in report["overhead"] if point["kind"] == kind]
            for stack in dict.fromkeys(point["stack"] for point in points):
                for schemas, line in (("new", "-"), ("known", "--")):
                    _draw_added(axes, points, stack, schemas, line)
            axes.axhline(0, color="#777777", linewidth=0.8)
            axes.set_xscale("log")
            axes.minorticks_off()
            axes.set_xticks(_MILLISECONDS, [f"{tick:g}" for tick in _MILLISECONDS])
            axes.set_xlabel("the model alone, ms a token")
            axes.set_title(f"{kind}s" if kind == STRING else f"{kind}-heavy documents")
            axes.legend(fontsize=8)
        figure.axes[0].set_ylabel("added by the constraint, ms a token")
        return figure


def _draw_added(
    axes: Axes, points: Sequence[dict[str, Any]], stack: str, schemas: str, line: str
) -> None:
    chosen = sorted(
        (p for p in points if p["stack"] == stack and p["schemas"] == schemas),
        key=lambda point: point["model_us"],
    )
    middle, low, high = (
        [point[name] / 1000 for point in chosen] for name in ("added_us", "low_us", "high_us")
    )
    axes.errorbar(
        [point["model_us"] / 1000 for point in chosen],
        middle,
        yerr=[
            [value - end for value, end in zip(middle, low, strict=True)],
            [end - value for value, end in zip(middle, high, strict=True)],
        ],
        color=_COLOURS.get(stack, "#000000"),
        linestyle=line,
        marker="o",
        markersize=3,
        elinewidth=0.7,
        label=f"{stack}, {schemas} schema",
    )


def draw_overlap(report: dict[str, Any]) -> Figure:
    """Draw the steps in a row that have the most to do for the CPU, beside the model's passes."""
    spans = spans_of(report)
    first = busiest(spans, _STEPS)
    chosen = [span for span in spans if first <= span.step < first + _STEPS]
    begin, end = (1000 * time for time in (chosen[0].started, chosen[-1].ended))
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(10, 2.6), layout="constrained")
        axes = figure.subplots()
        for phase, colour in _PHASES.items():
            bars = [
                (1000 * span.started - begin, 1000 * (span.ended - span.started))
                for span in chosen
                if span.name == phase
            ]
            axes.broken_barh(bars, (1.1, 0.8), color=colour, linewidth=0, label=phase)
        for number, started, ended in flights(spans):
            low, high = max(1000 * started, begin), min(1000 * ended, end)
            if low < high:
                # Every other pass below: the next one is dispatched before this one is read.
                place = (0.5, 0.4) if number % 2 else (0.1, 0.4)
                axes.broken_barh(
                    [(low - begin, high - low)], place, color=_PASSES[number % 2], linewidth=0
                )
        axes.set_yticks([0.5, 1.5], ["passes under way", "CPU"])
        axes.set_ylim(0, 2)
        axes.set_xlim(0, end - begin)
        axes.set_xlabel(f"ms, from step {first} of the request on")
        axes.set_title(
            f"{report['overlapped']:.1%} of the time for {' and '.join(CPU_WORK)} "
            "is within a pass (all steps)"
        )
        figure.legend(loc="outside lower center", ncols=len(_PHASES))
        return figure


if __name__ == "__main__":
    sys.exit(main())
