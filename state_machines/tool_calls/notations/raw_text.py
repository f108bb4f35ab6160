"""Languages of texts that stand as they are, without quotes, so that a parser reads them right."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from state_machines.caches import WeakValueLruCache
from state_machines.grammar.boolean import difference, everything, intersection
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import concatenation, optional, symbols, union
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet
from state_machines.grammar.until import text_without
from state_machines.grammar.words import word_language
from state_machines.limits import LIMITS
from state_machines.regex import compile_pattern

__all__ = ["NOT_NULL", "NO_LITERAL", "SPACES", "TRIMMED", "raw_texts", "without"]

SPACES = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\ufeff"
"""The characters that ``str.strip`` takes away, and the byte order mark."""

_ANY = everything(ANY_CODE_POINT)
_INK = symbols(ANY_CODE_POINT & ~CodePointSet.of(SPACES))

TRIMMED = union((EPSILON, concatenation(_INK, optional(concatenation(_ANY, _INK)))))
"""Texts without white space around them."""

NOT_NULL = difference(
    _ANY, word_language(map("".join, product("nN", "uU", "lL", "lL"))), ANY_CODE_POINT
)
"""Texts that no parser takes for ``null``, in whatever case."""

_WORDS = "true|false|null|NaN|Infinity|True|False|None"

NO_LITERAL = intersection(
    compile_pattern(pattern, search=True)
    for pattern in (
        # No number, bracket or quote; neither a comment nor a line that goes on, which are nothing.
        r"^([A-Za-z_<>/@$%&=?!:;|^`,]|[^\x00-\x7f\ufeff])",
        rf"^(?!({_WORDS})(?![0-9A-Za-z_\u0080-\u{{10ffff}}]))",
        # Strings of Python with letters before them.
        r"""^(?![A-Za-z]{1,2}["'])""",
        # The empty set; letters of other alphabets may be the same to Python.
        r"^(?!(set|(?=[^]{0,2}[^\x00-\x7f])[^]{3})[\s\\]*\()",
    )
)
"""Texts that are the beginning of no literal, neither in JSON nor in Python."""


def without(avoid: Iterable[str]) -> Node:
    """Return the texts that contain none of some strings; empty ones do not count."""
    strings = frozenset(filter(None, avoid))
    return text_without(strings) if strings else _ANY


_RAW_TEXTS: WeakValueLruCache[tuple[frozenset[str], bool, bool], Node] = WeakValueLruCache(
    LIMITS.held_languages
)


def raw_texts(avoid: frozenset[str], trimmed: bool, not_null: bool) -> Node:
    """Return the texts that may stand as they are."""
    return _RAW_TEXTS.get(
        (avoid, trimmed, not_null), lambda: _make_raw_texts(avoid, trimmed, not_null)
    )


def _make_raw_texts(avoid: frozenset[str], trimmed: bool, not_null: bool) -> Node:
    parts = [without(avoid)]
    if trimmed:
        parts.append(TRIMMED)
    if not_null:
        parts.append(NOT_NULL)
    return intersection(parts)
