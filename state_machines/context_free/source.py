"""The text of a grammar, and the reading steps that GBNF and Lark share.

All readers of both notations have one shape. A function reads one construct: it takes the source
and the position where the construct begins, and returns the position behind it and its value. So
``string(source, 8)`` of ``root ::= "a" b`` is ``(11, "a")``.

Both notations give tokens by name or by number:

==========================  ==========================================================
``<think>``, ``<|end|>``    the token with this text, which has the brackets
``<[1000]>``                the token with this number
``<[10-20,30]>``            any token of these numbers, ends included
``<[^5,7-9]>``              any token but those of these numbers
``<[*]>``                   any token
``!<think>``, ``!<[5]>``    any token but this one (GBNF)
==========================  ==========================================================
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

from state_machines.budgets import spend
from state_machines.errors import GrammarError, GrammarSyntaxError, UnsupportedGrammarError
from state_machines.grammar.tokens import MAX_TOKEN_ID
from state_machines.limits import LIMITS
from state_machines.syntax_tree import (
    HEXADECIMAL_ESCAPES,
    REPETITION_MARKS,
    Choice,
    Expression,
    NamedTokens,
    Repeat,
    SourcePosition,
)

SPACE_PER_STEP = 64
"""Characters of white space and comments that one step skips."""

_TOKEN_RANGES = 1_000
"""Ranges of token numbers in one set of tokens of a grammar."""

_LINE_END = re.compile("\n")
_TOKEN_NAME = re.compile(r"<(?!\[)[^<>\s\ud800-\udfff]{1,250}>")
_TOKEN_NUMBERS = re.compile(r"<\[\s*+(\^?)\s*+([^\]]*+)\]>")
_TOKEN_RANGE = re.compile(r"\s*+([0-9]++)\s*+(?:-\s*+([0-9]++)\s*+)?")
_DIGITS = len(str(MAX_TOKEN_ID))

_Value = TypeVar("_Value")

Read: TypeAlias = "Callable[[Source, int], tuple[int, _Value]]"
"""Reads a construct from a position on; returns the position behind it and its value."""

Operator: TypeAlias = "tuple[int, int, int | None]"
"""The position behind a repetition operator, and its bounds; ``None``: no upper bound."""


@dataclass(frozen=True, slots=True)
class Notation:
    """The patterns and readers in which GBNF and Lark differ.

    Attributes:
        space: White space and comments inside of brackets.
        line_space: White space and comments outside of brackets.
        plain_text: Characters of a string that stand for themselves.
        character: Reads another character of a string; its value is the code point.
        alternative: Reads an alternative.
        item: Reads an item, without the repetition operators behind it.
        operator: Reads a repetition operator, if there is one.
    """

    space: re.Pattern[str]
    line_space: re.Pattern[str]
    plain_text: re.Pattern[str]
    character: Read[int]
    alternative: Read[Expression]
    item: Read[Expression]
    operator: Callable[[Source, int], Operator | None]


class Source(NamedTuple):
    """The text of a grammar, with the context of the place that is being read.

    Attributes:
        text: The text.
        notation: Its notation.
        rule: The name of the rule that is being read, for errors.
        depth: The number of groups and nested grammars around the place.
        space: White space and comments that may stand there.
        line_ends: The positions of line feeds.
    """

    text: str
    notation: Notation
    space: re.Pattern[str]
    line_ends: tuple[int, ...]
    rule: str = ""
    depth: int = 0

    @classmethod
    def of(cls, text: str, notation: Notation) -> Source:
        """Return the source of a whole text."""
        line_ends = tuple(found.start() for found in _LINE_END.finditer(text))
        return cls(text, notation, notation.line_space, line_ends)

    def in_rule(self, name: str) -> Source:
        """Return the source inside of a rule."""
        return self._replace(rule=name)

    def inside(self, start: int, space: re.Pattern[str]) -> Source:
        """Return the source inside of a group or of a nested grammar that begins at ``start``."""
        if self.depth >= LIMITS.nested_groups:
            raise self.invalid(f"more than {LIMITS.nested_groups} groups inside each other", start)
        return self._replace(depth=self.depth + 1, space=space)

    def at(self, position: int, text: str) -> bool:
        """Return whether a text stands at a position."""
        return self.text.startswith(text, position)

    def skip(self, position: int, space: re.Pattern[str] | None = None) -> int:
        """Return the position behind white space and comments, by default as at this place."""
        character = self.text[position : position + 1]
        if "!" <= character <= "~" and character not in "/#":
            return position
        found = (space or self.space).match(self.text, position)
        assert found is not None, "the pattern matches the empty text"
        end = found.end()
        if end - position >= SPACE_PER_STEP:
            spend((end - position) // SPACE_PER_STEP)
        return end

    def place(self, position: int) -> SourcePosition:
        """Return the line and the column of a position."""
        line = bisect_left(self.line_ends, position)
        return line + 1, position - (self.line_ends[line - 1] if line else -1)

    def invalid(self, what: str, position: int, hint: str = "") -> GrammarError:
        """Return the error of text that is not of the notation."""
        return GrammarSyntaxError.at(self.place(position), what, self.rule, hint)

    def unsupported(self, what: str, position: int, hint: str = "") -> GrammarError:
        """Return the error of a construct that has a meaning but is not supported."""
        what = f"{what} is not supported"
        return UnsupportedGrammarError.at(self.place(position), what, self.rule, hint)


def alternatives(source: Source, position: int) -> tuple[int, Expression]:
    """Read alternatives with bars between them, which may stand on later lines."""
    notation = source.notation
    position, first = notation.alternative(source, position)
    branches = [first]
    while source.at(bar := source.skip(position, notation.space), "|"):
        position, branch = notation.alternative(source, bar + 1)
        branches.append(branch)
    return position, first if len(branches) == 1 else Choice(tuple(branches))


def group(source: Source, start: int, closing: str) -> tuple[int, Expression]:
    """Read alternatives in brackets."""
    inner = source.inside(start, source.notation.space)
    end, expression = alternatives(inner, start + 1)
    end = inner.skip(end)
    if not source.at(end, closing):
        raise source.invalid(f"missing {closing}", start)
    return end + 1, expression


def repeated(source: Source, position: int) -> tuple[int, Expression]:
    """Read one item, the repetition operators behind it, and space."""
    position, part = source.notation.item(source, position)
    position, marks = source.skip(position), 0
    while (operator := source.notation.operator(source, position)) is not None:
        marks += 1
        if marks > LIMITS.repetition_marks:
            raise source.invalid(
                f"more than {LIMITS.repetition_marks} repetition operators in a row", position
            )
        end, least, most = operator
        position, part = source.skip(end), Repeat(part, least, most)
    return position, part


def mark(source: Source, position: int) -> Operator | None:
    """Read a repetition operator of one character, if there is one."""
    bounds = REPETITION_MARKS.get(source.text[position : position + 1])
    return None if bounds is None else (position + 1, *bounds)


def counts(source: Source, start: int, end: int, least: str, most: str) -> Operator:
    """Return a repetition operator with counts.

    Args:
        source: The text.
        start: Where the operator begins, for errors.
        end: Where it ends.
        least: The digits of the lower bound.
        most: The digits of the upper bound; empty if there is none.
    """
    # Nine digits at most, since Python refuses to convert very long ones.
    for digits in (least, most):
        if digits.startswith("-"):
            raise source.invalid("a negative count", start)
        if len(digits) > 9 or int(digits or 0) > LIMITS.repetition_count:
            raise source.invalid(f"a count of more than {LIMITS.repetition_count:,}", start)
    min_count, max_count = int(least), int(most) if most else None
    if max_count is not None and max_count < min_count:
        raise source.invalid("counts that are out of order", start)
    return end, min_count, max_count


def string(source: Source, start: int) -> tuple[int, str]:
    """Read a string in quotes."""
    text, notation = source.text, source.notation
    position, parts = start + 1, []
    while not source.at(position, '"'):
        spend()
        plain = notation.plain_text.match(text, position)
        if plain is not None:
            position = plain.end()
            parts.append(plain[0])
        elif text[position : position + 1] in "\n":
            raise source.invalid('missing "', start)
        else:
            position, point = notation.character(source, position)
            parts.append(chr(point))
    return position + 1, "".join(parts)


def hexadecimal(source: Source, start: int) -> tuple[int, int]:
    r"""Read the digits of an escape by code point, such as ``\u0041``, from its backslash on."""
    count = HEXADECIMAL_ESCAPES[source.text[start + 1]]
    digits = source.text[start + 2 : start + 2 + count]
    if not re.fullmatch(f"[0-9A-Fa-f]{{{count}}}", digits):
        raise source.invalid(f"{count} hexadecimal digits were expected", start)
    return start + 2 + count, int(digits, 16)


def named_tokens(
    source: Source, start: int, *, is_negated: bool = False
) -> tuple[int, NamedTokens]:
    """Read a token by name or numbers, from its ``<`` on.

    Args:
        source: The text.
        start: The position of the ``<``.
        is_negated: Whether a ``!`` stands in front of it.
    """
    text, place = source.text, source.place(start)
    found = _TOKEN_NUMBERS.match(text, start)
    if found is None:
        name = _TOKEN_NAME.match(text, start)
        if name is None:
            raise source.invalid(
                "a token by name or number was expected",
                start,
                "Write <name> without spaces, <[1000]>, <[10-20,30]>, <[^5]> or <[*]>",
            )
        return name.end(), NamedTokens((name[0],), (), is_negated, place, name[0])
    is_negated ^= bool(found[1])
    ranges: list[tuple[int, int]] = []
    if found[2].strip() == "*":
        if is_negated:
            raise source.invalid("no token is left", start, "<[*]> is every token")
        is_negated = True
    else:
        ranges = _token_ranges(source, found[2], found.start(2))
    return found.end(), NamedTokens((), tuple(ranges), is_negated, place, found[0])


def _token_ranges(source: Source, text: str, position: int) -> list[tuple[int, int]]:
    ranges = []
    parts = text.split(",")
    if len(parts) > _TOKEN_RANGES:
        raise source.unsupported(f"more than {_TOKEN_RANGES:,} ranges of tokens", position)
    for part in parts:
        spend()
        found = _TOKEN_RANGE.fullmatch(part)
        if found is None:
            raise source.invalid("a number or a range of numbers was expected", position)
        numbers = [digits.lstrip("0") or "0" for digits in found.groups(found[1])]
        if any(len(digits) > _DIGITS or int(digits) > MAX_TOKEN_ID for digits in numbers):
            raise source.invalid(f"a token number of more than {MAX_TOKEN_ID:,}", position)
        first, last = map(int, numbers)
        if last < first:
            raise source.invalid("a range that is out of order", position)
        ranges.append((first, last))
        position += len(part) + 1
    return ranges
