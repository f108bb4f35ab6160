"""Response formats whose answers are texts: patterns, grammars, and lists of texts.

Each stands for a state machine that is compiled when it is first used. They can be compared, sent
to other processes, and used again: an engine compiles equal formats once.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args

from pydantic import GetCoreSchemaHandler

# By its name, since the machines of grammars are imported when they are first used.
import state_machines
from state_machines import StateMachine
from state_machines.errors import has_surrogate
from state_machines.machine import PatternSyntax

from .checks import as_list, short_repr
from .errors import InvalidResponseFormatError

T = TypeVar("T")


class TextFormat(ABC, Generic[T]):
    """A response format whose ``parsed`` is the text of the answer; ``T`` is ``str``."""

    what: ClassVar[str]
    """The format in errors."""

    @abstractmethod
    def machine(self) -> StateMachine:
        """Return the state machine of the texts, compiled.

        Raises:
            PatternError: The pattern is refused.
            GrammarError: The grammar is refused.
        """

    def __repr__(self) -> str:
        first, *others = fields(self)  # type: ignore[arg-type]  # the classes are dataclasses
        shown = [repr(getattr(self, first.name))]
        for field in others:
            value = getattr(self, field.name)
            if value != field.default:
                shown.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        raise InvalidResponseFormatError(
            f"{type(self).__name__} is a response format, and cannot constrain a value inside JSON",
            hint="Use Annotated[str, Field(pattern=...)] there, or Tool.from_grammar for a tool "
            "that takes one text.",
        )

    def _check_text(self, text: object, hint: str = "") -> None:
        if not isinstance(text, str):
            raise InvalidResponseFormatError(
                f"{self.what} is a string, not {short_repr(text)}", hint=hint
            )
        if has_surrogate(text):
            raise InvalidResponseFormatError(f"{self.what} has a lone surrogate")


@dataclass(frozen=True, slots=True, repr=False)
class Regex(TextFormat[str]):
    r"""The texts that a regular expression matches from beginning to end.

    Attributes:
        pattern: The regular expression.
        syntax: ``"ecma-262"`` with the ``u`` flag, as in JSON Schema, or ``"rust"``, the syntax of
            Rust's ``regex`` crate, as in Lark and in OpenAI's custom tools.

    Raises:
        InvalidResponseFormatError: A value has the wrong type.

    >>> Regex(r"\d{4}-\d\d").machine().matches("2024-05")
    True
    """

    what: ClassVar = "a regular expression"

    pattern: str
    syntax: PatternSyntax = "ecma-262"

    def __post_init__(self) -> None:
        hint = ""
        if isinstance(self.pattern, re.Pattern):
            hint = "Give the text of the pattern: Regex(pattern.pattern)."
        self._check_text(self.pattern, hint)
        known = get_args(PatternSyntax)
        if self.syntax not in known:
            raise InvalidResponseFormatError(
                f"there is no syntax {short_repr(self.syntax)} of regular expressions",
                hint=f"Known are {', '.join(map(repr, known))}.",
            )

    def machine(self) -> StateMachine:
        """Return the state machine of the pattern."""
        return state_machines.RegexStateMachine(self.pattern, syntax=self.syntax)


@dataclass(frozen=True, slots=True, repr=False)
class _Grammar(TextFormat[str]):
    grammar: str
    start: str

    def __post_init__(self) -> None:
        self._check_text(self.grammar, "Give the text of the grammar.")
        if not isinstance(self.start, str):
            raise InvalidResponseFormatError(
                f"start is the name of a rule, not {short_repr(self.start)}"
            )


@dataclass(frozen=True, slots=True, repr=False)
class Lark(_Grammar):
    """The texts of a grammar in Lark, as llguidance reads it.

    Attributes:
        grammar: The grammar.
        start: The rule that whole texts match.

    Raises:
        InvalidResponseFormatError: A value has the wrong type.

    >>> Lark('start: "yes" | "no"').machine().matches("no")
    True
    """

    what: ClassVar = "a grammar in Lark"

    grammar: str
    start: str = "start"

    def machine(self) -> StateMachine:
        """Return the state machine of the grammar."""
        return state_machines.GrammarStateMachine.from_lark(self.grammar, self.start)


@dataclass(frozen=True, slots=True, repr=False)
class GBNF(_Grammar):
    """The texts of a grammar in GBNF, the notation of llama.cpp.

    Attributes:
        grammar: The grammar.
        start: The rule that whole texts match.

    Raises:
        InvalidResponseFormatError: A value has the wrong type.

    >>> GBNF('root ::= "yes" | "no"').machine().matches("no")
    True
    """

    what: ClassVar = "a grammar in GBNF"

    grammar: str
    start: str = "root"

    def machine(self) -> StateMachine:
        """Return the state machine of the grammar."""
        return state_machines.GrammarStateMachine.from_gbnf(self.grammar, self.start)


@dataclass(frozen=True, slots=True, repr=False)
class Choice(TextFormat[str]):
    """One of several texts. ``Literal`` and enums are the same as JSON, in quotes.

    Attributes:
        texts: The texts; any iterable of strings becomes a tuple.

    Raises:
        InvalidResponseFormatError: There is no text, or a value is no string.

    >>> Choice(["yes", "no"])
    Choice(('yes', 'no'))
    """

    what: ClassVar = "a text of a choice"

    texts: tuple[str, ...]

    def __init__(self, texts: Iterable[str]) -> None:
        items = as_list(texts)
        if not items:
            raise InvalidResponseFormatError(
                "a choice has at least one text"
                if items is not None
                else f"a choice is a list of texts, not {short_repr(texts)}",
                hint='Give the texts in brackets: Choice(["yes", "no"]).',
            )
        for text in items:
            self._check_text(text, "An enum, and Literal, is a response format itself.")
        object.__setattr__(self, "texts", tuple(dict.fromkeys(items)))

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        return handler(Literal[self.texts])

    def machine(self) -> StateMachine:
        """Return the state machine of the texts."""
        return state_machines.ChoiceStateMachine(self.texts)


def grammar_format(text: Any) -> Lark | GBNF:
    """Return the format of a grammar in GBNF or Lark.

    Raises:
        InvalidResponseFormatError: The grammar is no string.
    """
    notation_of = state_machines.GrammarStateMachine.notation_of
    return GBNF(text) if isinstance(text, str) and notation_of(text) == "gbnf" else Lark(text)
