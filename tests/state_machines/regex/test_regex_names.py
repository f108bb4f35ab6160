"""Names in patterns, of properties and of groups, are those of ECMA-262."""

from __future__ import annotations

import pytest

from state_machines import RegexStateMachine
from state_machines.budgets import step_budget
from state_machines.errors import (
    GrammarBudgetError,
    InvalidPatternError,
    PatternError,
    UnsupportedPatternError,
)
from state_machines.regex import compile_pattern
from state_machines.regex.unicode_classes import property_set

BINARY = """
ASCII, ASCII_Hex_Digit AHex, Alphabetic Alpha, Any, Assigned, Bidi_Control Bidi_C,
Bidi_Mirrored Bidi_M, Case_Ignorable CI, Cased, Changes_When_Casefolded CWCF,
Changes_When_Casemapped CWCM, Changes_When_Lowercased CWL, Changes_When_Titlecased CWT,
Changes_When_Uppercased CWU, Dash, Default_Ignorable_Code_Point DI, Deprecated Dep, Diacritic Dia,
Emoji, Emoji_Component EComp, Emoji_Modifier EMod, Emoji_Modifier_Base EBase,
Emoji_Presentation EPres, Extended_Pictographic ExtPict, Extender Ext, Grapheme_Base Gr_Base,
Grapheme_Extend Gr_Ext, Hex_Digit Hex, IDS_Binary_Operator IDSB, IDS_Trinary_Operator IDST,
ID_Continue IDC, ID_Start IDS, Ideographic Ideo, Join_Control Join_C,
Logical_Order_Exception LOE, Lowercase Lower, Math, Noncharacter_Code_Point NChar,
Pattern_Syntax Pat_Syn, Pattern_White_Space Pat_WS, Quotation_Mark QMark, Radical,
Regional_Indicator RI, Sentence_Terminal STerm, Soft_Dotted SD, Terminal_Punctuation Term,
Unified_Ideograph UIdeo, Uppercase Upper, Variation_Selector VS, White_Space space,
XID_Continue XIDC, XID_Start XIDS
"""
"""Table 67 of ECMA-262, but for Changes_When_NFKC_Casefolded, whose data is not at hand."""

MEMBERS = {
    "IDC": ("a", "_", "-"),
    "IDS": ("a", "é", "1"),
    "VS": ("\ufe00", "\U000e0100", "a"),
    "Hex": ("f", "F", "g"),
    "RI": ("\U0001f1e6", "\U0001f1ff", "A"),
    "space": (" ", "\u2003", "a"),
    "Term": (".", "!", "a"),
    "SD": ("i", "j", "a"),
    "Math": ("+", "∑", "a"),
    "Dep": ("ŉ", "\u0149", "n"),
}


@pytest.mark.parametrize("names", [names.split() for names in BINARY.split(",")], ids=str)
def test_short_property_names_equal_long_ones(names: list[str]) -> None:
    long = property_set(names[0])
    assert long
    assert all(property_set(name) == long for name in names)
    for name in names:
        for value in ("Yes", "True", "Y"):
            assert property_set(name, value) is None
        assert name.swapcase() in BINARY.split() or property_set(name.swapcase()) is None


@pytest.mark.parametrize("name", MEMBERS)
def test_members_of_properties(name: str) -> None:
    found = property_set(name)
    assert found is not None
    first, second, other = map(ord, MEMBERS[name])
    assert first in found
    assert second in found
    assert other not in found


@pytest.mark.parametrize(
    "name",
    [
        *("Block", "InGreek", "Greek", "Grek", "IsLatin", "Age", "Line_Break", "Alnum", "XDigit"),
        *("Other_Math", "OMath", "ccc", "Hyphen", "Grapheme_Link", "Word", "idc", "ID Continue"),
        *("L=Lu", "gc", "gc=", "General_Category=lu", "gc=Latin", "sc=greek", "Script=OldItalic"),
        *("Script=Old_italic", "sc=Lu", "scx=", "Script_Extensions=Gree", "blk=Greek", "gc=gc=L"),
    ],
)
def test_unlisted_property_names_raise(name: str) -> None:
    with pytest.raises(InvalidPatternError):
        compile_pattern(rf"\p{{{name}}}", search=True)


