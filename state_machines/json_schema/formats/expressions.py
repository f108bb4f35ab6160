r"""``regex``: regular expressions (ECMA-262, section 22.2.1, with the ``u`` flag).

Unnecessary escapes, ``]``, ``}`` and a ``-`` next to a class are accepted as in section B.1.2, as
:mod:`state_machines.regex.parser` does. The syntax is not a regular language. A regular subset is
accepted:

* Groups are nested at most :data:`MAX_NESTED_GROUPS` deep.
* In ``{m,n}`` the bounds are in order, ``m`` has at most two digits and ``n`` at most nine.
* A range of a character class has two ASCII characters in order, or an ASCII and a non-ASCII
  character. Escapes and other non-ASCII characters are single members.
* Scripts are those of :data:`SCRIPTS`, group names are ASCII, and ``\0`` is left out.

Two requirements are not enforced: the names of groups are unique, and the group of a back-reference
exists.
"""

from __future__ import annotations

from functools import partial

from state_machines.grammar.lazy import reference
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import concatenation, optional, repetition, symbols, union
from state_machines.grammar.symbols import CodePointSet, code_points
from state_machines.grammar.word_lists import literals, word_list
from state_machines.regex import compile_pattern

MAX_NESTED_GROUPS = 4
"""The nesting depth of groups."""

SCRIPTS = (
    *("Arabic", "Armenian", "Bengali", "Common", "Cyrillic", "Devanagari", "Ethiopic", "Georgian"),
    *("Greek", "Gujarati", "Gurmukhi", "Han", "Hangul", "Hebrew", "Hiragana", "Kannada"),
    *("Katakana", "Khmer", "Lao", "Latin", "Malayalam", "Mongolian", "Myanmar", "Sinhala"),
    *("Tamil", "Telugu", "Thai", "Tibetan"),
)

full_match = partial(compile_pattern, search=False)

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

_ENDPOINTS = [chr(point) for point in range(0x20, 0x7F) if chr(point) not in "\\]-"]


def ecma_regex() -> Node:
    """``Pattern`` (ECMA-262, section 22.2.1); see the module's docstring."""
    atom = union(
        (
            full_match(rf"{_PLAIN}|\.|{_SET}|{_CHARACTER_ESCAPE}|{_BACK_REFERENCE}"),
            _character_class(),
        )
    )
    closing, quantifier = literals((")",)), optional(_quantifier())
    always = union((literals(("|",)), full_match(_ASSERTION), concatenation(atom, quantifier)))
    disjunction = repetition(always, 0, None)
    for _ in range(MAX_NESTED_GROUPS):
        group = concatenation(full_match(_GROUP), disjunction, closing, quantifier)
        look_around = concatenation(full_match(_LOOK_AROUND), disjunction, closing)
        disjunction = repetition(union((always, group, look_around)), 0, None)
    return disjunction


def _character_class() -> Node:
    hyphen = optional(literals(("-",)))
    ranges = word_list(
        (
            f"{first}-",
            symbols(CodePointSet.of("".join(_ENDPOINTS[index:])) | code_points(0x80, 0x10FFFF)),
        )
        for index, first in enumerate(_ENDPOINTS)
    )
    # A hyphen after a range or a set starts no range, so it is a literal hyphen.
    closed = concatenation(union((full_match(_SET), ranges)), hyphen)
    single = full_match(rf"[^\\\]\-]|{_CHARACTER_ESCAPE}|\\b")
    items = repetition(union((closed, single)), 0, None)
    return concatenation(full_match(r"\[\^?"), hyphen, items, hyphen, literals(("]",)))


def _quantifier() -> Node:
    intervals = word_list(
        (f"{{{least},", reference(("bounds from", least), partial(_from, least)))
        for least in range(100)
    )
    return concatenation(
        union((full_match(r"[*+?]|\{[0-9]{1,9},?\}"), intervals)), optional(literals(("?",)))
    )


def _from(least: int) -> Node:
    """Return the rest of ``{m,n}`` after the comma."""
    longer = full_match(r"[1-9][0-9]{2,8}\}")
    return union((literals(f"{n}}}" for n in range(least, 100)), longer))
