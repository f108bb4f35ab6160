"""Machines that are never dropped, and texts that are never the same.

A machine that is asked for ever new texts must not grow with them. Three of them, for three
things that a machine could remember: texts within strings, names that the schema does not list,
and values that may not be written twice.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["LONG_LIVED", "LongLived", "lines"]


@dataclass(frozen=True)
class LongLived:
    """A schema, and instances of it without end (from a seed)."""

    name: str
    schema: Any
    instances: Callable[[random.Random], Iterator[Any]]


def _word(chance: random.Random) -> str:
    return "".join(chance.choices("abcdefghijklmnopqrstuvwxyzäß", k=chance.randint(2, 12)))


def _strings(chance: random.Random) -> Iterator[Any]:
    counter = 0
    while True:
        yield {
            "id": f"item-{counter:06d}",
            "title": " ".join(_word(chance) for _ in range(chance.randint(2, 12)))[:80],
            "amount": round(chance.uniform(0, 10**6), 2),
            "tags": [_word(chance) for _ in range(chance.randint(0, 5))],
        }
        counter += 1


def _names(chance: random.Random) -> Iterator[Any]:
    counter = 0
    while True:
        unlisted = {f"{_word(chance)}_{counter + i}": chance.randint(0, 99) for i in range(8)}
        yield {"kind": chance.choice(["a", "b"]), **unlisted}
        counter += 8


def _items(chance: random.Random) -> Iterator[Any]:
    while True:
        yield sorted({_word(chance) for _ in range(chance.randint(1, 12))})


LONG_LIVED = [
    LongLived(
        "strings",
        {
            "type": "object",
            "properties": {
                "id": {"type": "string", "pattern": "^item-[0-9]{6,}$"},
                "title": {"type": "string", "maxLength": 80},
                "amount": {"type": "number", "minimum": 0},
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 20},
            },
            "required": ["id", "title", "amount", "tags"],
            "additionalProperties": False,
        },
        _strings,
    ),
    LongLived(
        "unlisted names",
        {
            "type": "object",
            "properties": {"kind": {"enum": ["a", "b"]}},
            "required": ["kind"],
            "additionalProperties": {"type": "integer"},
        },
        _names,
    ),
    LongLived(
        "unique items",
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        _items,
    ),
]


def lines(machine: LongLived, count: int, seed: int, together: int = 100) -> Iterator[str]:
    """Yield lines of cases, ``together`` texts in each, all of one schema."""
    instances = machine.instances(random.Random(seed))
    for start in range(0, count, together):
        tests = [
            {"valid": True, "data": next(instances)} for _ in range(min(together, count - start))
        ]
        yield json.dumps({"name": machine.name, "schema": machine.schema, "tests": tests})
