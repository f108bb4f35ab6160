"""Quotes: strings that a schema takes from a source, and where they stand in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
from jsonschema.protocols import Validator

from state_machines.grammar.substring import find_quote
from state_machines.json_schema.quotes import SUBSTRING_UNIT

from ..results import Quotation
from .judgement import judgement


class LocatedText(str):
    """A string of a JSON value.

    Attributes:
        pointer: The JSON Pointer of the string.
        number: The number of strings before it.
    """

    pointer: str
    number: int


def located(value: Any) -> Any:
    """Return a JSON value whose strings know where they are. The value itself may be changed."""
    root = [value]
    number = 0
    pending: list[tuple[Any, Any, str]] = [(root, 0, "")]
    while pending:
        parent, key, pointer = pending.pop()
        found = parent[key]
        if isinstance(found, str):
            text = LocatedText(found)
            text.pointer, text.number = pointer, number
            number += 1
            parent[key] = text
        elif isinstance(found, dict):
            for name in reversed(found):
                escaped = name.replace("~", "~0").replace("/", "~1")
                pending.append((found, name, f"{pointer}/{escaped}"))
        elif isinstance(found, list):
            indices = range(len(found) - 1, -1, -1)
            pending.extend((found, index, f"{pointer}/{index}") for index in indices)
    return root[0]


def substring_of(
    validator: Validator, expected: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterator[jsonschema.ValidationError]:
    """Check ``x-substring-of``, and record where the quote stands.

    Without the sources of the schema nothing is checked.
    """
    del validator
    run = judgement()
    if run.sources is None or not isinstance(instance, str):
        return
    source = run.sources.get(expected)
    unit = schema.get(SUBSTRING_UNIT, "words")
    found = find_quote(source, instance, unit) if source is not None and instance else None
    if found is None:
        yield jsonschema.ValidationError(f"{instance!r} is not a quote from {expected!r}")
        return
    if isinstance(instance, LocatedText):
        start, count = found
        quotation = Quotation(instance.pointer, expected, start, start + len(instance), count)
        run.quotations[instance.number, expected] = quotation
