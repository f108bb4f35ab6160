"""Languages of raw texts: strings without quotes and escapes that parsers read as strings."""

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

SPACES = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\ufeff"
"""The characters that ``str.strip`` removes, and the byte order mark."""

_ANY = everything(ANY_CODE_POINT)
_INK = symbols(ANY_CODE_POINT & ~CodePointSet.of(SPACES))

TRIMMED = union((EPSILON, concatenation(_INK, optional(concatenation(_ANY, _INK)))))
"""Texts without white space around them."""

NOT_NULL = difference(
    _ANY, word_language(map("".join, product("nN", "uU", "lL", "lL"))), ANY_CODE_POINT
)
"""Texts other than ``null`` in any case."""

_WORDS = "true|false|null|NaN|Infinity|True|False|None"

NO_LITERAL = intersection(
    compile_pattern(pattern, search=True)
    for pattern in (
        # No number, bracket or quote. No comment or line continuation, which parsers skip.
        r"^([A-Za-z_<>/@$%&=?!:;|^`,]|[^\x00-\x7f\ufeff])",
        rf"^(?!({_WORDS})(?![0-9A-Za-z_\u0080-\u{{10ffff}}]))",
        # Python's prefixed strings.
        r"""^(?![A-Za-z]{1,2}["'])""",
        # The empty set ``set()``. Python normalises letters of other alphabets to ASCII.
        r"^(?!(set|(?=[^]{0,2}[^\x00-\x7f])[^]{3})[\s\\]*\()",
    )
)
"""Texts that begin no literal of JSON or Python."""


NOT_JSON = intersection(
    compile_pattern(pattern, search=True)
    for pattern in (
        r"^(?!(true|false|null|NaN|-?Infinity)$)",
        r"^(?!-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?$)",
        # Some texts between quotes or brackets are no JSON. They are left out as well.
        r'^(?!"[^]*"$)',
        r"^(?![\[][^]*[\]]$)",
        r"^(?![{][^]*[}]$)",
    )
)
"""Texts that are no JSON for :mod:`json`, if they have no white space around them."""


NO_NULL_WORD = compile_pattern(r"^(?!([Nn][Oo][Nn][Ee]|[Nn][Ii][Ll])$)", search=True)
"""Excludes ``none`` and ``nil`` in lower and upper case."""

NO_WORD_OF_VALUE = intersection(
    (
        NO_LITERAL,
        NOT_NULL,
        TRIMMED,
        compile_pattern(r"^(?!\p{Nd})", search=True),
        compile_pattern(r"^(?!([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$)", search=True),
        compile_pattern(r"^(?!([Yy][Ee][Ss]|[Nn][Oo]|[Oo][Nn]|[Oo][Ff][Ff])$)", search=True),
        compile_pattern(r"^(?!([Nn][Aa][Nn]|[Ii][Nn][Ff]([Ii][Nn][Ii][Tt][Yy])?)$)", search=True),
        NO_NULL_WORD,
    )
)
"""Texts that begin no literal, and are none of the words ``yes``, ``nil`` and ``inf``."""


def texts_without(avoid: Iterable[str]) -> Node:
    """Return the texts that contain none of the strings in ``avoid``; empty strings are ignored."""
    strings = frozenset(filter(None, avoid))
    return text_without(strings) if strings else _ANY


_RAW_TEXTS: WeakValueLruCache[tuple[frozenset[str], bool, bool], Node] = WeakValueLruCache(
    LIMITS.held_languages
)


def raw_texts(avoid: frozenset[str], trimmed: bool, not_null: bool) -> Node:
    """Return the texts without ``avoid``, optionally without outer white space and ``null``."""
    return _RAW_TEXTS.get(
        (avoid, trimmed, not_null), lambda: _make_raw_texts(avoid, trimmed, not_null)
    )


def _make_raw_texts(avoid: frozenset[str], trimmed: bool, not_null: bool) -> Node:
    parts = [texts_without(avoid)]
    if trimmed:
        parts.append(TRIMMED)
    if not_null:
        parts.append(NOT_NULL)
    return intersection(parts)
