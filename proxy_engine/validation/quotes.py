"""Quotes: strings that a schema takes from a source, and where they stand in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jsonschema
from jsonschema.protocols import Validator

from state_machines.grammar.substring import find_quote
from state_machines.json_schema.quotes import SUBSTRING_UNIT

from ..checks.pointers import reference_token


class FoundQuote(NamedTuple):
    """Where a quote stands.

    Attributes:
        pointer: The JSON Pointer of the string.
        source: The name of the source.
        start: Position of the first occurrence, in code points.
        end: Position after it.
        occurrences: Number of occurrences.
    """

    pointer: str
    source: str
    start: int
    end: int
    occurrences: int


class QuotedText(str):
    """A string of a JSON value whose quotes are checked.

    Attributes:
        pointer: The JSON Pointer of the string.
        sources: The texts that strings are quoted from, by name.
        found: The quotes, by source.
    """

    pointer: str
    sources: Mapping[str, str]
    found: dict[str, FoundQuote]


def with_quotes(value: Any, sources: Mapping[str, str], texts: list[QuotedText]) -> Any:
    """Return a JSON value whose strings are quoted texts, which are added to ``texts``.

    The value itself may be changed.
    """
    root = [value]
    pending: list[tuple[Any, Any, str]] = [(root, 0, "")]
    while pending:
        parent, key, pointer = pending.pop()
        found = parent[key]
        if isinstance(found, str):
            text = parent[key] = QuotedText(found)
            text.pointer, text.sources, text.found = pointer, sources, {}
            texts.append(text)
        elif isinstance(found, dict):
            for name in reversed(found):
                pending.append((found, name, f"{pointer}/{reference_token(name)}"))
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
    if not isinstance(instance, QuotedText):
        return
    source = instance.sources.get(expected)
    unit = schema.get(SUBSTRING_UNIT, "words")
    found = find_quote(source, instance, unit) if source is not None and instance else None
    if found is None:
        yield jsonschema.ValidationError(f"{instance!r} is not a quote from {expected!r}")
        return
    start, count = found
    end = start + len(instance)
    instance.found[expected] = FoundQuote(instance.pointer, expected, start, end, count)
