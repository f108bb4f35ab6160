"""Parse tokens that a grammar gives by name or by number, as GBNF and Lark write them.

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
from typing import NoReturn

from state_machines.budgets import spend
from state_machines.context_free.notations.grammar_reader import GrammarReader
from state_machines.grammar.tokens import MAX_TOKEN_ID
from state_machines.limits import LIMITS
from state_machines.syntax_tree import SourcePosition, TokenSet

_NAME = re.compile(r"<[^<>\s\ud800-\udfff]{1,250}>")
_NUMBERS = re.compile(r"<\[\s*+(\^?)\s*+([^\]]*+)\]>")
_RANGE = re.compile(r"\s*+([0-9]++)\s*+(?:-\s*+([0-9]++)\s*+)?")
_DIGITS = len(str(MAX_TOKEN_ID))


def parse_token_set(source: str, position: SourcePosition, rule: str) -> TokenSet:
    """Return the tokens that a text with its angle brackets gives; see :func:`read_token_set`.

    Args:
        source: The text from ``<`` to ``>``.
        position: Where it stands in the grammar.
        rule: The name of the rule, for errors.
    """
    reader = _Excerpt(source, position)
    reader.rule = rule
    tokens = read_token_set(reader)
    if not reader.at_end:
        reader.invalid("a token by name or number was expected", 0)
    return tokens


class _Excerpt(GrammarReader):
    """A part of the text of a grammar."""

    def __init__(self, text: str, position: SourcePosition) -> None:
        super().__init__(text)
        self._start = position

    def source_position(self, offset: int) -> SourcePosition:
        """Return the line and the column of an offset in the grammar."""
        line, column = self._start
        return line, column + offset

    def class_member(self) -> NoReturn:
        """There is no class of characters in a token."""
        raise NotImplementedError  # pragma: no cover - never called


def read_token_set(reader: GrammarReader, *, negated: bool = False) -> TokenSet:
    """Read a token by name or numbers, from its ``<`` to its ``>``.

    Args:
        reader: The text; at a ``<``.
        negated: Whether a ``!`` was read before.

    Raises:
        GrammarSyntaxError: The brackets do not hold a name without white space, or numbers.
        UnsupportedGrammarError: There are more than ``LIMITS.token_ranges`` ranges.
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
        return TokenSet(names=(name[0],), is_negated=negated, position=position)
    reader.position = found.end()
    is_negated = bool(found[1]) != negated
    if found[2].strip() == "*":
        if is_negated:
            reader.invalid("no token is left", start, "<[*]> is every token")
        return TokenSet(is_negated=True, position=position)
    return TokenSet(
        ranges=_ranges(reader, found[2], found.start(2)), is_negated=is_negated, position=position
    )


def _ranges(reader: GrammarReader, text: str, offset: int) -> tuple[tuple[int, int], ...]:
    parts = text.split(",")
    if len(parts) > LIMITS.token_ranges:
        reader.unsupported(f"more than {LIMITS.token_ranges:,} ranges of tokens", offset)
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
