r"""Sets of characters by name: ``\d``, ``\w``, ``\s``, ``.`` and Unicode properties.

The data of ``\p{…}`` comes from the ``regex`` package, and so does the Unicode version. The names,
which are case-sensitive, are those of ECMA-262 ("Runtime Semantics: UnicodeMatchProperty"): general
categories, ``Script``, ``Script_Extensions`` and the binary properties of characters. Properties of
strings (``RGI_Emoji``) are not supported, since they are no sets of characters. Rust's ``regex``
crate has further names: ``[:alpha:]``, and its own ``\w``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain

import numpy as np
import regex

from state_machines.budgets import spend
from state_machines.caches import LruCache
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet
from state_machines.limits import LIMITS

ASCII = CodePointSet([(0, 0x7F)])
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
ASCII, ASCII_Hex_Digit AHex, Alphabetic Alpha, Any, Assigned, Bidi_Control Bidi_C,
Bidi_Mirrored Bidi_M, Case_Ignorable CI, Cased, Changes_When_Casefolded CWCF,
Changes_When_Casemapped CWCM, Changes_When_Lowercased CWL, Changes_When_NFKC_Casefolded CWKCF,
Changes_When_Titlecased CWT, Changes_When_Uppercased CWU, Dash, Default_Ignorable_Code_Point DI,
Deprecated Dep, Diacritic Dia, Emoji, Emoji_Component EComp, Emoji_Modifier EMod,
Emoji_Modifier_Base EBase, Emoji_Presentation EPres, Extended_Pictographic ExtPict, Extender Ext,
Grapheme_Base Gr_Base, Grapheme_Extend Gr_Ext, Hex_Digit Hex, IDS_Binary_Operator IDSB,
IDS_Trinary_Operator IDST, ID_Continue IDC, ID_Start IDS, Ideographic Ideo, Join_Control Join_C,
Logical_Order_Exception LOE, Lowercase Lower, Math, Noncharacter_Code_Point NChar,
Pattern_Syntax Pat_Syn, Pattern_White_Space Pat_WS, Quotation_Mark QMark, Radical,
Regional_Indicator RI, Sentence_Terminal STerm, Soft_Dotted SD, Terminal_Punctuation Term,
Unified_Ideograph UIdeo, Uppercase Upper, Variation_Selector VS, White_Space space,
XID_Continue XIDC, XID_Start XIDS
"""
_BINARY = {alias: names.split()[0] for names in _BINARY_NAMES.split(",") for alias in names.split()}
"""The long names of ECMA-262's binary properties by all their names.

The ``regex`` package knows some short ones as names of blocks.
"""

_LOOSE_NAMES = {re.sub("_", "", name).lower(): name for name in (*_BINARY, *_CATEGORIES)}
"""Names of binary properties and of general categories in lower case, without ``_``."""

_SCRIPT_NAMES = """
Anatolian_Hieroglyphs Bassa_Vah Beria_Erfe Canadian_Aboriginal Caucasian_Albanian Cypro_Minoan
Dives_Akuru Egyptian_Hieroglyphs Gunjala_Gondi Gurung_Khema Hanifi_Rohingya Imperial_Aramaic
Inscriptional_Pahlavi Inscriptional_Parthian Katakana_Or_Hiragana Kayah_Li Khitan_Small_Script
Kirat_Rai Linear_A Linear_B Masaram_Gondi Meetei_Mayek Mende_Kikakui Meroitic_Cursive
Meroitic_Hieroglyphs Nag_Mundari New_Tai_Lue Nyiakeng_Puachue_Hmong Ol_Chiki Ol_Onal Old_Hungarian
Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic
Old_Uyghur Pahawh_Hmong Pau_Cin_Hau Phags_Pa Proto_Cuneiform Psalter_Pahlavi SignWriting
Sora_Sompeng Syloti_Nagri Tai_Le Tai_Tham Tai_Viet Tai_Yo Tolong_Siki Tulu_Tigalari Warang_Citi
Zanabazar_Square
"""
_SCRIPTS_OF_MANY_WORDS = frozenset(_SCRIPT_NAMES.split())
"""Names of scripts that are not one capitalised word."""

_RUN_TOGETHER = frozenset(name.replace("_", "").capitalize() for name in _SCRIPTS_OF_MANY_WORDS)

PROPERTY_STEPS = 2_000
"""Steps charged for a scan of all code points, which takes some ten milliseconds."""

