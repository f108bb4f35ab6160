"""Facts: a field of an answer, and the sentences that state its value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from quality_tasks.base import listing
from quality_tasks.words import MONTHS, NUMBER_WORDS

__all__ = [
    "Draw",
    "Fact",
    "date",
    "flag",
    "integer",
    "length_of_time",
    "number",
    "one_of",
    "text",
    "time_of_day",
    "values",
]

Draw: TypeAlias = Callable[[Random], tuple[Any, str]]
"""Draws a value, and how a sentence writes it."""


@dataclass(frozen=True)
class Fact:
    """A field and the sentences that state its value.

    Attributes:
        field: The field's name.
        schema: The schema of its values.
        write: Draws a value and the sentence that states it.
        note: What the prompt says about the values, in brackets.
        is_verbatim: Whether the value is written in the text as in the answer.
    """

    field: str
    schema: dict[str, Any]
    write: Draw
    note: str = ""
    is_verbatim: bool = False

    @property
    def nullable_schema(self) -> dict[str, Any]:
        """The schema with null as a further value."""
        if "enum" in self.schema:
            return {"enum": [*self.schema["enum"], None]}
        return {**self.schema, "type": [self.schema["type"], "null"]}

    @property
    def named(self) -> str:
        """The field with its note."""
        return f"{self.field} ({self.note})" if self.note else self.field


def text(field: str, choices: Sequence[str], *sentences: str) -> Fact:
    """Return a fact whose value is one of many texts."""

    def draw(rng: Random) -> tuple[Any, str]:
        value = rng.choice(choices)
        return value, value

    return Fact(field, {"type": "string", "maxLength": 40}, _stating(draw, sentences), "", True)


def one_of(field: str, choices: Sequence[str], *sentences: str) -> Fact:
    """Return a fact whose value is one of a few texts, all of them in the schema."""

    def draw(rng: Random) -> tuple[Any, str]:
        value = rng.choice(choices)
        return value, value

    note = listing(choices, "or")
    return Fact(field, {"enum": list(choices)}, _stating(draw, sentences), note, True)


def integer(field: str, low: int, high: int, *sentences: str, bounded: bool = False) -> Fact:
    """Return a fact with a whole number, written in digits.

    Args:
        field: The field's name.
        low: The smallest number.
        high: The largest number.
        sentences: Templates.
        bounded: Whether the schema has the bounds.
    """

    def draw(rng: Random) -> tuple[Any, str]:
        value = rng.randint(low, high)
        return value, str(value)

    limits = {"minimum": low, "maximum": high} if bounded else {}
    note = f"{low} to {high}" if bounded else ""
    return Fact(field, {"type": "integer", **limits}, _stating(draw, sentences), note, True)


def number(field: str, draw: Draw, note: str, *sentences: str, whole: bool = True) -> Fact:
    """Return a fact with a number that the text writes otherwise, in another unit for instance."""
    kind = "integer" if whole else "number"
    return Fact(field, {"type": kind}, _stating(draw, sentences), note)


def flag(field: str, yes: Sequence[str], no: Sequence[str]) -> Fact:
    """Return a fact that is true or false, often by a negation."""

    def write(rng: Random) -> tuple[Any, str]:
        value = rng.random() < 0.5
        return value, rng.choice(yes if value else no)

    return Fact(field, {"type": "boolean"}, write, "true or false")


def date(field: str, *sentences: str) -> Fact:
    """Return a fact with a date, written in words."""

    def draw(rng: Random) -> tuple[Any, str]:
        year, month, day = rng.randint(1990, 2029), rng.randint(1, 12), rng.randint(1, 28)
        name = MONTHS[month - 1]
        shown = rng.choice(
            (f"{day} {name} {year}", f"{name} {day}, {year}", f"{day} {name[:3]} {year}")
        )
        return f"{year}-{month:02}-{day:02}", shown

    schema = {"type": "string", "format": "date"}
    return Fact(field, schema, _stating(draw, sentences), "YYYY-MM-DD")


def time_of_day(field: str, *sentences: str) -> Fact:
    """Return a fact with a time of day, which the text writes with 12 hours."""

    def draw(rng: Random) -> tuple[Any, str]:
        hour, minute = rng.randint(7, 20), rng.choice((0, 15, 30, 45))
        half = "am" if hour < 12 else "pm"
        short = (hour - 1) % 12 + 1
        shown = f"{short} {half}" if minute == 0 else f"{short}:{minute:02} {half}"
        return f"{hour:02}:{minute:02}", shown

    schema = {"type": "string", "pattern": "^[0-2][0-9]:[0-5][0-9]$"}
    return Fact(field, schema, _stating(draw, sentences), "HH:MM, 24 hours")


def length_of_time(field: str, *sentences: str) -> Fact:
    """Return a fact with minutes, which the text writes in hours."""

    def draw(rng: Random) -> tuple[Any, str]:
        hours, minutes = rng.randint(1, 8), rng.choice((0, 0, 15, 30, 45))
        unit = "hour" if hours == 1 else "hours"
        shown = f"{NUMBER_WORDS[hours]} {unit}" + (f" and {minutes} minutes" if minutes else "")
        return 60 * hours + minutes, shown

    return number(field, draw, "whole minutes", *sentences)


def values(field: str, choices: Sequence[str], *sentences: str) -> Fact:
    """Return a fact with a list of one to three texts."""

    def draw(rng: Random) -> tuple[Any, str]:
        chosen = rng.sample(choices, rng.randint(1, 3))
        return chosen, listing(chosen)

    schema = {"type": "array", "items": {"type": "string", "maxLength": 40}, "maxItems": 5}
    return Fact(field, schema, _stating(draw, sentences), "a list")


def _stating(draw: Draw, sentences: Sequence[str]) -> Draw:
    def write(rng: Random) -> tuple[Any, str]:
        value, shown = draw(rng)
        return value, rng.choice(sentences).replace("{}", shown)

    return write
