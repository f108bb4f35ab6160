r"""``regex``: texts that are regular expressions of ECMA-262.

The syntax is that of ECMA-262, section 22.2.1, with the ``u`` flag, and as lenient as
:mod:`state_machines.regex.parser` where section B.1.2 gives a needless escape, ``]``, ``}`` or a
``-`` beside a class a meaning. It is not regular, and approximated from within:

* groups stand at most :data:`MAX_GROUPS` deep inside each other;
* in ``{m,n}`` the bounds are in order, ``m`` has at most three digits and ``n`` at most nine;
* a range of a class goes from a character of ASCII or a ``\xXX`` or ``\uXXXX`` to one of the
  same kind in order, or from ASCII to a character beyond it; other characters beyond ASCII are
  members by themselves;
* scripts are the ones of :data:`SCRIPTS`, group names are ASCII, ``\0`` is not written.

Not enforced is that a name is given to one group only and that a back-reference has its group.
"""

from __future__ import annotations

from state_machines.grammar.lazy import reference
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import branch, concatenation, optional, repetition, symbols, union
from state_machines.grammar.symbols import CodePointSet, code_points
from state_machines.grammar.tries import trie
from state_machines.regex import compile_pattern

__all__ = ["MAX_GROUPS", "SCRIPTS", "ecma_regex"]

MAX_GROUPS = 4
"""Groups that may stand inside each other."""

SCRIPTS = (
    *("Arabic", "Armenian", "Bengali", "Common", "Cyrillic", "Devanagari", "Ethiopic", "Georgian"),
    *("Greek", "Gujarati", "Gurmukhi", "Han", "Hangul", "Hebrew", "Hiragana", "Kannada"),
    *("Katakana", "Khmer", "Lao", "Latin", "Malayalam", "Mongolian", "Myanmar", "Sinhala"),
    *("Tamil", "Telugu", "Thai", "Tibetan"),
)

_HEX = "[0-9A-Fa-f]"
_NAME = r"[A-Za-z_$][0-9A-Za-z_$]*"
_CATEGORY = (
    r"(?:C[cfno]?|L[Clmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?|Letter|Mark|Number"
    r"|Punctuation|Symbol|Separator|Uppercase_Letter|Lowercase_Letter|Decimal_Number)"
)
_BINARY = "(?:ASCII|Alphabetic|Any|Assigned|Emoji|ID_Continue|ID_Start|Lowercase|Uppercase)"
_SCRIPT = rf"(?:Script|sc|Script_Extensions|scx)=(?:{'|'.join(SCRIPTS)})"
_SET = rf"\\(?:[dDwWsS]|[pP]\{{(?:{_CATEGORY}|{_BINARY}|{_SCRIPT})\}})"
_CHARACTER_ESCAPE = (
    rf"\\(?:[tnvfr]|c[A-Za-z]|x{_HEX}{{2}}|u{_HEX}{{4}}"
    rf"|u\{{0{{0,4}}(?:{_HEX}{{1,5}}|10{_HEX}{{4}})\}}|[^0-9A-Za-z])"
)
_BACK_REFERENCE = rf"\\(?:[1-9]|k<{_NAME}>)"
_PLAIN = r"[^\\^$.*+?()\[{|]"
_ASSERTION = r"\^|\$|\\[bB]"
_GROUP = rf"\((?:\?:|\?<{_NAME}>)?"
_LOOK_AROUND = r"\(\?<?[=!]"
_MAX_BOUND_DIGITS = 9
_MAX_FIRST_DIGITS = 3

_ENDPOINTS = [chr(point) for point in range(0x20, 0x7F) if chr(point) not in "\\]-"]