_FIRST_AFTER_SURROGATES = 0xE000
_SURROGATES = _FIRST_AFTER_SURROGATES - 0xD800


MAX_NAME_CHARS = 64
"""Maximum length of a property's name or value, in characters. Unicode's longest has 28."""


def property_set(name: str, value: str | None = None) -> CodePointSet | None:
    r"""Return the characters of ``\p{name}`` or ``\p{name=value}``; ``None``: no such property.

    Raises ``NotImplementedError`` for a property that exists but whose data is not at hand.
    The spelling of a script's name is checked by rule, so new scripts need no new table.
    """
    # Names come from patterns, and the cache holds them: longer ones are never cached.
    if len(name) > MAX_NAME_CHARS or len(value or "") > MAX_NAME_CHARS:
        return None
    return _property_set(name, value)


def loose_property_set(name: str, value: str | None = None) -> CodePointSet | None:
    r"""Return the characters of a property whose name is matched loosely (UTS #18, UAX44-LM3).

    Case, spaces, ``-`` and ``_`` do not count, and the name of a script needs no ``Script=``. Other
    engines, such as Rust's ``regex``, read names like this. ``None``: no such property.
    """
    if len(name) > MAX_NAME_CHARS or len(value or "") > MAX_NAME_CHARS:
        return None
    return _loose_property_set(loose_name(name), None if value is None else loose_name(value))


@lru_cache(maxsize=512)
def _loose_property_set(name: str, value: str | None) -> CodePointSet | None:
    if not (name.isascii() and name.isalnum() and (value is None or value.isalnum())):
        return None
    if value is None:
        if name not in _LOOSE_NAMES:
            name = name.removeprefix("is")
        known = _LOOSE_NAMES.get(name)
        return _find(f"sc={name}") if known is None else property_set(known)
    if name in ("generalcategory", "gc"):
        category = _LOOSE_NAMES.get(value)
        return property_set("gc", category) if category in _CATEGORIES else None
    if name in ("script", "sc"):
        return _find(f"sc={value}")
    return _find(f"scx={value}") if name in ("scriptextensions", "scx") else None


def loose_name(name: str) -> str:
    """Return a name without case, spaces, ``-`` and ``_`` (UAX44-LM3)."""
    return re.sub("[-_ ]", "", name).lower()


@lru_cache(maxsize=512)
def _property_set(name: str, value: str | None) -> CodePointSet | None:
    if value is None:
        if name in _CATEGORIES:
            return _find(f"gc={_CATEGORIES[name]}")
        return _binary(_BINARY[name]) if name in _BINARY else None
    if name in ("General_Category", "gc"):
        return _find(f"gc={_CATEGORIES[value]}") if value in _CATEGORIES else None
    if name in ("Script", "sc", "Script_Extensions", "scx") and _is_script(value):
        return _find(f"{'scx' if name[-1] in 'sx' else 'sc'}={value}")
    return None


def _is_script(name: str) -> bool:
    """Return whether a name has the spelling of a script's name; there may be no such script."""
    if name in _SCRIPTS_OF_MANY_WORDS:
        return True
    return name.isalpha() and name == name.capitalize() and name not in _RUN_TOGETHER


def _binary(name: str) -> CodePointSet:
    if name == "Any":
        return ANY_CODE_POINT
    if name == "ASCII":
        return ASCII
    found = _find("gc=Cn" if name == "Assigned" else name)
    if found is None:
        raise NotImplementedError(name)
    return ~found if name == "Assigned" else found


def _find(query: str) -> CodePointSet | None:
    """Return the set of a property of the ``regex`` package."""
    if query == "gc=Cs":
        return CodePointSet(())
    try:
        matcher = regex.compile(rf"\p{{{query}}}+", regex.VERSION0)
    except regex.error:
        return None
    return characters_matching(matcher)


def characters_matching(matcher: re.Pattern[str] | regex.Pattern[str]) -> CodePointSet:
    """Return the characters that a pattern matches, which repeats one set (``[a-z]+``)."""
    spend(PROPERTY_STEPS)
    return CodePointSet(
        (_code_point(match.start()), _code_point(match.end() - 1))
        for match in matcher.finditer(all_characters())
    )


def all_characters() -> str:
    """Return the string of all scalar values, ascending."""
    values = np.arange(0x110000 - _SURROGATES, dtype="<u4")
    values[0xD800:] += _SURROGATES
    return values.tobytes().decode("utf-32-le")


