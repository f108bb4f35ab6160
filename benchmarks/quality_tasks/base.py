"""A record: a question with a gold answer, and the comparison of an answer with it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = [
    "Compare",
    "Json",
    "Record",
    "compare_members",
    "is_equal",
    "listing",
    "object_schema",
    "rng_of",
]

Json: TypeAlias = Any
Compare: TypeAlias = Callable[[Json, Json], dict[str, bool]]

_IGNORED_AT_ENDS = " \t\r\n\"'“”‘’."


def is_equal(gold: Json, value: Json) -> bool:
    """Return whether two JSON values are equal.

    Types must agree, except that 3 equals 3.0. Strings are compared without regard to case, and
    without the white space, quotation marks and full stops at their ends.
    """
    if isinstance(gold, str):
        return isinstance(value, str) and _bare(gold) == _bare(value)
    if gold is None or isinstance(gold, bool):
        return value is gold
    if isinstance(gold, list):
        return (
            isinstance(value, list) and len(gold) == len(value) and all(map(is_equal, gold, value))
        )
    if isinstance(gold, dict):
        return (
            isinstance(value, dict)
            and gold.keys() == value.keys()
            and all(is_equal(gold[name], value[name]) for name in gold)
        )
    return isinstance(value, int | float) and not isinstance(value, bool) and value == gold


def compare_members(gold: Json, value: Json) -> dict[str, bool]:
    """Compare the members of two objects; those that ``gold`` lacks are not scored."""
    members = value if isinstance(value, dict) else {}
    return {
        name: name in members and is_equal(expected, members[name])
        for name, expected in gold.items()
    }


@dataclass(frozen=True)
class Record:
    """A question with its gold answer.

    Attributes:
        task: The task's name.
        kind: The difficulty or variant within the task.
        number: Position in the task, from 0. A record depends on task, seed and number only.
        question: The prompt without the schema. It names the fields of the answer.
        schema: The JSON Schema of the answer.
        gold: The expected answer; for objects, the members that are scored.
        example: An answer of the same form with other values.
        max_tokens: Limit of the answer, about twice the gold answer's length.
        compare: Compares a value with ``gold``, by field.
        request: The question without its list of functions, for requests with ``tools``.
        tools: OpenAI-style definitions of the functions.
        check: Raises ``ValueError`` for a value that contradicts itself or the question. It does
            not know the gold answer.
    """

    task: str
    kind: str
    number: int
    question: str
    schema: Mapping[str, Any]
    gold: Json
    example: Json
    max_tokens: int
    compare: Compare = field(default=compare_members, repr=False)
    request: str = ""
    tools: Sequence[Mapping[str, Any]] = ()
    check: Callable[[Json], None] | None = field(default=None, repr=False, compare=False)

    def matches(self, parsed: Json) -> dict[str, bool]:
        """Return whether each field of a parsed answer is right.

        ``None``, the value of an output that could not be parsed, is wrong in every field.
        """
        return self.compare(self.gold, parsed)

    def is_match(self, parsed: Json) -> bool:
        """Return whether all fields of a parsed answer are right."""
        return all(self.matches(parsed).values())


def rng_of(task: str, seed: int, number: int) -> random.Random:
    """Return the random generator of a record, the same on every machine."""
    return random.Random(f"{task}/{seed}/{number}")


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def listing(items: Iterable[str], word: str = "and") -> str:
    """Return ``a, b and c``."""
    *first, last = items
    return f"{', '.join(first)} {word} {last}" if first else last


def _bare(text: str) -> str:
    return text.strip(_IGNORED_AT_ENDS).casefold()
