"""Extraction of 2 or 3 fields from a single sentence that states all of them."""

from __future__ import annotations

from typing import Any

from quality_tasks.base import Json, Record, listing, object_schema, rng_of
from quality_tasks.words import CITIES, FIRST_NAMES, LAST_NAMES, MONTHS, PRODUCTS

__all__ = ["make_record"]

TASK = "sentences"

_TEXT = {"type": "string", "maxLength": 40}
_NUMBER = {"type": "integer", "minimum": 0, "maximum": 999}
_DATE = {"type": "string", "format": "date"}


def make_record(seed: int, number: int) -> Record:
    """Return a record of the task."""
    rng = rng_of(TASK, seed, number)
    name = f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}"
    city, count, product = rng.choice(CITIES), rng.randint(11, 95), rng.choice(PRODUCTS)
    day, month = rng.randint(10, 28), rng.randrange(12)
    date = f"{day} {MONTHS[month]} 2024"
    kinds: list[tuple[str, str, dict[str, tuple[Any, Json]]]] = [
        (
            "residence",
            f"{name} is {count} years old and lives in {city}.",
            {"name": (_TEXT, name), "age": (_NUMBER, count), "city": (_TEXT, city)},
        ),
        ("birthday", f"{name} turned {count}.", {"name": (_TEXT, name), "age": (_NUMBER, count)}),
        (
            "order",
            f"Please send {count} pieces of the product {product} to {city}.",
            {"product": (_TEXT, product), "quantity": (_NUMBER, count), "city": (_TEXT, city)},
        ),
        (
            "date",
            f"The meeting with {name} is on {date} in {city}.",
            {
                "person": (_TEXT, name),
                "date": (_DATE, f"2024-{month + 1:02}-{day}"),
                "city": (_TEXT, city),
            },
        ),
    ]
    kind, text, fields = kinds[number % len(kinds)]
    return Record(
        TASK,
        kind,
        number,
        f"{text}\n\nExtract from this text, as JSON: {listing(fields)}.",
        object_schema({field: schema for field, (schema, _) in fields.items()}),
        {field: value for field, (_, value) in fields.items()},
        {field: "2000-01-01" if field == "date" else gold for field, (_, gold) in fields.items()},
        max_tokens=64,
    )
