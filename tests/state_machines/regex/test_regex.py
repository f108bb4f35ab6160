"""Patterns: the compiled language against Python's ``re`` and against hand-made cases."""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
import regex
from data_files import (
    NO_MASKBENCH,
    maskbench_file,
    maskbench_schemas,
)
from hypothesis import event, given, settings
from hypothesis import strategies as st
from pattern_oracles import spells

from state_machines.errors import InvalidPatternError, PatternError, UnsupportedPatternError
from state_machines.grammar.boolean import everything
from state_machines.grammar.encoding import JSON_STRING, RAW, encoded
from state_machines.grammar.node import EMPTY
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.limits import LIMITS
from state_machines.regex import compile_pattern
from state_machines.regex.unicode_classes import SPACE, property_set


def finds(pattern: str, text: str) -> bool:
    return spells(compile_pattern(pattern, search=True), text)


def is_whole(pattern: str, text: str) -> bool:
    return spells(compile_pattern(pattern, search=False), text)


# Random patterns against Python's re


@dataclass(frozen=True)
class Spelled:
    """One expression in both syntaxes."""

    ecma: str
    python: str


LINE_ENDS = r"\n\r\u2028\u2029"
ATOMS = [
    *(Spelled(c, c) for c in "ab1"),
    Spelled("-", "-"),
    Spelled(r"\-", "-"),
    Spelled(r"\u0061", "a"),
    Spelled(r"\ud83d\ude00", "😀"),
    Spelled(".", f"[^{LINE_ENDS}]"),
    Spelled(r"\d", "[0-9]"),
    Spelled(r"\D", "[^0-9]"),
    Spelled(r"\w", "[A-Za-z0-9_]"),
    Spelled(r"\W", "[^A-Za-z0-9_]"),
    Spelled("[ab]", "[ab]"),
    Spelled("[^a1]", "[^a1]"),
    Spelled(r"[\w-]", r"[A-Za-z0-9_\-]"),
    Spelled("[^]", r"[\s\S]"),
    Spelled("[]", "(?!)"),
    Spelled("ab", "ab"),
    Spelled("", ""),
]
ANCHORS = [
    Spelled("^", r"\A"),
    Spelled("$", r"\Z"),
    Spelled(r"\b", r"\b"),
    Spelled(r"\B", r"(?!\b)"),
    Spelled("(?<=[a-])", "(?<=[a-])"),
    Spelled("(?<!a)", "(?<!a)"),
]
QUANTIFIERS = ["*", "+", "?", "*?", "{2}", "{0,2}", "{1,}", "{0}", "{1,3}?"]


def join(parts: list[Spelled]) -> Spelled:
    return Spelled("".join(p.ecma for p in parts), "".join(p.python for p in parts))


def alternate(parts: list[Spelled]) -> Spelled:
    ecma, python = "|".join(p.ecma for p in parts), "|".join(p.python for p in parts)
    return Spelled(f"(?:{ecma})", f"(?:{python})")


def repeat(body: Spelled, quantifier: str) -> Spelled:
    return Spelled(f"(?:{body.ecma}){quantifier}", f"(?:{body.python}){quantifier}")


def look(body: Spelled, mark: str) -> Spelled:
    return Spelled(f"(?{mark}{body.ecma})", f"(?{mark}{body.python})")


def patterns(*, anchors: bool) -> st.SearchStrategy[Spelled]:
    def extend(inner: st.SearchStrategy[Spelled]) -> st.SearchStrategy[Spelled]:
        ways = [
            st.lists(inner, min_size=2, max_size=4).map(join),
            st.lists(inner, min_size=2, max_size=3).map(alternate),
            st.builds(repeat, inner, st.sampled_from(QUANTIFIERS)),
        ]
        if anchors:
            ways.append(st.builds(look, inner, st.sampled_from("=!")))
        return st.one_of(ways)

    leaves = st.sampled_from([*ATOMS, *ANCHORS] if anchors else ATOMS)
    return st.recursive(leaves, extend, max_leaves=8)


