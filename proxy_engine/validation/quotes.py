"""Quotes: strings that a schema takes from a source, and where they stand in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextvars import ContextVar, Token
from typing import Any

import jsonschema
from jsonschema.protocols import Validator

from state_machines.grammar.substring import find_quote
from state_machines.json_schema.quotes import SUBSTRING_UNIT

from ..results.generation import Quotation

_CURRENT: ContextVar[QuoteCheck | None] = ContextVar("quotes", default=None)


class LocatedText(str):
    """A string of a JSON value.

    Attributes:
        pointer: The JSON Pointer of the string.
        number: The number of strings before it.
    """

    pointer: str
    number: int


class QuoteCheck:
    """The quotes of one validation; entering it makes it current for the thread or task.

    Args:
        sources: The texts that strings are quoted from; ``None``: nothing is checked.

    Attributes:
        found: The quotes, by number of the string and source.
    """

    def __init__(self, sources: Mapping[str, str] | None) -> None:
        self.sources = sources
        self.found: dict[tuple[int, str], Quotation] = {}
        self._token: Token[QuoteCheck | None] | None = None

    def __enter__(self) -> None:
        self._token = _CURRENT.set(self)

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _CURRENT.reset(self._token)

    def located(self, value: Any) -> Any:
        """Return a JSON value whose strings know where they are, if quotes are checked.

        The value itself may be changed.
        """
        if self.sources is None:
            return value
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
    check = _CURRENT.get()
    if check is None or check.sources is None or not isinstance(instance, str):
        return
    source = check.sources.get(expected)
    unit = schema.get(SUBSTRING_UNIT, "words")
    found = find_quote(source, instance, unit) if source is not None and instance else None
    if found is None:
        yield jsonschema.ValidationError(f"{instance!r} is not a quote from {expected!r}")
        return
    if isinstance(instance, LocatedText):
        start, count = found
        quotation = Quotation(instance.pointer, expected, start, start + len(instance), count)
        check.found[instance.number, expected] = quotation
