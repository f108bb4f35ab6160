r"""``regex``: regular expressions (ECMA-262, section 22.2.1, with the ``u`` flag).

Unnecessary escapes, ``]``, ``}`` and a ``-`` next to a class are accepted as in section B.1.2, as
:mod:`state_machines.regex.parser` does. The syntax is not a regular language. A regular subset is
accepted:

* Groups are nested at most :data:`MAX_NESTED_GROUPS` deep.
* In ``{m,n}`` the bounds are in order, ``m`` has at most three digits and ``n`` at most nine.
* A range of a character class has two ASCII characters, two ``\xXX`` or two ``\uXXXX`` in order, or
  an ASCII and a non-ASCII character. Other non-ASCII characters are single members.
* Scripts are those of :data:`SCRIPTS`, group names are ASCII, and ``\0`` is left out.

Two requirements are not enforced: the names of groups are unique, and the group of a back-reference
exists.
"""

from __future__ import annotations

from state_machines.grammar.lazy import reference
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import branch, concatenation, optional, repetition, symbols, union
from state_machines.grammar.symbols import CodePointSet, code_points
from state_machines.grammar.word_lists import word_list
from state_machines.json_schema.formats.primitives import exact_text, full_match

MAX_NESTED_GROUPS = 4
"""The nesting depth of groups."""

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
            full_match(rf"{_PLAIN}|\.|{_SET}|{_CHARACTER_ESCAPE}|{_BACK_REFERENCE}"),
            _character_class(),
        )
    )
    closing, quantifier = exact_text(")"), optional(_quantifier())
    always = union((exact_text("|"), full_match(_ASSERTION), concatenation(atom, quantifier)))
    disjunction = repetition(always, 0, None)
    for _ in range(MAX_NESTED_GROUPS):
        group = concatenation(full_match(_GROUP), disjunction, closing, quantifier)
        look_around = concatenation(full_match(_LOOK_AROUND), disjunction, closing)
        disjunction = repetition(union((always, group, look_around)), 0, None)
    return disjunction


def _character_class() -> Node:
    hyphen = optional(exact_text("-"))
    # A hyphen after a range or a set starts no range, so it is a literal hyphen.
    closed = concatenation(union((full_match(_SET), _ranges())), hyphen)
    single = full_match(rf"[^\\\]\-]|{_CHARACTER_ESCAPE}|\\b")
    items = repetition(union((closed, single)), 0, None)
    return concatenation(full_match(r"\[\^?"), hyphen, items, hyphen, exact_text("]"))


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
            word_list(plain),
            concatenation(exact_text(r"\x"), _hexadecimal_range("x", 2, "")),
            concatenation(exact_text(r"\u"), _hexadecimal_range("u", 4, "")),
        )
    )


def _hexadecimal_range(letter: str, width: int, first: str) -> Node:
    """Return the rest of ``\\uXXXX-\\uYYYY`` after the digits ``first``, unfolded lazily."""

    def make() -> Node:
        if len(first) == width:
            return concatenation(exact_text(rf"-\{letter}"), _at_least(first, 16))
        return branch(
            (_digit(digit, digit), _hexadecimal_range(letter, width, f"{first}{digit:x}"))
            for digit in range(16)
        )

    return reference(("hexadecimal range", letter, width, first), make)


def _quantifier() -> Node:
    counted = full_match(rf"\{{[0-9]{{1,{_MAX_BOUND_DIGITS}}},?\}}")
    interval = concatenation(exact_text("{"), _interval(""))
    return concatenation(
        union((full_match(r"[*+?]"), counted, interval)), optional(exact_text("?"))
    )


def _interval(first: str) -> Node:
    """Return the rest of ``m,n}`` after the digits ``first`` of ``m``, unfolded lazily."""

    def make() -> Node:
        longer = repetition(_any_digit(10), len(first), _MAX_BOUND_DIGITS - 1)
        last = union((_at_least(first, 10), concatenation(symbols(_digit(1, 9)), longer)))
        transitions = [(code_points(","), concatenation(last, exact_text("}")))] if first else []
        if first != "0" and len(first) < _MAX_FIRST_DIGITS:
            transitions.extend((_digit(d, d), _interval(f"{first}{d}")) for d in range(10))
        return branch(transitions)

    return reference(("interval", first), make)


def _at_least(digits: str, radix: int) -> Node:
    """Return the numbers with as many digits as ``digits`` that are not less."""
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
    """Return the digits of the values ``low`` to ``high``, in upper and lower case."""
    digits = "".join(f"{value:x}{value:X}" for value in range(low, high + 1))
    return CodePointSet.of(digits)
