r"""Assertions that the dialects define differently, as expressions of the syntax tree."""

from __future__ import annotations

from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet, code_points
from state_machines.regex.unicode_versions import without
from state_machines.syntax_tree import (
    Characters,
    Choice,
    End,
    Expression,
    LookAhead,
    LookBehind,
    Series,
    WordBoundary,
)

_LF, _CR = code_points("\n"), code_points("\r")


def after(members: CodePointSet) -> Expression:
    """A member stands to the left."""
    return LookBehind(members, negated=False)


def not_after(members: CodePointSet) -> Expression:
    """No member stands to the left; true at the start of the text."""
    return LookBehind(members, negated=True)


def before(members: CodePointSet) -> Expression:
    """A member stands to the right."""
    return LookAhead(Characters(members), negated=False)


def not_before(members: CodePointSet) -> Expression:
    """No member stands to the right; true at the end of the text."""
    return LookAhead(Characters(members), negated=True)


LINE_START = not_after(~_LF)
"""The start of the text, or behind a line feed."""

LINE_END = not_before(~_LF)
"""The end of the text, or before a line feed."""

CRLF_LINE_START = Choice((not_after(~_LF), Series((after(_CR), not_before(_LF)))))
r"""The start of a line that ``\r\n``, ``\n`` or ``\r`` ends; never between ``\r`` and ``\n``."""

CRLF_LINE_END = Choice((not_before(~_CR), Series((not_after(_CR), before(_LF)))))
r"""The end of a line that ``\r\n``, ``\n`` or ``\r`` ends; never between ``\r`` and ``\n``."""

LAST_LINE_END = Choice((End(), LookAhead(Series((Characters(_LF), End())), negated=False)))
"""The end of the text, or before a line feed that ends it."""


def in_some_text(assertion: Expression) -> Expression:
    """The assertion, false in the empty text."""
    return Choice(
        (
            Series((after(ANY_CODE_POINT), assertion)),
            Series((before(ANY_CODE_POINT), assertion)),
        )
    )


def word_boundary(word: CodePointSet, negated: bool, disputed: CodePointSet) -> WordBoundary:
    r"""Return ``\b``, or ``\B`` if ``negated``.

    Args:
        word: The word characters.
        negated: Whether the assertion is ``\B``.
        disputed: Characters that are of words for some readers only. They fulfil neither assertion.
    """
    return WordBoundary(without(word, disputed), without(~word, disputed), negated)


def word_edge(edge: str, word: CodePointSet, disputed: CodePointSet) -> Expression:
    r"""Return ``\b{edge}`` of Rust's ``regex``; no edge is next to a disputed character.

    Args:
        edge: ``start``, ``end``, ``start-half`` or ``end-half``.
        word: The word characters.
        disputed: Characters that are of words for some readers only.
    """
    certain, possible = without(word, disputed), word | disputed
    match edge:
        case "start":
            return Series((not_after(possible), before(certain)))
        case "end":
            return Series((after(certain), not_before(possible)))
        case "start-half":
            return not_after(possible)
        case _:
            return not_before(possible)
