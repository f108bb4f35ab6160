"""Prose that does not repeat itself: as the whole answer, and as a JSON string."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from speculation_tasks.base import TEXT, Task, object_schema

__all__ = ["strings", "texts"]

_FILE = Path(__file__).with_name("prose.md")
_SCHEMA = object_schema({"text": TEXT})


def texts(count: int) -> list[Task]:
    """Return texts as free answers, without a schema."""
    return [
        Task(topic, "free text", None, text, f"Write a paragraph about {topic}.\n")
        for topic, text in _paragraphs()
    ][:count]


def strings(count: int) -> list[Task]:
    """Return texts as strings of a JSON object."""
    return [
        Task(
            topic,
            "free string",
            _SCHEMA,
            json.dumps({"text": text}, ensure_ascii=False),
            f"Write a paragraph about {topic}, as JSON.\n",
        )
        for topic, text in _paragraphs()
    ][:count]


def _paragraphs() -> Iterator[tuple[str, str]]:
    _, *sections = _FILE.read_text(encoding="utf-8").split("\n## ")
    for section in sections:
        topic, _, text = section.partition("\n")
        yield topic, " ".join(text.split())
