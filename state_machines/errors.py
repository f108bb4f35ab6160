"""The exceptions of the project, one tree.

::

    ProxyError
    ├── SchemaError (V)                 located by a JSON Pointer into the schema
    │   ├── InvalidSchemaError          the schema is malformed
    │   ├── UnsupportedSchemaError      a keyword cannot be enforced
    │   ├── UnsatisfiableSchemaError    no value satisfies the schema
    │   └── MissingSourceError          a source of quotes is not given
    ├── PatternError (V)                located by an offset into the pattern
    │   ├── InvalidPatternError         not a regular expression
    │   └── UnsupportedPatternError     a construct that is not regular (back-reference, …)
    ├── GrammarError (V)                located by line and column of the grammar
    │   ├── GrammarSyntaxError          a syntax error, or a rule that is missing or defined twice
    │   ├── UnsupportedGrammarError     an unsupported construct, or too much work to compile
    │   └── UnsatisfiableGrammarError   no text matches the grammar
    ├── StructuralTagError (V)          located by a JSON Pointer into the structural tag
    │   ├── InvalidStructuralTagError   the structural tag is malformed
    │   └── UnsupportedStructuralTagError  a part of it cannot be enforced
    ├── VocabularyError                 the tokens of a tokenizer cannot be read as bytes
    │   ├── UnknownTokenError           the vocabulary lacks a token that a grammar names
    │   ├── MarkerError                 the vocabulary lacks a marker of a tool format
    │   └── UnwritableTextError         no tokens of the vocabulary write a required text
    ├── CompositionError (V)            parts of an answer that cannot be combined
    │   └── ToolNameError               two tools of a request have the same name
    ├── InvalidArgumentError (V)        an argument has a wrong type or value
    ├── MaxTokensTooSmallError (V)      no text fits into ``max_tokens``
    ├── TokenRejectedError              ``advance`` got a token that the mask forbids
    └── GrammarBudgetError              a computation exceeds its work budget

Errors marked (V), and those below them, are also ``ValueError``s. Packages above add their own
branches under ``ProxyError``.

Each error carries its facts as attributes: the problem (``what``), its location, and a remedy
(``hint``). ``str(error)`` joins them to a message.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Self

from state_machines.limits import LIMITS


@dataclass(eq=False, repr=False)
class ProxyError(Exception):
    """Base class of all exceptions that this project raises.

    Attributes:
        what: The problem.
        hint: The remedy; may be empty.
    """

    what: str
    hint: str = field(default="", kw_only=True)

    @property
    def summary(self) -> str:
        """The problem and its location, without the remedy."""
        return f"{self.what}{self._where()}"

    def _where(self) -> str:
        return ""

    def __str__(self) -> str:
        return f"{self.summary}. {self.hint}" if self.hint else self.summary

    def __reduce__(self) -> tuple[Any, ...]:
        # The constructors of subclasses require keyword arguments, which `args` lacks.
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[ProxyError], args: tuple[Any, ...], facts: dict[str, Any]) -> ProxyError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(facts)
    return error


class SchemaError(ProxyError, ValueError):
    """A JSON Schema cannot be compiled.

    Attributes:
        pointer: JSON Pointer (RFC 6901) of the offending subschema, as a URI fragment without
            ``#``; ``""`` is the whole schema.
        is_located: Whether ``pointer`` is known.
        keyword: The offending keyword, or ``None``.
        tool: Name of the tool whose parameters the schema describes, or ``None``.
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
        """Return the same error with a location."""
        error = copy(self)
        error.pointer, error.is_located = pointer, True
        error.keyword = self.keyword or keyword
        return error

    def of_tool(self, tool: str) -> Self:
        """Return the same error, of the schema of a tool's parameters."""
        error = copy(self)
        error.what = f"parameters of the tool {tool!r}: {self.what}"
        error.args = (error.what,)
        error.tool = tool
        return error

    def _where(self) -> str:
        return f" (at #{self.pointer})"


class InvalidSchemaError(SchemaError):
    """The schema violates the specification of its dialect."""


class UnsupportedSchemaError(SchemaError):
    """The schema has a keyword, or a combination of keywords, that cannot be enforced."""


class UnsatisfiableSchemaError(SchemaError):
    """No JSON value satisfies the schema."""


class MissingSourceError(SchemaError):
    """The schema quotes from a source that is not given.

    Attributes:
        source: The name of the source.
        known: The names of the sources that are given.
    """

    def __init__(
        self, what: str, *, source: str, known: tuple[str, ...] = (), **located: str
    ) -> None:
        super().__init__(what, **located)
        self.source = source
        self.known = known


@dataclass(eq=False, repr=False, kw_only=True)
class PatternError(ProxyError, ValueError):
    """A regular expression cannot be compiled.

    Attributes:
        pattern: The pattern.
        position: Offset of the error in the pattern, in code points.
    """

    pattern: str
    position: int

    def _where(self) -> str:
        shown = self.pattern
        if len(shown) > LIMITS.message_characters:
            shown = f"{shown[: LIMITS.message_characters]}…"
        return f" (at offset {self.position} of {shown!r})"


class InvalidPatternError(PatternError):
    """The text is not a regular expression of its dialect."""


class UnsupportedPatternError(PatternError):
    """The pattern uses a construct that is not regular, or that is not implemented."""


