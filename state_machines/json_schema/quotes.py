"""``x-substring-of``: strings that are quoted from a text.

The keyword names a *source*, a text that is given beside the schema. ``x-substring-unit``, next to
it, is ``"words"`` (the default) or ``"chars"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from state_machines.errors import InvalidArgumentError, MissingSourceError
from state_machines.grammar.boolean import intersection
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import repetition, symbols
from state_machines.grammar.substring import check_source, chunks_of, substring_language
from state_machines.grammar.symbols import ANY_CODE_POINT

SUBSTRING_OF = "x-substring-of"
SUBSTRING_UNIT = "x-substring-unit"

UNITS = ("words", "chars")

_NOT_EMPTY = repetition(symbols(ANY_CODE_POINT), 1, None)


def source_names(schema: Any) -> set[str]:
    """Return the names of the sources that a schema quotes from, wherever the keyword stands."""
    names: set[str] = set()
    pending = [schema]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            name = value.get(SUBSTRING_OF)
            if isinstance(name, str):
                names.add(name)
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return names


class QuoteSources:
    """The sources of one compilation.

    Args:
        texts: The texts by name.

    Raises:
        InvalidArgumentError: A text is no string, has a lone surrogate, or is too long.
    """

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        self._texts: dict[str, str] = dict(texts or {})
        for name, text in self._texts.items():
            if not isinstance(name, str) or not isinstance(text, str):
                raise InvalidArgumentError(
                    "sources must be a mapping from names to texts", argument="sources"
                )
        self._languages: dict[tuple[str, str], Node] = {}

    @property
    def used(self) -> dict[str, str]:
        """The sources that schemas have named so far."""
        return {name: self._texts[name] for name, _ in self._languages}

    def quotes(self, name: str, unit: str) -> Node:
        """Return the quotes from a source, as a language of code points.

        Raises:
            MissingSourceError: There is no source of the name.
        """
        text = self._texts.get(name)
        if text is None:
            known = tuple(self._texts)
            listed = ", ".join(map(repr, known))
            raise MissingSourceError(
                f"the source {name!r} of a quote is not given",
                keyword=SUBSTRING_OF,
                source=name,
                known=known,
                hint=f"Known are {listed}" if known else f"Give sources={{{name!r}: ...}}",
            )
        key = (name, unit)
        language = self._languages.get(key)
        if language is None:
            check_source(text)
            language = intersection((substring_language(chunks_of(text, unit)), _NOT_EMPTY))
            self._languages[key] = language
        return language
