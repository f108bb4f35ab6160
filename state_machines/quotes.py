"""Verbatim quotes: texts that are substrings of a source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from state_machines.budgets import step_budget
from state_machines.errors import GrammarBudgetError, InvalidArgumentError
from state_machines.grammar.boolean import intersection
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.node import EMPTY
from state_machines.grammar.nodes import repetition, symbols
from state_machines.grammar.substring import chunks_of, substring_language
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.json_schema.quotes import SUBSTRING_OF, SUBSTRING_UNIT
from state_machines.limits import LIMITS
from state_machines.machine import StateMachine

Unit = Literal["words", "chars"]
"""Where a quote may begin and end: between the words of its source, or anywhere."""

_OTHER_TYPES = {"array", "object", "number", "integer", "boolean", "null"}


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
        if not isinstance(source, str):
            raise InvalidArgumentError(
                f"source must be a string, not {type(source).__name__}", argument="source"
            )
        _check_unit(unit)
        try:
            with step_budget(LIMITS.compile_steps):
                quotes = substring_language(chunks_of(source, unit))
                if not allow_empty:
                    any_text = repetition(symbols(ANY_CODE_POINT), 1, None)
                    quotes = intersection((quotes, any_text))
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
        if not isinstance(self.source, str):
            raise InvalidArgumentError(
                f"source must be a string, not {type(self.source).__name__}", argument="source"
            )
        _check_unit(self.unit)

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


def _check_unit(unit: Any) -> None:
    if unit not in get_args(Unit):
        raise InvalidArgumentError(
            f"unit must be 'words' or 'chars', not {unit!r}", argument="unit"
        )