TEXTS = ["".join(word) for size in range(4) for word in product("ab-", repeat=size)]
LONGER = st.lists(st.text("ab1- \n\u2028é😀", max_size=7), max_size=12)


def judge(pattern: Spelled, texts: list[str]) -> None:
    oracle = re.compile(pattern.python, re.ASCII)
    try:
        whole = compile_pattern(pattern.ecma, search=False)
        anywhere = compile_pattern(pattern.ecma, search=True)
    except UnsupportedPatternError as error:
        event(f"refused: {error.what}")
        return
    for text in texts:
        assert spells(whole, text) == bool(oracle.fullmatch(text)), (pattern, text)
        assert spells(anywhere, text) == bool(oracle.search(text)), (pattern, text)


@settings(max_examples=350, deadline=None)
@given(patterns(anchors=True), LONGER)
def test_patterns_with_assertions_agree_with_python(pattern: Spelled, texts: list[str]) -> None:
    judge(pattern, TEXTS + texts)


@settings(max_examples=50, deadline=None)
@given(patterns(anchors=True), st.text("ab1-é😀", max_size=5))
def test_no_state_is_dead(pattern: Spelled, text: str) -> None:
    """Every prefix that the rows allow can be completed."""
    try:
        node = compile_pattern(pattern.ecma, search=False)
    except UnsupportedPatternError:
        return
    assert (node is EMPTY) or not node.is_empty or not node.transitions
    for character in text:
        found = [target for members, target in node.transitions if ord(character) in members]
        if not found:
            break
        (node,) = found
        assert not node.is_empty
        assert node.nullable or node.transitions


# Hand-made cases: pattern, texts in which it is found, texts in which it is not

