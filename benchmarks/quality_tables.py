"""Tables of the quality benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quality_arms import ARMS
from quality_outcomes import Outcome
from quality_scores import MEASURES, Interval, difference, score
from tables import markdown

__all__ = ["cost_rows", "difference_rows", "kind_rows", "render", "score_rows"]

_NONE = "–"


def render(outcomes: Iterable[Outcome], reference: str) -> str:
    """Return all tables in Markdown.

    Args:
        outcomes: The outcomes of one model.
        reference: The arm that others are compared with.
    """
    given = list(outcomes)
    blocks = []
    for measure, title in (("exact", "Exact match per record"), ("fields", "Per field")):
        blocks.append(f"{title}, in %, with 95% intervals")
        blocks.append(markdown(score_rows(given, measure), texts=2))
    if any(outcome.arm == reference for outcome in given):
        for measure, title in (("exact", "exact match"), ("fields", "fields")):
            blocks.append(
                f"Difference to `{reference}` on the same records, {title}, in percentage points; "
                "bold: 0 is outside the 95% interval"
            )
            blocks.append(markdown(difference_rows(given, reference, measure), texts=2))
    blocks.append("Exact match by kind of record, in %")
    blocks.append(markdown(kind_rows(given), texts=2))
    blocks.append("Valid answers, in %, and costs per record")
    blocks.append(markdown(cost_rows(given), texts=1))
    return "\n\n".join(blocks)


def score_rows(outcomes: Sequence[Outcome], measure: str) -> list[list[str]]:
    """Return a row for each arm with its score in each task."""
    tasks = _tasks(outcomes)
    rows = [["arm", "", *(f"{task} ({_count(outcomes, task)})" for task in tasks)]]
    for arm in _arms(outcomes):
        cells = []
        for task in tasks:
            chosen = _chosen(outcomes, arm, task)
            cells.append(_percent(score(chosen, MEASURES[measure])) if chosen else _NONE)
        rows.append([f"`{arm}`", _about(arm), *cells])
    return rows


def difference_rows(outcomes: Sequence[Outcome], reference: str, measure: str) -> list[list[str]]:
    """Return a row for each other arm with its paired difference to the reference."""
    tasks = _tasks(outcomes)
    rows = [["arm", "", *tasks]]
    for arm in _arms(outcomes):
        if arm == reference:
            continue
        cells = []
        for task in tasks:
            found = difference(
                _chosen(outcomes, arm, task),
                _chosen(outcomes, reference, task),
                MEASURES[measure],
            )
            cells.append(_NONE if found is None else _points(found))
        rows.append([f"`{arm}`", _about(arm), *cells])
    return rows


def kind_rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Return a row for each kind of each task with the exact match of each arm."""
    arms = _arms(outcomes)
    kinds = sorted({(outcome.task, outcome.kind) for outcome in outcomes})
    rows = [["task", "kind", "records", *(f"`{arm}`" for arm in arms)]]
    for task, kind in kinds:
        cells = []
        records = set()
        for arm in arms:
            chosen = [each for each in _chosen(outcomes, arm, task) if each.kind == kind]
            records |= {(each.seed, each.number) for each in chosen}
            mean = sum(each.exact for each in chosen) / len(chosen) if chosen else None
            cells.append(_NONE if mean is None else f"{100 * mean:.0f}")
        rows.append([task, kind, str(len(records)), *cells])
    return rows


def cost_rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Return a row for each arm: valid answers, tries, tokens and seconds per record."""
    rows = [["arm", "valid", "tries", "prompt tokens", "tokens", "seconds"]]
    for arm in _arms(outcomes):
        chosen = [outcome for outcome in outcomes if outcome.arm == arm]
        count = len(chosen)
        rows.append(
            [
                f"`{arm}`",
                f"{100 * sum(each.is_valid for each in chosen) / count:.0f}",
                f"{sum(each.tries for each in chosen) / count:.2f}",
                f"{sum(each.prompt_tokens for each in chosen) / count:.0f}",
                f"{sum(each.tokens for each in chosen) / count:.0f}",
                f"{sum(each.seconds for each in chosen) / count:.2f}",
            ]
        )
    return rows


def _tasks(outcomes: Sequence[Outcome]) -> list[str]:
    return list(dict.fromkeys(outcome.task for outcome in outcomes))


def _arms(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the arms in the order of their table, then unknown ones."""
    found = {outcome.arm for outcome in outcomes}
    return [arm for arm in ARMS if arm in found] + sorted(found - set(ARMS))


def _count(outcomes: Sequence[Outcome], task: str) -> int:
    return len({(each.model, each.seed, each.number) for each in outcomes if each.task == task})


def _chosen(outcomes: Sequence[Outcome], arm: str, task: str) -> list[Outcome]:
    return [each for each in outcomes if each.arm == arm and each.task == task]


def _about(arm: str) -> str:
    return ARMS[arm].about if arm in ARMS else ""


def _percent(found: Interval) -> str:
    return f"{100 * found.value:.0f} ({100 * found.low:.0f} to {100 * found.high:.0f})"


def _points(found: Interval) -> str:
    text = f"{100 * found.value:+.0f} ({100 * found.low:+.0f} to {100 * found.high:+.0f})"
    return f"**{text}**" if found.is_significant else text
