"""Tasks with gold answers, one module each. Records are drawn by script; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from quality_tasks import arithmetic, calls, classification, extraction, quotes, sentences
from quality_tasks.base import Json as Json
from quality_tasks.base import Record as Record

__all__ = ["CHECKED_TASKS", "TASKS", "Json", "Record", "make_records"]

TASKS: Mapping[str, Callable[[int, int], Record]] = {
    extraction.TASK: extraction.make_record,
    classification.TASK: classification.make_record,
    calls.TASK: calls.make_record,
    classification.TASK_WITH_RATIONALE: classification.make_rationale_record,
    arithmetic.TASK: arithmetic.make_record,
    arithmetic.TASK_IN_WORDS: arithmetic.make_record_in_words,
    arithmetic.TASK_WITH_CALCULATION: arithmetic.make_calculation_record,
    quotes.TASK: quotes.make_record,
    sentences.TASK: sentences.make_record,
}
"""Functions by task that return the record of a seed and a number."""

CHECKED_TASKS = (classification.TASK_WITH_RATIONALE, arithmetic.TASK_WITH_CALCULATION)
"""The tasks whose records have a check."""


def make_records(task: str, seed: int, count: int, first: int = 0) -> list[Record]:
    """Return ``count`` records of a task, from number ``first`` on.

    Record ``i`` does not depend on ``count``, so that a longer run continues a shorter one.
    """
    return [TASKS[task](seed, first + i) for i in range(count)]
