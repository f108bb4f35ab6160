r"""Strings with constraints, and names that a reader checks.

Observed with pydantic 2.14.4 (pydantic-core 2.50.5) and msgspec 0.22, in this order: white space
around the text is stripped (Unicode's ``White_Space``, as Rust's ``trim``), then characters are
counted (code points), the pattern is searched, and the text must be ASCII. The case is converted
at the end, so that it decides about neither the pattern nor the length.

* ``zoneinfo``: the keys of ``zoneinfo.available_timezones()`` on this machine.
* ``python_pattern``: a subset of what ``re.compile`` reads: literal characters, escapes of ASCII
  punctuation, classes of letters, digits and their ranges, groups, quantifiers up to two digits,
  alternatives. Left out: names of groups, options, look-around, references.
"""

from __future__ import annotations

from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Literal
from zoneinfo import available_timezones

from state_machines.grammar.boolean import intersection
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import concatenation, optional, repetition, symbols, union
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet, code_points
from state_machines.grammar.text_languages import word_language
from state_machines.regex import PatternDialect, compile_pattern
from state_machines.regex.unicode_classes import property_set

WHITE_SPACE = CodePointSet(
    [
        *((0x9, 0xD), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680)),
        *((0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F)),
        (0x3000, 0x3000),
    ]
)
"""The characters that pydantic strips: the property ``White_Space``."""

_ASCII = code_points(0, 0x7F)


def text(
    *,
    min_length: int | None = None,
    max_length: int | None = None,
    pattern: str | None = None,
    dialect: PatternDialect = "ecma",
    flags: str = "",
    strip: bool = False,
    case: Literal["lower", "upper"] | None = None,
    ascii: bool = False,
    canonical: bool = False,
) -> Node:
    """Return the strings of a string type.

    Args:
        min_length: Smallest number of characters, without the white space that is stripped.
        max_length: Largest number of characters.
        pattern: A regular expression, which is searched.
        dialect: The dialect of the pattern.
        flags: The flags of the pattern, as letters of ``re``.
        strip: Whether white space around the text is stripped.
        case: The case that the text is converted to.
        ascii: Whether all characters must be ASCII.
        canonical: Whether there is no white space to strip, and no character to convert.
    """
    parts = [repetition(symbols(_ASCII if ascii else ANY_CODE_POINT), min_length or 0, max_length)]
    if pattern is not None:
        parts.append(compile_pattern(pattern, search=True, dialect=dialect, flags=flags))
    if canonical and case is not None:
        parts.append(repetition(symbols(_unchanged(case)), 0, None))
    if not strip:
        return intersection(parts)
    ends = symbols(~WHITE_SPACE)
    inside = concatenation(repetition(symbols(ANY_CODE_POINT), 0, None), ends)
    stripped = union((EPSILON, ends, concatenation(ends, inside)))
    stripped = intersection((*parts, stripped))
    if canonical:
        return stripped
    around = repetition(symbols(WHITE_SPACE), 0, None)
    return concatenation(around, stripped, around)


@lru_cache(maxsize=2)
def _unchanged(case: str) -> CodePointSet:
    """Return characters that a conversion of case leaves alone.

    Letters of the other case are left out even if they have no counterpart: a later version of
    Unicode may add one.
    """
    names = (
        ("Lu", "Lt", "Cn", "Uppercase", "Changes_When_Lowercased")
        if case == "lower"
        else ("Ll", "Lt", "Cn", "Lowercase", "Changes_When_Uppercased")
    )
    changing = CodePointSet(())
    for name in names:
        changing |= property_set(name) or changing
    return ~changing


_SEGMENT = r"(?:[^./\u{0}]|\.[^/\u{0}])[^/\u{0}]*"


def path(*, canonical: bool = False) -> Node:
    """Return the texts of paths: all strings without U+0000.

    Args:
        canonical: Whether texts are spelled as ``pathlib`` spells POSIX paths.
    """
    if canonical:
        written = rf"\.|/|/?{_SEGMENT}(?:/{_SEGMENT})*"
        return compile_pattern(written, search=False)
    return repetition(symbols(~code_points(0)), 0, None)


def zone_info() -> Node:
    """Return the keys of the time zones of this machine."""
    return word_language(available_timezones())


_NESTED_GROUPS = 3
_LITERAL = r"[^\\^$.*+?()\[\]{}|\u{0}-\u{1F}]"
_ESCAPED = r"\\[dDwWsStn.^$*+?()\[\]{}|\\/\-]"
_RANGES = "|".join(
    f"{first}-[{first}-{letters[-1]}]"
    for letters in (ascii_lowercase, ascii_uppercase, digits)
    for first in letters
)
_CLASS_ITEM = rf"(?:[0-9A-Za-z_ .,:;@#%+*/!?$()]|\\[dDwWsS\\\]\[^\-]|{_RANGES})"
_ATOM = rf"(?:{_LITERAL}|{_ESCAPED}|\.|\[\^?{_CLASS_ITEM}+-?\])"
_BOUNDS = "|".join(f"{least},[{least}-9]" for least in range(10))
_QUANTIFIER = rf"(?:[*+?]|\{{(?:[0-9]{{1,2}},?|{_BOUNDS}|[0-9],[1-9][0-9])\}})\??"


def python_pattern() -> Node:
    """Return regular expressions that ``re.compile`` reads."""
    quantifier = optional(compile_pattern(_QUANTIFIER, search=False))
    atom = concatenation(compile_pattern(_ATOM, search=False), quantifier)
    fixed = compile_pattern(r"[|^$]", search=False)
    opening = compile_pattern(r"\((?:\?:)?", search=False)
    closing = symbols(code_points(")"))
    inner = repetition(union((atom, fixed)), 0, None)
    for _ in range(_NESTED_GROUPS):
        group = concatenation(opening, inner, closing, quantifier)
        inner = repetition(union((atom, fixed, group)), 0, None)
    return inner
