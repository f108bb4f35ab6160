"""Verbatim quotes: texts that are substrings of a source.

In JSON Schema, ``x-substring-of`` names a *source*, a text that is given beside the schema.
``x-substring-unit``, next to it, is ``"words"`` (the default) or ``"chars"``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from state_machines.budgets import step_budget
from state_machines.errors import (
    GrammarBudgetError,
    InvalidArgumentError,
    MissingSourceError,
    check_choice,
)
from state_machines.grammar.boolean import intersection
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import repetition, symbols
from state_machines.grammar.quote_sources import check_source, chunks_of
from state_machines.grammar.substring import substring_language
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.limits import LIMITS
from state_machines.machine import StateMachine

Unit = Literal["words", "chars"]
"""Where a quote may begin and end: between the words of its source, or anywhere."""

SUBSTRING_OF = "x-substring-of"
SUBSTRING_UNIT = "x-substring-unit"

UNITS = get_args(Unit)

_NOT_EMPTY = repetition(symbols(ANY_CODE_POINT), 1, None)

_OTHER_TYPES = {"array", "object", "number", "integer", "boolean", "null"}


def _check_quote(source: object, unit: object) -> None:
    if not isinstance(source, str):
        raise InvalidArgumentError(
            f"source must be a string, not {type(source).__name__}", argument="source"
        )
    check_choice("unit", unit, UNITS)


class SubstringStateMachine(StateMachine):
    """The substrings of a source, compared by code points.

    The source is not normalised, and a quote may contain its line breaks. The machine takes some 20
    to 30 bytes for each character of the source.

    Args:
        source: The text.
        unit: ``"words"``: a quote begins and ends between words, whitespace and punctuation.
            ``"chars"``: it may begin and end anywhere.
        allow_empty: Whether the empty text is a quote.

    Raises:
        InvalidArgumentError: ``unit`` is unknown; or the source is empty, has a lone surrogate, or
            more than ``LIMITS.source_characters`` characters.

    >>> machine = SubstringStateMachine("the quick brown fox")
    >>> machine.matches("quick brown"), machine.matches("ick bro"), machine.matches("brown quick")
    (True, False, False)
    """

    def __init__(self, source: str, unit: Unit = "words", *, allow_empty: bool = False) -> None:
        _check_quote(source, unit)
        try:
            with step_budget(LIMITS.compile_steps):
                quotes = substring_language(chunks_of(source, unit))
                if not allow_empty:
                    quotes = intersection((quotes, _NOT_EMPTY))
        except GrammarBudgetError as error:
            raise InvalidArgumentError(
                f"indexing the source takes more than {error.budget:,} steps of work",
                argument="source",
                hint="Divide the source, and quote from its parts",
            ) from error
        if quotes is EMPTY:
            raise InvalidArgumentError(
                "the source is empty", argument="source", hint="Use allow_empty=True"
            )
        super().__init__(encoded(quotes, RAW))


@dataclass(frozen=True, slots=True)
class QuoteFrom:
    """Marks a string of a pydantic type as a quote: ``Annotated[str, QuoteFrom("document")]``.

    The JSON Schema of the type gets the keyword ``x-substring-of``. The annotation itself validates
    nothing.

    Attributes:
        source: The name of the source.
        unit: As :class:`SubstringStateMachine` has it.
    """

    source: str
    unit: Unit = "words"

    def __post_init__(self) -> None:
        _check_quote(self.source, self.unit)

    def __get_pydantic_json_schema__(
        self, core_schema: Any, handler: Callable[[Any], dict[str, Any]]
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        if schema.get("type") in _OTHER_TYPES:
            raise TypeError(
                "QuoteFrom annotates a string; for an array, annotate its items: "
                "list[Annotated[str, QuoteFrom(...)]]"
            )
        unit = {} if self.unit == "words" else {SUBSTRING_UNIT: self.unit}
        return {**schema, SUBSTRING_OF: self.source, **unit}


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