FOUND = [
    ("^(?!foo)[a-z]+$", ["fo", "bar", "xfoo"], ["foo", "foobar", ""]),
    (r"^(?=.*\d)(?=.*[a-z]).{4,8}$", ["abc1", "1234567a"], ["abcd", "1234", "a1", "a12345678"]),
    ("^(?=[^=]+$)(?!\\s+$)(.|\\n)+$", ["a b", "\na"], [" ", "a=b", ""]),
    ("^((?!ab).)*$", ["", "ba", "aacb"], ["ab", "xabx", "a\nb"]),
    ("^((?=a|b)[a-z])+$", ["a", "abba"], ["", "abc"]),
    ("^(?:(?!--)[a-z-])*$", ["a-b", "", "-"], ["a--b", "--"]),
    ("^(a(,|$))+$", ["a", "a,a", "a,a,"], ["", "a,,", "aa"]),
    ("^(?:x|$){2,}$", ["", "x", "xx", "xxx"], ["xy"]),
    ("^(?:(?:^[*]|[a-z])[.])*[a-z]$", ["a", "*.a", "*.b.a", "a.b.c"], ["a.*.b", "*"]),
    (
        "^((?!-)[a-z-]{1,4}(?<!-)[.])+[a-z]{2}$",
        ["a-b.de", "a.b.de"],
        ["-a.de", "a-.de", "abcde.de"],
    ),
    (r"\bfoo\b", ["foo", "a foo.", "\nfoo\n"], ["xfoo", "foo_", "fo"]),
    (r"\Boo", ["foo"], ["oo", " oo"]),
    (r"[a-c]{1,3}\b-", ["a-", "xabc-"], ["x-", "-"]),
    (r"\w+\b[^-]*$", ["a", "a b"], ["-", "a-"]),
    (r"^[\w.-]+$", ["a.b-c"], ["a b", ""]),
    (r"^[a-\d]$", ["a", "-", "5"], ["b"]),
    (r"^[\b]$", ["\b"], ["b"]),
    (r"^[\]]\]}{$", ["]]}{"], ["]", ""]),
    (r"^{a}$", ["{a}"], []),
    (r"^a{,x}$", ["a{,x}"], ["a"]),
    (r"^\@\_\/\"\'\#\ \-$", ["@_/\"'# -"], []),
    (r"^\t\n\v\f\r\0\cJ\x41\u0042\u{43}$", ["\t\n\v\f\r\0\nABC"], []),
    (r"^[\ud83d\ude00-\ud83d\ude4f]$", ["😀", "🙏"], ["a"]),
    (r"^[\u{1f600}-\u{1F64F}]{2}$", ["😀🙏"], ["😀"]),
    (r"\ud83d", [], ["😀", ""]),
    ("^.$", ["a", "😀", "\x85", "\v"], ["\n", "\r", "\u2028", "\u2029"]),
    (r"^\s$", [" ", "\ufeff", "\u00a0", "\u3000", "\u2029"], ["\u200b", "\u0085", "\u180e"]),
    (r"^\S$", ["\u0085", "a"], [" ", "\ufeff"]),
    (r"^\d$", ["7"], ["٣"]),
    (r"^\w$", ["_", "Z"], ["é", "-"]),
    (r"^\W$", ["é", "-"], ["_"]),
    (r"^\p{L}\p{Letter}\p{Lu}\p{General_Category=Nd}$", ["éσÀ٣"], ["1aA1"]),
    (r"^\p{Script=Greek}\p{sc=Cyrl}$", ["αж"], ["aж"]),
    (r"^\p{scx=Deva}$", ["\u0964", "क"], ["a"]),
    (r"^\P{L}[^\p{Lu}a][\P{Lu}]$", ["1bb"], ["abb", "1ab", "1bB"]),
    (r"^\p{ASCII}\p{Emoji_Presentation}$", ["a😀"], ["é😀"]),
    (r"^\p{digit}\p{punct}$", ["٣!"], ["a!"]),
    ("(?i)^straße$", ["STRAẞE", "straße"], ["STRASSE"]),
    ("(?i)^[^k]$", ["l"], ["k", "K", "\u212a"]),
    (r"^a(?i:b)c$", ["abc", "aBc"], ["Abc", "abC"]),
    ("^(?<year>[0-9]{4})(?P<m>-[0-9]{2})??$", ["2024", "2024-01"], ["2024-"]),
    ("^(?=a)+b", [], ["b", "ab"]),
    ("^aab?b?bc{0}a*a+$", ["aaba", "aabbbaa"], ["aba", "aabbbba", "aab"]),
    ("^(?:^)*(?:a$)?$", ["", "a"], ["aa"]),
]


@pytest.mark.parametrize(("pattern", "found", "missed"), FOUND)
def test_search_finds_matches_anywhere(pattern: str, found: list[str], missed: list[str]) -> None:
    for text in found:
        assert finds(pattern, text), text
    for text in missed:
        assert not finds(pattern, text), text


def test_patterns_agree_after_encoding_to_bytes() -> None:
    node = compile_pattern(r"^(?!é)[é\p{Lu}😀]{2}$", search=True)
    for text, expected in [("Éé", True), ("😀É", True), ("éÉ", False), ("É", False)]:
        assert encoded(node, RAW).matches(text.encode()) is expected
        written = json.dumps(text)[1:-1].encode()
        assert encoded(node, JSON_STRING).matches(written) is expected


def test_search_and_full_match_differ() -> None:
    assert is_whole("a|ab", "ab")
    assert not is_whole("a", "ab")
    assert not is_whole("a", "ba")
    assert is_whole("^a$", "a")
    assert is_whole("a(?!b).", "ac")
    assert finds("a", "bab")


def test_huge_counts_stay_counters() -> None:
    node = compile_pattern("^[a-z]{1000000,9000000}$", search=True)
    assert node.min_length == 1_000_000
    assert node.max_length == 9_000_000
    assert compile_pattern("^(?:ab?){0,1000000}$", search=True).max_length == 2_000_000