@dataclass(eq=False, repr=False, kw_only=True)
class GrammarError(ProxyError, ValueError):
    """A context-free grammar cannot be compiled.

    Attributes:
        line: Line of the error, counted from 1.
        column: Column of the error, in code points, counted from 1.
        rule: Name of the offending rule, or ``""``.
        pointer: JSON Pointer of the offending subschema, as :class:`SchemaError` has it, if the
            error is in a schema inside the grammar; else ``None``.
    """

    line: int
    column: int
    rule: str = ""
    pointer: str | None = None

    @classmethod
    def at(cls, place: tuple[int, int], what: str, rule: str = "", hint: str = "") -> Self:
        """Return the error at a line and a column."""
        line, column = place
        return cls(what, line=line, column=column, rule=rule, hint=hint)

    def _where(self) -> str:
        return f" (at line {self.line}, column {self.column} of the grammar)"


class GrammarSyntaxError(GrammarError):
    """The text is not a grammar, or a rule is missing or defined twice."""


class UnsupportedGrammarError(GrammarError):
    """The grammar has a construct that is not supported, or takes too much work to compile."""


class UnsatisfiableGrammarError(GrammarError):
    """No text matches the grammar, or none of a rule keeps the rule's limit on tokens."""


@dataclass(eq=False, repr=False, kw_only=True)
class StructuralTagError(ProxyError, ValueError):
    """A structural tag cannot be compiled.

    Attributes:
        pointer: JSON Pointer (RFC 6901) of the error in the structural tag; ``""`` is all of it.
    """

    pointer: str

    def _where(self) -> str:
        return f" (at #{self.pointer})"


class InvalidStructuralTagError(StructuralTagError):
    """The structural tag is malformed."""


class UnsupportedStructuralTagError(StructuralTagError):
    """A part of the structural tag cannot be enforced, or compiling it takes too much work."""


class VocabularyError(ProxyError):
    """The tokens of a tokenizer cannot be read as bytes."""


@dataclass(eq=False, repr=False, kw_only=True)
class UnknownTokenError(VocabularyError):
    """A grammar names a token that the vocabulary does not have, or whose place it cannot take.

    Attributes:
        token: The text or the number of the token, as the grammar writes it.
        line: Line in the grammar, from 1.
        column: Column in that line, from 1.
        nearest: Texts of the special tokens that are most like it.
    """

    token: str
    line: int
    column: int
    nearest: tuple[str, ...] = ()

    def _where(self) -> str:
        return f" (at line {self.line}, column {self.column} of the grammar)"


@dataclass(eq=False, repr=False, kw_only=True)
class MarkerError(VocabularyError):
    """The vocabulary cannot write a marker that a tool format requires.

    Attributes:
        family: Name of the tool format.
        marker: The marker.
    """

    family: str
    marker: str


class UnwritableTextError(VocabularyError):
    """No tokens of the vocabulary were found that complete the text."""


@dataclass(eq=False, repr=False, kw_only=True)
class CompositionError(ProxyError, ValueError):
    """Parts of an answer cannot be combined.

    Attributes:
        part: Name of the offending part.
    """

    part: str

    def _where(self) -> str:
        return f" (in {self.part!r})"


@dataclass(eq=False, repr=False, kw_only=True)
class ToolNameError(CompositionError):
    """A tool format cannot distinguish the names of two tools.

    Attributes:
        part: Name of the tool.
        family: Name of the tool format.
    """

    family: str


@dataclass(eq=False, repr=False, kw_only=True)
class InvalidArgumentError(ProxyError, ValueError):
    """An argument has a wrong type or an invalid value.

    Attributes:
        argument: Name of the argument.
    """

    argument: str


class ToolSchemaWarning(UserWarning):
    """A tool format cannot write an optional property of a tool, which is left out of its calls."""


def has_surrogate(text: str) -> bool:
    """Return whether a text has a lone surrogate, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def check_choice(argument: str, value: object, choices: Iterable[str]) -> None:
    """Raise :class:`InvalidArgumentError` for a value that is none of the choices."""
    known = tuple(choices)
    if not isinstance(value, str) or value not in known:
        raise InvalidArgumentError(
            f"{argument} must be one of {', '.join(map(repr, known))}, not {value!r}",
            argument=argument,
        )


@dataclass(eq=False, repr=False, kw_only=True)
class MaxTokensTooSmallError(ProxyError, ValueError):
    """No text of the language fits into ``max_tokens``.

    Attributes:
        needed: The smallest ``max_tokens`` that is known to be enough; with ``is_exact=False``, if
            the output is extremely long, a lower bound.
        given: The ``max_tokens`` of the request.
        is_exact: Whether it is proven that ``needed`` is the smallest number that is enough.
    """

    needed: int
    given: int
    is_exact: bool = True


@dataclass(eq=False, repr=False, kw_only=True)
class TokenRejectedError(ProxyError):
    """The current state forbids a token; the state is unchanged.

    Attributes:
        token_id: The token.
    """

    token_id: int


@dataclass(eq=False, repr=False, kw_only=True)
class GrammarBudgetError(ProxyError):
    """A computation on a grammar took more work than its budget allows.

    Attributes:
        budget: The budget, in steps or states.
    """

    budget: int
