"""Documents for drafts, generated from seeds without regard to how drafts are made.

* *copied*: at least ``COPIED`` of the characters of the values stand in the prompt;
* *paraphrased*: the values say what the prompt says in other words, units and formats;
* *free text*: prose that does not repeat itself, without a schema;
* *free string*: the same prose as a string of a JSON object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from speculation_tasks import (
    copied_records,
    copied_texts,
    paraphrased_reports,
    paraphrased_units,
    prose,
)
from speculation_tasks.base import Task as Task
from speculation_tasks.base import has_repetition as has_repetition
from speculation_tasks.base import share_in_prompt as share_in_prompt
from speculation_tasks.base import tasks_of

__all__ = ["COPIED", "EACH", "SETS", "Task", "has_repetition", "make_tasks", "share_in_prompt"]

EACH = 13
COPIED = 0.7

_COPIED = (*copied_texts.TEMPLATES, *copied_records.TEMPLATES)
_PARAPHRASED = (*paraphrased_reports.TEMPLATES, *paraphrased_units.TEMPLATES)

SETS: Mapping[str, Callable[[int], list[Task]]] = {
    "copied": lambda count: tasks_of("copied", _COPIED, count),
    "paraphrased": lambda count: tasks_of("paraphrased", _PARAPHRASED, count),
    "free text": prose.texts,
    "free string": prose.strings,
}
"""Functions by set that return its first documents."""


def make_tasks(kind: str, count: int = EACH) -> list[Task]:
    """Return the first ``count`` documents of a set.

    Raises:
        ValueError: A document is not what its set promises.
    """
    tasks = SETS[kind](count)
    for task in tasks:
        if kind == "copied" and share_in_prompt(task) < COPIED:
            raise ValueError(f"{task.name}: less than {COPIED:.0%} is in the prompt")
        if kind.startswith("free") and has_repetition(task.prompt + task.text):
            raise ValueError(f"{task.name}: the text repeats itself")
    return tasks
