"""A document with its prompt, made by a template, and the share of it that is copied."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from documents import Document

__all__ = [
    "AMOUNT",
    "COUNT",
    "TEXT",
    "Task",
    "Template",
    "copied_share",
    "has_repetition",
    "integer_to",
    "number_in",
    "object_schema",
    "share_in_prompt",
    "tasks_of",
]

_RUN = 6
"""Characters that a part of a value has to have in a row to count as copied."""
_REPEATED_WORDS = 5


TEXT = {"type": "string"}
AMOUNT = {"type": "number", "minimum": 0}
COUNT = {"type": "integer", "minimum": 0, "maximum": 100_000}


@dataclass(frozen=True)
class Task(Document):
    """A document with the prompt that asks for it. ``kind`` names the set."""

    prompt: str = ""


Template = Callable[[random.Random], tuple[str, Any, Any]]
"""Makes a prompt, a JSON Schema and the value to write."""


def tasks_of(kind: str, templates: Sequence[Template], each: int) -> list[Task]:
    """Return ``each`` documents of the templates in turn, each with a seed of its own."""
    tasks = []
    for number in range(each):
        template = templates[number % len(templates)]
        name = f"{template.__name__.strip('_')} {number // len(templates) + 1}"
        prompt, schema, value = template(random.Random(f"{kind} {name}"))
        text = json.dumps(value, ensure_ascii=False)
        tasks.append(Task(name, kind, schema, text, prompt))
    return tasks


def object_schema(properties: dict[str, Any], *, optional: Sequence[str] = ()) -> dict[str, Any]:
    """Return the schema of an object without other properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def integer_to(maximum: int) -> dict[str, Any]:
    """Return the schema of an integer from 0 to ``maximum``."""
    return {"type": "integer", "minimum": 0, "maximum": maximum}


def number_in(minimum: float, maximum: float) -> dict[str, Any]:
    """Return the schema of a number within limits."""
    return {"type": "number", "minimum": minimum, "maximum": maximum}


def share_in_prompt(task: Task) -> float:
    """Return the share of the characters of a document's values that its prompt has.

    A value has its JSON text, for strings without quotes and escapes. Its characters count where
    they are part of at least ``_RUN`` characters in a row, or of the whole value, that stand in the
    prompt.
    """
    copied = total = 0
    for value in _values(json.loads(task.text)):
        total += len(value)
        copied += copied_share(value, task.prompt)
    return copied / total


def copied_share(value: str, source: str) -> int:
    """Return how many characters of a value are parts of it that stand in the source."""
    shortest = min(_RUN, len(value))
    is_copied = [False] * len(value)
    for begin in range(len(value) - shortest + 1):
        if value[begin : begin + shortest] in source:
            is_copied[begin : begin + shortest] = [True] * shortest
    return sum(is_copied)


def has_repetition(text: str) -> bool:
    """Whether the same words follow each other in two places of a text."""
    words = text.lower().split()
    runs = [tuple(words[at : at + _REPEATED_WORDS]) for at in range(len(words))]
    runs = [run for run in runs if len(run) == _REPEATED_WORDS]
    return len(set(runs)) < len(runs)


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for child in value.values():
            yield from _values(child)
    elif isinstance(value, list):
        for child in value:
            yield from _values(child)
    else:
        yield value if isinstance(value, str) else json.dumps(value)
