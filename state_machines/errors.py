"""The exceptions of the project, one tree.

::

    ProxyError
    ├── SchemaError                     where: a JSON Pointer into the schema
    │   ├── InvalidSchemaError          the schema itself is malformed
    │   ├── UnsupportedSchemaError      a keyword that would not be enforced
    │   └── UnsatisfiableSchemaError    no value satisfies the schema
    ├── PatternError                    where: an offset into the pattern
    │   ├── InvalidPatternError         not a regular expression
    │   └── UnsupportedPatternError     a construct that is not regular (back-reference, …)
    ├── GrammarError                    where: a line and a column of the grammar
    │   ├── GrammarSyntaxError          not a grammar in GBNF, or names that do not fit together
    │   ├── UnsupportedGrammarError     a grammar that takes too much work
    │   └── UnsatisfiableGrammarError   no text matches the grammar
    ├── VocabularyError                 a tokenizer that no vocabulary can be read from
    │   ├── MarkerError                 a marker of a tool format that the vocabulary lacks
    │   └── UnwritableTextError         nothing admitted can be written in the vocabulary's tokens
    ├── CompositionError                parts of an answer that cannot be put together
    │   └── ToolNameError               a tool whose name a tool format cannot write
    ├── InvalidArgumentError            an argument of another type, or that means nothing
    ├── MaxTokensTooSmallError             not even the shortest text fits into so many tokens
    ├── TokenRejectedError              ``advance`` with a token the mask forbids
    └── GrammarBudgetError              a grammar needs more states than its budget

Packages above add their own branches under ``ProxyError``; this one knows nothing of them.

Each error carries its facts as attributes; the sentence is only made by ``str``.
"""

from __future__ import annotations

from typing import Self

from state_machines.limits import LIMITS

__all__ = [
    "CompositionError",
    "GrammarBudgetError",
    "GrammarError",
    "GrammarSyntaxError",
    "InvalidArgumentError",
    "InvalidPatternError",
    "InvalidSchemaError",
    "MarkerError",
    "MaxTokensTooSmallError",
    "PatternError",
    "ProxyError",
    "SchemaError",
    "TokenRejectedError",
    "ToolNameError",
    "UnsatisfiableGrammarError",
    "UnsatisfiableSchemaError",
    "UnsupportedGrammarError",
    "UnsupportedPatternError",
    "UnsupportedSchemaError",
    "UnwritableTextError",
    "VocabularyError",
]


class ProxyError(Exception):
    """Root of every exception raised on purpose by this project.

    ``what`` says what is wrong, ``hint`` what to do about it (may be empty).
    """

    def __init__(self, what: str, *, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    def _where(self) -> str:
        return ""

    def __str__(self) -> str:
        text = f"{self.what}{self._where()}"
        return f"{text}. {self.hint}" if self.hint else text


class SchemaError(ProxyError):
    """A JSON Schema cannot be compiled.

    ``pointer`` is the JSON Pointer (RFC 6901) of the offending place as a URI fragment without
    ``#``: ``""`` is the whole schema. ``keyword`` is the keyword at fault, or ``None``.
    ``is_located`` tells whether whoever raised the error knew the place. ``tool`` names the tool
    whose parameters the schema describes, or is ``None``.
    """

    def __init__(
        self, what: str, *, pointer: str | None = None, keyword: str | None = None, hint: str = ""
    ) -> None:
        super().__init__(what, hint=hint)
        self.pointer = pointer or ""
        self.is_located = pointer is not None
        self.keyword = keyword
        self.tool: str | None = None

    def located(self, pointer: str, keyword: str | None) -> Self:
        """Return the same error at a place."""
        return type(self)(
            self.what, pointer=pointer, keyword=self.keyword or keyword, hint=self.hint
        )

    def _where(self) -> str:
        return f" (at #{self.pointer})"


class InvalidSchemaError(SchemaError):
    """The schema breaks its own specification."""


class UnsupportedSchemaError(SchemaError):
    """The schema asks for something that would not be enforced."""


class UnsatisfiableSchemaError(SchemaError):
    """No JSON value satisfies the schema."""


class PatternError(ProxyError):
    """A regular expression cannot be compiled. ``position`` is an offset in code points."""

    def __init__(self, what: str, *, pattern: str, position: int, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.pattern = pattern
        self.position = position

    def _where(self) -> str:
        shown = self.pattern
        if len(shown) > LIMITS.message_characters:
            shown = f"{shown[: LIMITS.message_characters]}…"
        return f" (at offset {self.position} of {shown!r})"


class InvalidPatternError(PatternError):
    """The text is not a regular expression (ECMA-262, ``u`` flag)."""


class UnsupportedPatternError(PatternError):
    """The expression uses a construct that no regular language has, or that is not built."""


class GrammarError(ProxyError):
    """A context-free grammar cannot be compiled.

    ``line`` and ``column`` count from 1, in code points. ``rule`` names the rule at fault, or is
    empty.
    """

    def __init__(
        self, what: str, *, line: int, column: int, rule: str = "", hint: str = ""
    ) -> None:
        super().__init__(what, hint=hint)
        self.line = line
        self.column = column
        self.rule = rule

    def _where(self) -> str:
        return f" (at line {self.line}, column {self.column} of the grammar)"


class GrammarSyntaxError(GrammarError):
    """The text is no grammar in GBNF, or a rule is missing or given twice."""


class UnsupportedGrammarError(GrammarError):
    """To compile the grammar takes more work than is allowed."""


class UnsatisfiableGrammarError(GrammarError):
    """No text matches the grammar."""


class VocabularyError(ProxyError):
    """A tokenizer's tokens cannot be turned into bytes."""


class MarkerError(VocabularyError):
    """A vocabulary cannot write ``marker``, without which no tool of ``family`` is called."""

    def __init__(self, what: str, *, family: str, marker: str, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.family = family
        self.marker = marker


class UnwritableTextError(VocabularyError):
    """No tokens of a vocabulary were found that write what must still come."""


class CompositionError(ProxyError):
    """Parts of an answer that cannot be put together; ``part`` names the one at fault."""

    def __init__(self, what: str, *, part: str, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.part = part

    def _where(self) -> str:
        return f" (in {self.part!r})"


class ToolNameError(CompositionError):
    """The calls of ``family`` cannot name the tool ``part``, or cannot tell it from another."""

    def __init__(self, what: str, *, part: str, family: str, hint: str = "") -> None:
        super().__init__(what, part=part, hint=hint)
        self.family = family


class InvalidArgumentError(ProxyError, ValueError):
    """``argument`` of a Python call is of another type, or has a value that means nothing."""

    def __init__(self, what: str, *, argument: str, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.argument = argument


class MaxTokensTooSmallError(ProxyError):
    """No admitted text fits into ``given`` tokens; ``needed`` is the least number that does.

    ``is_exact`` tells whether that is proven: if not, it is the least that was found.
    """

    def __init__(
        self, what: str, *, needed: int, given: int, is_exact: bool = True, hint: str = ""
    ) -> None:
        super().__init__(what, hint=hint)
        self.needed = needed
        self.given = given
        self.is_exact = is_exact


class TokenRejectedError(ProxyError):
    """A token was offered that the current state forbids; the state is unchanged."""

    def __init__(self, what: str, *, token_id: int, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.token_id = token_id


class GrammarBudgetError(ProxyError):
    """Deciding something about a grammar took more states than ``budget`` allows."""

    def __init__(self, what: str, *, budget: int, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.budget = budget
