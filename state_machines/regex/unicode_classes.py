r"""Sets of characters by name: ``\d``, ``\w``, ``\s``, ``.`` and Unicode properties.

The data behind ``\p{…}`` is that of the ``regex`` package; its Unicode version rises with the
package's. Which names exist, and that case matters in them, is said by ECMA-262 ("Runtime
Semantics: UnicodeMatchProperty"): general categories, ``Script``, ``Script_Extensions`` and the
binary properties of characters. Properties of strings (``RGI_Emoji``) are no sets of characters.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain

import numpy as np
import regex

from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet

__all__ = [
    "DIGIT",
    "LINE_TERMINATOR",
    "SPACE",
    "WORD",
    "case_closure",
    "property_set",
]

DIGIT = CodePointSet([(0x30, 0x39)])
WORD = CodePointSet([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
LINE_TERMINATOR = CodePointSet([(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)])
SPACE = CodePointSet(
    [
        (0x09, 0x0D),
        (0x20, 0x20),
        (0xA0, 0xA0),
        (0x1680, 0x1680),
        (0x2000, 0x200A),
        (0x2028, 0x2029),
        (0x202F, 0x202F),
        (0x205F, 0x205F),
        (0x3000, 0x3000),
        (0xFEFF, 0xFEFF),
    ]
)
"""WhiteSpace and LineTerminator of ECMA-262: the category Zs, some controls, and U+FEFF."""

_CATEGORY_NAMES = """
C Other, Cc Control cntrl, Cf Format, Cn Unassigned, Co Private_Use, Cs Surrogate,
L Letter, LC Cased_Letter, Ll Lowercase_Letter, Lm Modifier_Letter, Lo Other_Letter,
Lt Titlecase_Letter, Lu Uppercase_Letter, M Mark Combining_Mark, Mc Spacing_Mark,
Me Enclosing_Mark, Mn Nonspacing_Mark, N Number, Nd Decimal_Number digit, Nl Letter_Number,
No Other_Number, P Punctuation punct, Pc Connector_Punctuation, Pd Dash_Punctuation,
Pe Close_Punctuation, Pf Final_Punctuation, Pi Initial_Punctuation, Po Other_Punctuation,
Ps Open_Punctuation, S Symbol, Sc Currency_Symbol, Sk Modifier_Symbol, Sm Math_Symbol,
So Other_Symbol, Z Separator, Zl Line_Separator, Zp Paragraph_Separator, Zs Space_Separator
"""
_CATEGORIES = {
    name: names.split()[0] for names in _CATEGORY_NAMES.split(",") for name in names.split()
}

_BINARY_NAMES = """
ASCII AHex ASCII_Hex_Digit Alpha Alphabetic Any Assigned Bidi_C Bidi_Control Bidi_M Bidi_Mirrored
CI Case_Ignorable Cased CWCF Changes_When_Casefolded CWCM Changes_When_Casemapped CWL
Changes_When_Lowercased CWKCF Changes_When_NFKC_Casefolded CWT Changes_When_Titlecased CWU
Changes_When_Uppercased Dash DI Default_Ignorable_Code_Point Dep Deprecated Dia Diacritic Emoji
EComp Emoji_Component EMod Emoji_Modifier EBase Emoji_Modifier_Base EPres Emoji_Presentation
ExtPict Extended_Pictographic Ext Extender Gr_Base Grapheme_Base Gr_Ext Grapheme_Extend Hex
Hex_Digit IDSB IDS_Binary_Operator IDST IDS_Trinary_Operator IDC ID_Continue IDS ID_Start Ideo
Ideographic Join_C Join_Control LOE Logical_Order_Exception Lower Lowercase Math NChar
Noncharacter_Code_Point Pat_Syn Pattern_Syntax Pat_WS Pattern_White_Space QMark Quotation_Mark
Radical RI Regional_Indicator STerm Sentence_Terminal SD Soft_Dotted Term Terminal_Punctuation
UIdeo Unified_Ideograph Upper Uppercase VS Variation_Selector space White_Space XIDC XID_Continue
XIDS XID_Start
"""
_BINARY = frozenset(_BINARY_NAMES.split())

_FIRST_AFTER_SURROGATES = 0xE000
_SURROGATES = _FIRST_AFTER_SURROGATES - 0xD800


@lru_cache(maxsize=512)
def property_set(name: str, value: str | None = None) -> CodePointSet | None:
    r"""Return the characters of ``\p{name}`` or ``\p{name=value}``; ``None``: no such property.

    Raises ``NotImplementedError`` for a property that exists but whose data is not at hand.
    """
    if value is None:
        if name in _CATEGORIES:
            return _find(f"gc={_CATEGORIES[name]}")
        if name not in _BINARY:
            return None
        found = _find(name)
        if found is None:
            raise NotImplementedError(name)
        return found
    if name in ("General_Category", "gc"):
        return _find(f"gc={_CATEGORIES[value]}") if value in _CATEGORIES else None
    if name in ("Script", "sc", "Script_Extensions", "scx") and value.replace("_", "").isalpha():
        return _find(f"{'scx' if name[-1] in 'sx' else 'sc'}={value}")
    return None


def _find(query: str) -> CodePointSet | None:
    """Return the set of a property of the ``regex`` package."""
    if query == "gc=Cs":
        return CodePointSet(())
    try:
        matcher = regex.compile(rf"\p{{{query}}}+", regex.VERSION0)
    except regex.error:
        return None
    return CodePointSet(
        (_code_point(match.start()), _code_point(match.end() - 1))
        for match in matcher.finditer(_all_characters())
    )


def _all_characters() -> str:
    """Return the string of all scalar values, ascending."""
    values = np.arange(0x110000 - _SURROGATES, dtype="<u4")
    values[0xD800:] += _SURROGATES
    return values.tobytes().decode("utf-32-le")


def _code_point(index: int) -> int:
    return index if index < 0xD800 else index + _SURROGATES


def case_closure(members: CodePointSet) -> CodePointSet:
    """Return all characters that equal a member under simple case folding (flags ``iu``)."""
    ranges = list(members.ranges)
    for group in _case_groups():
        if any(member in members for member in group):
            ranges.extend((member, member) for member in group)
    return members if members is ANY_CODE_POINT else CodePointSet(ranges)


@lru_cache(maxsize=1)
def _case_groups() -> tuple[tuple[int, ...], ...]:
    """Return the classes of more than one character with one simple case folding."""
    groups: dict[str, set[int]] = {}
    with_case = property_set("Cased"), property_set("Changes_When_Casemapped")
    for point in chain.from_iterable(found for found in with_case if found):
        character = chr(point)
        folded = _simple_fold(character)
        if folded != character:
            groups.setdefault(folded, {ord(folded)}).add(point)
    return tuple(tuple(sorted(group)) for group in groups.values())


# Foldings of status S in CaseFolding.txt that no lower-case mapping gives.
_FOLDED_WITHOUT_LOWER = {0x1FD3: 0x0390, 0x1FE3: 0x03B0, 0xFB05: 0xFB06}


def _simple_fold(character: str) -> str:
    """Return the folding of status C or S in CaseFolding.txt."""
    special = _FOLDED_WITHOUT_LOWER.get(ord(character))
    if special is not None:
        return chr(special)
    full = character.casefold()
    if len(full) == 1:
        return full
    lower = character.lower()
    return lower if len(lower) == 1 else character
