"""Scored answers of the tool-call benchmark, their figures and tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quality_scores import Interval, interval
from tables import markdown

__all__ = ["CATEGORIES", "Answer", "figures", "read_answers", "rows", "tables"]

CATEGORIES = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    "live_simple",
    "live_multiple",
    "live_irrelevance",
)

_WITH_CALLS, _WITHOUT = "all with calls", "all without"
_MEASURES: dict[str, Callable[[Answer], bool]] = {
    "valid": lambda answer: answer.valid,
    "name": lambda answer: answer.name,
    "right": lambda answer: answer.right,
}
_REFERENCES = ("mlx-lm-auto", "llguidance-auto", "llguidance-required")


@dataclass(frozen=True)
class Answer:
    """A scored answer.

    Attributes:
        model: The model's name.
        arm: A name of ``bfcl.ARMS``.
        case: The name of the case.
        category: Its category.
        calls: Name and arguments of each call.
        valid: Whether all calls name a function and match its schema, and all text that begins as a
            call is one.
        name: Whether the right functions are called, or none where none helps.
        right: Whether the arguments are right, too.
        seconds: Time of the batch divided by its cases, without that of the prompts.
        passes: Forward passes of the answer.
        text: The output.
        error: The message of the error.
    """

    model: str
    arm: str
    case: str
    category: str
    calls: list[dict[str, Any]] = field(default_factory=list)
    valid: bool = False
    name: bool = False
    right: bool = False
    seconds: float = 0.0
    passes: int = 0
    text: str = ""
    error: str = ""


def read_answers(file: Path) -> dict[tuple[str, str, str], Answer]:
    """Return the answers of a file by model, arm and case."""
    answers = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            answer = Answer(**json.loads(line))
        except ValueError:
            continue  # The incomplete last line of an interrupted run.
        answers[answer.model, answer.arm, answer.case] = answer
    return answers


def figures(answers: Iterable[Answer], arms: Sequence[str]) -> list[dict[str, Any]]:
    """Return the figures of each category and arm, then of all categories together.

    Shares have 95% bootstrap intervals: share, low, high. Differences are those of right answers to
    the same cases.
    """
    groups: dict[tuple[str, str], dict[str, Answer]] = {}
    for answer in answers:
        pool = _WITHOUT if "irrelevance" in answer.category else _WITH_CALLS
        for category in (answer.category, pool):
            groups.setdefault((category, answer.arm), {})[answer.case] = answer
    found = []
    for category in (*CATEGORIES, _WITH_CALLS, _WITHOUT):
        for arm in arms:
            group = groups.get((category, arm))
            if group is None:
                continue
            count = len(group)
            differences = {
                reference: _difference(group, groups[category, reference])
                for reference in _REFERENCES
                if reference != arm and (category, reference) in groups
            }
            found.append(
                {
                    "category": category,
                    "arm": arm,
                    "cases": count,
                    **{
                        name: _rounded(interval([float(measure(each)) for each in group.values()]))
                        for name, measure in _MEASURES.items()
                    },
                    "calls": sum(bool(each.calls) for each in group.values()),
                    "seconds": round(sum(each.seconds for each in group.values()) / count, 2),
                    "passes": round(sum(each.passes for each in group.values()) / count, 1),
                    "differences": {key: each for key, each in differences.items() if each},
                }
            )
    return found


def _difference(group: dict[str, Answer], reference: dict[str, Answer]) -> list[float] | None:
    pairs = [(group[case].right, reference[case].right) for case in group if case in reference]
    if not pairs:
        return None
    return _rounded(interval([float(mine) - float(theirs) for mine, theirs in pairs]))


def _rounded(share: Interval) -> list[float]:
    return [round(value, 4) for value in (share.value, share.low, share.high)]


def rows(groups: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return a row for each category and arm, shares in % with their intervals."""
    table = [["category", "arm", "cases", "valid", "right name", "right", "calls", "s", "passes"]]
    for group in groups:
        table.append(
            [
                group["category"],
                group["arm"],
                f"{group['cases']}",
                *(_percent(group[name]) for name in _MEASURES),
                f"{group['calls']}",
                f"{group['seconds']:.1f}",
                f"{group['passes']:.0f}",
            ]
        )
    return table


def tables(report: dict[str, Any]) -> str:
    """Return two Markdown tables: right answers by category, and all measures by arm."""
    groups = {(each["category"], each["arm"]): each for each in report["groups"]}
    arms = list(dict.fromkeys(arm for _, arm in groups))
    by_category = [["right answers", "cases", *arms]]
    for category in CATEGORIES:
        cells = [groups.get((category, arm)) for arm in arms]
        if not any(cells):
            continue
        cases = max(each["cases"] for each in cells if each)
        shares = ["–" if each is None else _percent(each["right"]) for each in cells]
        by_category.append([f"`{category}`", f"{cases}", *shares])
    head = ["arm", "valid", "right name", "right", "none needed: right", "s", "passes"]
    by_arm = [[*head, *(f"to {each}" for each in _REFERENCES)]]
    for arm in arms:
        called, none = groups.get((_WITH_CALLS, arm)), groups.get((_WITHOUT, arm))
        if called is None:
            continue
        by_arm.append(
            [
                arm,
                *(_percent(called[name]) for name in _MEASURES),
                "–" if none is None else _percent(none["right"]),
                f"{called['seconds']:.1f}",
                f"{called['passes']:.0f}",
                *(_points(called["differences"].get(each)) for each in _REFERENCES),
            ]
        )
    return f"{markdown(by_category, texts=1)}\n\n{markdown(by_arm, texts=1)}"


def _percent(share: Sequence[float]) -> str:
    value, low, high = (round(100 * each) for each in share)
    return f"{value} ({low} to {high})"


def _points(difference: Sequence[float] | None) -> str:
    if difference is None:
        return "–"
    value, low, high = (f"{100 * each:+.0f}" for each in difference)
    return f"{value} ({low} to {high})"