def test_search_patterns_are_simplified() -> None:
    anything = everything(ANY_CODE_POINT)
    for pattern in ("", "a*", "[a-z]{0,9}", "(a|b?)", "(?:)", "^", "$", "^.*"):
        assert compile_pattern(pattern, search=True) is anything, pattern
    assert compile_pattern("[ab]+", search=True) is compile_pattern("[ab]", search=True)
    assert compile_pattern("a{2,5}b{3,}", search=True) is compile_pattern("a{2}b{3}", search=True)
    assert compile_pattern("^a$", search=True) is compile_pattern("a", search=False)


@pytest.mark.parametrize(
    ("pattern", "position"),
    [
        ("(", 0),
        ("a)", 1),
        ("[a", 0),
        ("[a-", 0),
        ("*a", 0),
        ("a|+", 2),
        ("a**", 2),
        ("a{2}{3}", 4),
        ("a{3,2}", 0),
        ("{2}", 0),
        ("a{,5}", 1),
        ("^*", 0),
        (r"\b+", 0),
        ("[z-a]", 1),
        ("ab\\", 2),
        (r"\x4", 0),
        (r"\u12", 0),
        (r"a\u{110000}", 1),
        (r"\u{}", 0),
        (r"\c1", 0),
        (r"\00", 0),
        (r"\a", 0),
        (r"^\S\Z", 3),
        (r"\A", 0),
        (r"(a)\2", 3),
        (r"\k<n>", 0),
        (r"\p{Nonsense}", 0),
        (r"\p{letter}", 0),
        (r"\p{Greek}", 0),
        (r"\p{Script=Nowhere}", 0),
        (r"\pL", 0),
        ("(?<1>a)", 3),
        ("(?#x)", 0),
        (r"[\8]", 1),
    ],
)
def test_invalid_patterns_raise(pattern: str, position: int) -> None:
    with pytest.raises(InvalidPatternError) as caught:
        compile_pattern(pattern, search=True)
    assert caught.value.position == position
    assert caught.value.pattern == pattern


@pytest.mark.parametrize(
    ("pattern", "position", "what"),
    [
        (r"^(a+)-\1$", 6, "back-reference"),
        (r"(?<n>a)\k<n>", 7, "back-reference"),
        (r"(?P<n>a)(?P=n)", 8, "back-reference"),
        ("(?<=ab)c", 0, "look-behind"),
        ("(?<!a+)c", 0, "look-behind"),
        ("x(?>a)", 1, "atomic"),
        ("a(?i)b", 1, "flag"),
        ("(?s).", 0, "flag"),
        (r"^(?:\bfoo\b ?)*$", 1, "assertion"),
        (r"^(?:\bfoo\b ?){0,999}$", 1, "assertion"),
        (
            "(" * (LIMITS.nested_groups + 1) + ")" * (LIMITS.nested_groups + 1),
            LIMITS.nested_groups,
            "groups",
        ),
        ("(" * 100_000, LIMITS.nested_groups, "groups"),
        ("a{1234567890123456789012}", 1, "18 digits"),
        ("^" + "a?b*" * 2000 + "$", 0, "optional"),
    ],
)
def test_unsupported_patterns_raise(pattern: str, position: int, what: str) -> None:
    with pytest.raises(UnsupportedPatternError, match=what) as caught:
        compile_pattern(pattern, search=True)
    assert caught.value.position == position


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(" * LIMITS.nested_groups + "a" + ")" * LIMITS.nested_groups, "a"),
        ("(?:" * LIMITS.nested_groups + "a" + "?)?" * LIMITS.nested_groups, "a"),
        ("^" + "a?" * 3000 + "$", "a"),
        ("^" + "a?b*" * 50 + "$", "ab" * 50),
        ("^" + "ab" * 2500 + "$", "ab" * 2500),
        ("^(" + "|".join(f"w{i}" for i in range(5000)) + ")$", "w4999"),
        ("^(" + "a" * 3000 + "b|" + "a" * 3000 + "c)$", "a" * 3000 + "c"),
        ("^(" + "[ab]" * 3000 + "b|" + "[ab]" * 3000 + "c)$", "a" * 3000 + "c"),
        ("^(" + "(?!x)" * 300 + "a)$", "a"),
    ],
    ids=[
        *("nested", "nested options", "options", "other options", "long", "words", "prefix"),
        *("sets", "assertions"),
    ],
)
def test_large_patterns_compile_or_raise(pattern: str, text: str) -> None:
    try:
        node = compile_pattern(pattern, search=True)
    except UnsupportedPatternError:
        assert "[ab]" in pattern
        return
    assert spells(node, text)


