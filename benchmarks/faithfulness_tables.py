"""Tables of the faithfulness benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from faithfulness_gain import COMPARED, GAIN_TASKS, gain_of
from quality_scores import Interval, interval
from tables import markdown

__all__ = ["cost_rows", "distance_rows", "evidence_rows", "gain_rows", "likeliest_rows", "render"]


def render(report: Mapping[str, Any]) -> str:
    """Return all tables in Markdown."""
    blocks = []
    cases = [*report.get("distance", ()), *report.get("animals", ())]
    if cases:
        draws = cases[0]["simulated"][0]["draws"]
        blocks.append(
            f"Total variation distance of {draws:,} draws to the exact distribution, by number of "
            "particles; bold where the chi-square test does not reject at 1%"
        )
        blocks.append(markdown(distance_rows(cases, "simulated"), texts=1))
        blocks.append("Requests to the engine, likewise")
        blocks.append(markdown(distance_rows(cases, "engine"), texts=1))
        blocks.append("Estimated evidence over the exact one, with its standard error")
        blocks.append(markdown(evidence_rows(cases), texts=1))
    for case in report.get("animals", ()):
        blocks.append(f"{case['case']}: exact probabilities, and those of masking")
        blocks.append(markdown(likeliest_rows(case), texts=1))
    if report.get("cost"):
        blocks.append("Time of 8 particles over that of one answer, with quartiles")
        blocks.append(markdown(cost_rows(report["cost"]), texts=1))
    if report.get("gain"):
        blocks.append("Expected exact match in %, with 95% intervals; below, differences to plain")
        blocks.append(markdown(gain_rows(report["gain"]), texts=1))
    return "\n\n".join(blocks)


def distance_rows(cases: Sequence[Mapping[str, Any]], kind: str) -> list[list[str]]:
    """Return a row for each case: distances by number of particles, and of exact draws."""
    counts = _counts(cases, kind)
    noise = "noise" if kind == "simulated" else "engine_noise"
    rows = [["case", "answers", "masking", *map(str, counts), "exact draws"]]
    for case in cases:
        points = {point["particles"]: point for point in case[kind]}
        if points:
            cells = [_distance(points[count]) if count in points else "–" for count in counts]
            head = [case["case"], f"{case['texts']:,}", f"{case['masking']:.3f}"]
            rows.append([*head, *cells, f"{case[noise]:.3f}"])
    return rows


def evidence_rows(cases: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return a row for each case: the mean ratio by number of particles."""
    counts = _counts(cases, "simulated")
    rows = [["case", *map(str, counts)]]
    for case in cases:
        points = {point["particles"]: point for point in case["simulated"]}
        cells = [
            f"{points[count]['evidence']:.3f} ± {points[count]['evidence_error']:.3f}"
            if count in points
            else "–"
            for count in counts
        ]
        rows.append([case["case"], *cells])
    return rows


def likeliest_rows(case: Mapping[str, Any]) -> list[list[str]]:
    """Return a row for each of the likeliest answers."""
    rows = [["answer", "exact", "masking"]]
    for one in case["likeliest"]:
        rows.append([one["text"].strip(), f"{one['exact']:.1%}", f"{one['masking']:.1%}"])
    return rows


def cost_rows(costs: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return a row for each shape of answer."""
    rows = [["answer", "time", "processor time", "all times", "tokens of 1", "longest of 8"]]
    for cost in costs:
        tokens = cost["tokens"]
        rows.append(
            [
                cost["shape"],
                _ratio(cost["wall"]),
                _ratio(cost["cpu"]),
                f"{cost['total']:.2f}",
                f"{tokens['one']:.0f}",
                f"{tokens['particles']:.0f}",
            ]
        )
    return rows


def gain_rows(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return a row for each way of sampling, and one for its difference to plain sampling."""
    tasks = [task for task in GAIN_TASKS if any(row["task"] == task for row in rows)]
    numbers = {task: sum(row["task"] == task for row in rows) for task in tasks}
    table = [["", *(f"{task} ({numbers[task]})" for task in tasks)]]
    for arm in COMPARED:
        found = [interval([row[arm] for row in rows if row["task"] == task]) for task in tasks]
        table.append([_ARMS[arm], *map(_percent, found)])
    for arm in COMPARED[1:]:
        differences = [gain_of(rows, task, arm) for task in tasks]
        table.append([f"{_ARMS[arm]}, difference", *map(_percent, differences)])
    return table


_LEVEL = 0.01

_ARMS = {
    "plain": "one sample",
    "best": "the likeliest of 8 samples",
    "particles": "8 particles",
}


def _counts(cases: Sequence[Mapping[str, Any]], kind: str) -> list[int]:
    return sorted({point["particles"] for case in cases for point in case[kind]})


def _distance(point: Mapping[str, Any]) -> str:
    text = f"{point['distance']:.3f}"
    return f"**{text}**" if point["p_value"] >= _LEVEL else text


def _ratio(ratio: Mapping[str, Any]) -> str:
    return f"{ratio['value']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"


def _percent(found: Interval) -> str:
    return f"{100 * found.value:.1f} ({100 * found.low:.1f} to {100 * found.high:.1f})"