@pytest.mark.parametrize(
    "name",
    [
        *("gc=L", "General_Category=Letter", "gc=Uppercase_Letter", "Lu", "punct", "digit"),
        *("sc=Grek", "Script=Greek", "scx=Greek", "Script_Extensions=Zyyy", "sc=Qaai"),
        *("Script=Old_Italic", "Script=SignWriting", "sc=Nko", "Script=Phags_Pa", "sc=Hira"),
    ],
)
def test_categories_and_scripts(name: str) -> None:
    inside, outside = (RegexStateMachine(rf"\{p}{{{name}}}") for p in "pP")
    # A character for private use is in no script, and no letter, mark or digit.
    assert outside.matches("\ue000")
    assert not inside.matches("\ue000")
    assert inside.start.first_bytes


def test_overlong_property_names_are_unknown() -> None:
    for pattern in (rf"\p{{{'A' * 1000}}}", rf"\p{{sc=A{'a' * 1000}}}"):
        with pytest.raises(InvalidPatternError):
            compile_pattern(pattern, search=True)


def test_property_without_data_raises_unsupported() -> None:
    with pytest.raises(UnsupportedPatternError, match="CWKCF"):
        compile_pattern(r"\p{CWKCF}", search=True)


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"(?<\u0061bc>x)", r"(?<a\u{62}c>x)", r"(?<\ud835\udc9c>x)", r"(?<\u{1d49c}>x)"),
        *("(?<𝒜>x)", "(?<$>x)", "(?<_1>x)", r"(?<\u0024>x)", "(?<π2>x)", "(?<a\u200d>x)"),
        *("(?<日本>x)", "(?<℘>x)", "(?P<name>x)", "(?<a>x)|(?<a>x)"),
        *("(?:(?<a>x)|(?<a>x)|(?<b>x))", "((?<a>x)|y(?<a>x))"),
    ],
)
def test_group_names(pattern: str) -> None:
    assert compile_pattern(pattern, search=False).nullable is False


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?<>x)", "(?<1a>x)", r"(?<\u0031>x)", r"(?<a\u002d>x)", "(?<a b>x)", "(?<a-b>x)"),
        *("(?<²>x)", r"(?<\x61>x)", r"(?<\u{110000}>x)", r"(?<\ud835>x)", r"(?<\u006>x)"),
        *("(?<\u200da>x)", "(?<a", "(?<a>x)(?<a>y)", r"(?<a>x)(?<\u0061>y)"),
        *("(?<a>x(?<a>y))", "((?<a>x)|y)(?<a>x)", "(?<a>x)(?:(?<a>x)|y)"),
        "(?:(?<a>x)|y)|(?:z|(?<b>x))(?<b>x)",
    ],
)
def test_invalid_or_duplicate_group_names_raise(pattern: str) -> None:
    with pytest.raises(InvalidPatternError):
        compile_pattern(pattern, search=False)


def test_named_reference_matches_escaped_group_name() -> None:
    with pytest.raises(UnsupportedPatternError, match="back-reference"):
        compile_pattern(r"(?<\u0061>x)\k<a>", search=False)
    with pytest.raises(InvalidPatternError, match="not there"):
        compile_pattern(r"(?<a>x)\k<b>", search=False)


LARGE = {
    "characters": "ab" * 500_000,
    "one character": "a" * 1_000_000,
    "classes": "[a-z0]x" * 200_000,
    "one class": "[" + "ab" * 500_000 + "]",
    "open brackets": "[" * 500_000 + r"\1",
    "open groups": "(" * 500_000,
    "names without an end": "(?<a" * 200_000 + r"\k<b>",
    "alternatives": "|".join(f"w{n}" for n in range(150_000)),
    "counters": "(((a{1000}b?){1000}c?){1000})",
    "without case": "(?i)" + "aß" * 300_000,
    "properties": "".join(rf"[\p{{L}}{chr(0x4E00 + n)}]" for n in range(5_000)),
}


@pytest.mark.parametrize("pattern", LARGE.values(), ids=LARGE)
def test_large_patterns_stay_within_their_budget(pattern: str) -> None:
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    try:
        with step_budget(30_000, checkpoint=count):
            compile_pattern(pattern, search=True)
    except (PatternError, GrammarBudgetError) as error:
        assert len(str(error)) < 1_000
    assert steps <= 61