def _code_point(index: int) -> int:
    return index if index < 0xD800 else index + _SURROGATES


_CASE_CLOSURES: LruCache[CodePointSet, CodePointSet] = LruCache(LIMITS.cached_ranges)


def case_closure(members: CodePointSet) -> CodePointSet:
    """Return all characters that equal a member under simple case folding (flags ``iu``)."""
    known = _CASE_CLOSURES.peek(members)
    if known is None:
        made = _case_closure(members)
        known = _CASE_CLOSURES.put(members, made, 1 + len(members.ranges) + len(made.ranges))
    return known


def _case_closure(members: CodePointSet) -> CodePointSet:
    groups = _case_groups()
    spend(1 + min(len(members), len(groups)) // 16)
    if len(members) < len(groups):
        found = {group for group in map(groups.get, members) if group is not None}
    else:
        found = {group for point, group in groups.items() if point in members}
    if members is ANY_CODE_POINT or not found:
        return members
    return CodePointSet([*members.ranges, *((point, point) for group in found for point in group)])


@lru_cache(maxsize=1)
def _case_groups() -> dict[int, tuple[int, ...]]:
    """Return, by character, all characters with the same simple case folding, if several."""
    folded_alike: dict[str, set[int]] = {}
    with_case = property_set("Cased"), property_set("Changes_When_Casemapped")
    for point in chain.from_iterable(found for found in with_case if found):
        character = chr(point)
        folded = _simple_fold(character)
        if folded != character:
            folded_alike.setdefault(folded, {ord(folded)}).add(point)
    groups = [tuple(sorted(group)) for group in folded_alike.values()]
    return {point: group for group in groups for point in group}


# Foldings of status S in CaseFolding.txt that ``str.lower`` does not return.
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


_ASCII_CLASSES = {
    "alnum": [("0", "9"), ("A", "Z"), ("a", "z")],
    "alpha": [("A", "Z"), ("a", "z")],
    "ascii": [("\0", "\x7f")],
    "blank": [("\t", "\t"), (" ", " ")],
    "cntrl": [("\0", "\x1f"), ("\x7f", "\x7f")],
    "digit": [("0", "9")],
    "graph": [("!", "~")],
    "lower": [("a", "z")],
    "print": [(" ", "~")],
    "punct": [("!", "/"), (":", "@"), ("[", "`"), ("{", "~")],
    "space": [("\t", "\r"), (" ", " ")],
    "upper": [("A", "Z")],
    "word": [("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z")],
    "xdigit": [("0", "9"), ("A", "F"), ("a", "f")],
}


def ascii_class(name: str) -> CodePointSet | None:
    """Return the members of a class of POSIX, such as ``alpha``; ``None`` if there is none."""
    pairs = _ASCII_CLASSES.get(name)
    if pairs is None:
        return None
    return CodePointSet((ord(first), ord(last)) for first, last in pairs)


_ZEROS = """
30 660 6f0 7c0 966 9e6 a66 ae6 b66 be6 c66 ce6 d66 de6 e50 ed0 f20 1040 1090 17e0 1810 1946 19d0
1a80 1a90 1b50 1bb0 1c40 1c50 a620 a8d0 a900 a9d0 a9f0 aa50 abf0 ff10 104a0 10d30 10d40 11066
110f0 11136 111d0 112f0 11450 114d0 11650 116c0 116d0 116da 11730 118e0 11950 11bf0 11c50 11d50
11da0 11de0 11f50 16130 16a60 16ac0 16b50 16d70 1ccf0 1d7ce 1d7d8 1d7e2 1d7ec 1d7f6 1e140 1e2f0
1e4f0 1e5f1 1e950 1fbf0
"""
"""The digits zero of ``Nd`` in Unicode 18.0, each with nine digits behind it. A table, because the
search of all characters takes ten milliseconds, and digits are frequent."""

_PERL_CLASSES = {
    "s": r"\p{White_Space}+",
    "w": r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+",
}


@lru_cache(maxsize=3)
def perl_class(letter: str) -> CodePointSet:
    """Return the Unicode set of ``d``, ``s`` or ``w`` (UTS #18, Annex C)."""
    if letter == "d":
        zeros = [int(zero, 16) for zero in _ZEROS.split()]
        return CodePointSet((zero, zero + 9) for zero in zeros)
    return characters_matching(regex.compile(_PERL_CLASSES[letter], regex.VERSION0))