# Unicode classes


@pytest.mark.parametrize("category", ["Lu", "Nd", "Zs", "Mn"])
def test_general_categories_agree_with_the_standard_library(category: str) -> None:
    found = property_set(category)
    assert found is not None
    # The two databases may differ in Unicode version: only what both know is compared.
    unassigned = property_set("Cn")
    assert unassigned is not None
    known = [
        (point in found, unicodedata.category(chr(point)) == category)
        for point in range(0x110000)
        if unicodedata.category(chr(point)) not in ("Cn", "Cs") and point not in unassigned
    ]
    # A character's category may be corrected in a later version, which is rare.
    assert sum(ours != theirs for ours, theirs in known) <= 5
    assert sum(ours and theirs for ours, theirs in known) > 10


def test_space_class_is_that_of_ecma() -> None:
    separators = property_set("Zs")
    assert separators is not None
    assert set(separators) | {*range(9, 14), 0x2028, 0x2029, 0xFEFF} == set(SPACE)


def test_ignored_case_uses_simple_folding() -> None:
    points = {*range(0x250), 0x39C, 0x3BC, 0x1E9E, 0x212A, 0x212B} - {0x130, 0x131}  # Turkic
    for point in points & set(range(0x250)):
        ((members, _),) = compile_pattern(f"(?i)^\\u{point:04x}$", search=False).transitions
        oracle = regex.compile(rf"\u{point:04x}", regex.IGNORECASE)
        assert points & set(members) == {p for p in points if oracle.fullmatch(chr(p))}, chr(point)


# Patterns from other sources


def _patterns_in(value: Any, found: dict[str, None]) -> None:
    if isinstance(value, dict):
        if isinstance(value.get("pattern"), str):
            found[value["pattern"]] = None
        if isinstance(value.get("patternProperties"), dict):
            found.update(dict.fromkeys(value["patternProperties"]))
        for child in value.values():
            _patterns_in(child, found)
    elif isinstance(value, list):
        for child in value:
            _patterns_in(child, found)


def _strings_in(value: Any, found: set[str]) -> None:
    if isinstance(value, str):
        found.add(value)
    elif isinstance(value, dict):
        found.update(value)
        for child in value.values():
            _strings_in(child, found)
    elif isinstance(value, list):
        for child in value:
            _strings_in(child, found)


def _as_python(pattern: str) -> str:
    """Translate what differs between ECMA-262 and the ``regex`` package."""
    return re.sub(r"(?<!\\)((?:\\\\)*)\$(?![^\[\]]*\])", r"\1\\Z", pattern)


@pytest.mark.skipif(maskbench_file() is None, reason=NO_MASKBENCH)
def test_patterns_of_real_schemas() -> None:
    refused: list[PatternError] = []
    judged = 0
    for line in maskbench_schemas():
        found: dict[str, None] = {}
        _patterns_in(line["schema"], found)
        if not found:
            continue
        texts: set[str] = set()
        _strings_in([test["data"] for test in line["tests"]], texts)
        for pattern in found:
            try:
                node = compile_pattern(pattern, search=True)
            except PatternError as error:
                refused.append(error)
                continue
            try:
                oracle = regex.compile(_as_python(pattern), regex.ASCII | regex.VERSION0)
            except regex.error:
                continue
            for text in sorted(texts, key=len)[:40]:
                judged += 1
                assert spells(node, text) == bool(oracle.search(text)), (pattern, text)
    assert judged > 20_000
    # With the flag u, a ] outside of a class is no character.
    assert [error.what for error in refused] == ["a ] that closes no class", "a back-reference"]