def ecma_regex() -> Node:
    """``Pattern`` (ECMA-262, section 22.2.1); see the module's docstring."""
    atom = union(
        (
            _language(rf"{_PLAIN}|\.|{_SET}|{_CHARACTER_ESCAPE}|{_BACK_REFERENCE}"),
            _character_class(),
        )
    )
    closing, quantifier = _text(")"), optional(_quantifier())
    always = union((_text("|"), _language(_ASSERTION), concatenation(atom, quantifier)))
    disjunction = repetition(always, 0, None)
    for _ in range(MAX_GROUPS):
        group = concatenation(_language(_GROUP), disjunction, closing, quantifier)
        look_around = concatenation(_language(_LOOK_AROUND), disjunction, closing)
        disjunction = repetition(union((always, group, look_around)), 0, None)
    return disjunction


def _character_class() -> Node:
    hyphen = optional(_text("-"))
    # A hyphen behind a range or a set begins no range, so it stands for itself.
    closed = concatenation(union((_language(_SET), _ranges())), hyphen)
    single = _language(rf"[^\\\]\-]|{_CHARACTER_ESCAPE}|\\b")
    items = repetition(union((closed, single)), 0, None)
    return concatenation(_language(r"\[\^?"), hyphen, items, hyphen, _text("]"))


def _ranges() -> Node:
    plain = (
        (
            f"{first}-",
            symbols(CodePointSet.of("".join(_ENDPOINTS[index:])) | code_points(0x80, 0x10FFFF)),
        )
        for index, first in enumerate(_ENDPOINTS)
    )
    return union(
        (
            trie((([ord(c) for c in text], last) for text, last in plain), code_points),
            concatenation(_text(r"\x"), _hexadecimal_range("x", 2, "")),
            concatenation(_text(r"\u"), _hexadecimal_range("u", 4, "")),
        )
    )


def _hexadecimal_range(letter: str, width: int, first: str) -> Node:
    """Return the rest of ``\\uXXXX-\\uYYYY`` after the digits ``first``, made when it is met."""

    def make() -> Node:
        if len(first) == width:
            return concatenation(_text(rf"-\{letter}"), _at_least(first, 16))
        return branch(
            (_digit(digit, digit), _hexadecimal_range(letter, width, f"{first}{digit:x}"))
            for digit in range(16)
        )

    return reference(("hexadecimal range", letter, width, first), make)


def _quantifier() -> Node:
    counted = _language(rf"\{{[0-9]{{1,{_MAX_BOUND_DIGITS}}},?\}}")
    interval = concatenation(_text("{"), _interval(""))
    return concatenation(union((_language(r"[*+?]"), counted, interval)), optional(_text("?")))


def _interval(first: str) -> Node:
    """Return the rest of ``m,n}`` after the digits ``first`` of ``m``, made when it is met."""

    def make() -> Node:
        longer = repetition(_any_digit(10), len(first), _MAX_BOUND_DIGITS - 1)
        last = union((_at_least(first, 10), concatenation(symbols(_digit(1, 9)), longer)))
        row = [(code_points(","), concatenation(last, _text("}")))] if first else []
        if first != "0" and len(first) < _MAX_FIRST_DIGITS:
            row.extend((_digit(d, d), _interval(f"{first}{d}")) for d in range(10))
        return branch(row)

    return reference(("interval", first), make)


def _at_least(digits: str, radix: int) -> Node:
    """Return the numbers of as many digits that are not below the given one."""
    result = EPSILON
    for width, mark in enumerate(reversed(digits)):
        value = int(mark, radix)
        larger = _digit(value + 1, radix - 1)
        rest = repetition(_any_digit(radix), width, width)
        result = branch([(_digit(value, value), result), *([(larger, rest)] if larger else [])])
    return result


def _any_digit(radix: int) -> Node:
    return symbols(_digit(0, radix - 1))


def _digit(low: int, high: int) -> CodePointSet:
    """Return the digits, of either case, of the values from ``low`` to ``high``."""
    digits = "".join(f"{value:x}{value:X}" for value in range(low, high + 1))
    return CodePointSet.of(digits)


def _text(text: str) -> Node:
    return trie([([ord(character) for character in text], EPSILON)], code_points)


def _language(pattern: str) -> Node:
    return compile_pattern(pattern, search=False)
