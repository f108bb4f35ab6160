"""The base of the parsers of GBNF and Lark: errors with line and column, and tokens.

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
from abc import abstractmethod
from bisect import bisect_left
from typing import ClassVar, NoReturn

from state_machines.budgets import spend
from state_machines.errors import GrammarSyntaxError, UnsupportedGrammarError
from state_machines.grammar.tokens import MAX_TOKEN_ID
from state_machines.limits import LIMITS
from state_machines.syntax_tree import (
    Choice,
    Expression,
    NamedTokens,
    Repeat,
    Series,
    SourcePosition,
)
from state_machines.text_reader import REPETITION_MARKS, TextReader

SPACE_PER_STEP = 64
"""Characters of white space and comments that one step skips."""

_TOKEN_RANGES = 1_000
"""Ranges of token numbers in one set of tokens of a grammar."""

_LINE_END = re.compile("\n")
_NAME = re.compile(r"<[^<>\s\ud800-\udfff]{1,250}>")
_NUMBERS = re.compile(r"<\[\s*+(\^?)\s*+([^\]]*+)\]>")
_RANGE = re.compile(r"\s*+([0-9]++)\s*+(?:-\s*+([0-9]++)\s*+)?")
_DIGITS = len(str(MAX_TOKEN_ID))


class GrammarReader(TextReader):
    """Base of the parsers of grammars.

    Raises :class:`~state_machines.errors.GrammarSyntaxError` and
    :class:`~state_machines.errors.UnsupportedGrammarError`.
    """

    plain_text: ClassVar[re.Pattern[str]]
    """Characters of a string that stand for themselves."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.rule = ""
        """The name of the rule that is being read."""
        self.depth = 0
        """Groups and nested grammars around the position."""
        self._line_ends = [found.start() for found in _LINE_END.finditer(text)]

    def source_position(self, offset: int) -> SourcePosition:
        """Return the line and the column of an offset."""
        line = bisect_left(self._line_ends, offset)
        line_start = self._line_ends[line - 1] if line else -1
        return line + 1, offset - line_start

    @abstractmethod
    def ends_series(self) -> bool:
        """Whether a series ends here: at the end, or in front of some characters."""

    @abstractmethod
    def string_character(self, start: int) -> int:
        """Read a character that :attr:`plain_text` leaves out, in the string from ``start`` on."""

    @abstractmethod
    def item(self) -> Expression:
        """Read one item, without the repetition operators after it."""

    @abstractmethod
    def repetition(self) -> tuple[int, int | None] | None:
        """Read one repetition operator, if there is one; return its bounds."""

    @abstractmethod
    def skip_space(self) -> None:
        """Skip white space and comments inside a rule."""

    def end_of_space(self, position: int, space: re.Pattern[str]) -> int:
        """Return the end of white space and comments, which ``space`` matches as a whole."""
        character = self.text[position : position + 1]
        if "!" <= character <= "~" and character not in "/#":
            return position
        found = space.match(self.text, position)
        assert found is not None, "the pattern matches the empty text"
        end = found.end()
        if end - position >= SPACE_PER_STEP:
            spend((end - position) // SPACE_PER_STEP)
        return end

    def alternatives(self) -> Expression:
        """Read alternatives with ``|`` between them."""
        branches = [self.alternative()]
        while self.bar():
            branches.append(self.alternative())
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def bar(self) -> bool:
        """Read the ``|`` between two alternatives; return whether there was one."""
        return self.take("|")

    def alternative(self) -> Expression:
        """Read one alternative."""
        self.skip_space()
        return self.series()

    def series(self) -> Expression:
        """Read items in a row."""
        parts: list[Expression] = []
        while not self.ends_series():
            spend()
            parts.append(self.repeated())
        return parts[0] if len(parts) == 1 else Series(tuple(parts))

    def group(self, closing: str) -> Expression:
        """Read a group, from its opening bracket on."""
        start = self.position
        self.position += 1
        self.enter(start)
        inner = self.alternatives()
        self.skip_space()
        if not self.take(closing):
            self.invalid(f"missing {closing}", start)
        self.depth -= 1
        return inner

    def string(self) -> str:
        """Read a string, from its opening quote on."""
        start = self.position
        self.position += 1
        plain = self.plain_text.match(self.text, self.position)
        if plain is not None and self.text.startswith('"', plain.end()):
            spend()
            self.position = plain.end() + 1
            return plain[0]
        parts: list[str] = []
        while not self.take('"'):
            if self.at_end:
                self.invalid('missing "', start)
            spend()
            plain = self.plain_text.match(self.text, self.position)
            if plain is None:
                parts.append(chr(self.string_character(start)))
            else:
                parts.append(plain[0])
                self.position = plain.end()
        return "".join(parts)

    def repeated(self) -> Expression:
        """Read one item and the repetition operators after it."""
        part = self.item()
        marks = 0
        self.skip_space()
        start = self.position
        while (bounds := self.repetition()) is not None:
            marks += 1
            if marks > LIMITS.repetition_marks:
                self.invalid(
                    f"more than {LIMITS.repetition_marks} repetition operators in a row", start
                )
            part = Repeat(part, *bounds)
            self.skip_space()
            start = self.position
        return part

    def mark(self) -> tuple[int, int | None] | None:
        """Read a repetition operator of one character, if there is one; return its bounds."""
        bounds = REPETITION_MARKS.get(self.text[self.position : self.position + 1])
        if bounds is not None:
            self.position += 1
        return bounds

    def bounds(self, least: str, most: str, start: int) -> tuple[int, int | None]:
        """Return the bounds of a repetition; those without digits have no upper bound.

        Args:
            least: The digits of the lower bound.
            most: The digits of the upper bound, which may be empty.
            start: Where the operator begins, for errors.
        """
        # Nine digits at most, since Python refuses to convert very long ones.
        for digits in (least, most):
            if digits.startswith("-"):
                self.invalid("a negative count", start)
            if len(digits) > 9 or int(digits or 0) > LIMITS.repetition_count:
                self.invalid(f"a count of more than {LIMITS.repetition_count:,}", start)
        min_count, max_count = int(least), int(most) if most else None
        if max_count is not None and max_count < min_count:
            self.invalid("counts that are out of order", start)
        return min_count, max_count

    def enter(self, start: int) -> None:
        """Begin a group or a nested grammar."""
        self.depth += 1
        if self.depth > LIMITS.nested_groups:
            self.invalid(f"more than {LIMITS.nested_groups} groups inside each other", start)

    def invalid(self, what: str, position: int | None = None, hint: str = "") -> NoReturn:
        line, column = self.source_position(self.position if position is None else position)
        raise GrammarSyntaxError(what, line=line, column=column, rule=self.rule, hint=hint)

    def unsupported(self, what: str, position: int | None = None, hint: str = "") -> NoReturn:
        line, column = self.source_position(self.position if position is None else position)
        raise UnsupportedGrammarError(
            f"{what} is not supported", line=line, column=column, rule=self.rule, hint=hint
        )


def read_named_tokens(reader: GrammarReader, *, negated: bool = False) -> NamedTokens:
    """Read a token by name or numbers, from its ``<`` to its ``>``.

    Args:
        reader: The text; at a ``<``.
        negated: Whether a ``!`` was read before.

    Raises:
        GrammarSyntaxError: The brackets do not hold a name without white space, or numbers.
        UnsupportedGrammarError: There are more than ``_TOKEN_RANGES`` ranges.
    """
    start = reader.position
    position = reader.source_position(start)
    found = _NUMBERS.match(reader.text, start)
    if found is None:
        name = _NAME.match(reader.text, start)
        if name is None or reader.text.startswith("<[", start):
            reader.invalid(
                "a token by name or number was expected",
                start,
                "Write <name> without spaces, <[1000]>, <[10-20,30]>, <[^5]> or <[*]>",
            )
        reader.position = name.end()
        return NamedTokens(names=(name[0],), is_negated=negated, position=position)
    reader.position = found.end()
    is_negated = bool(found[1]) != negated
    if found[2].strip() == "*":
        if is_negated:
            reader.invalid("no token is left", start, "<[*]> is every token")
        return NamedTokens(is_negated=True, position=position)
    return NamedTokens(
        ranges=_ranges(reader, found[2], found.start(2)), is_negated=is_negated, position=position
    )


def _ranges(reader: GrammarReader, text: str, offset: int) -> tuple[tuple[int, int], ...]:
    parts = text.split(",")
    if len(parts) > _TOKEN_RANGES:
        reader.unsupported(f"more than {_TOKEN_RANGES:,} ranges of tokens", offset)
    ranges: list[tuple[int, int]] = []
    for part in parts:
        spend()
        found = _RANGE.fullmatch(part)
        if found is None:
            reader.invalid("a number or a range of numbers was expected", offset)
        numbers = [digits.lstrip("0") or "0" for digits in found.groups(found[1])]
        if any(len(digits) > _DIGITS or int(digits) > MAX_TOKEN_ID for digits in numbers):
            reader.invalid(f"a token number of more than {MAX_TOKEN_ID:,}", offset)
        first, last = map(int, numbers)
        if last < first:
            reader.invalid("a range that is out of order", offset)
        ranges.append((first, last))
        offset += len(part) + 1
    return tuple(ranges)
