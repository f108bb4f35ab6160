r"""Patterns in the dialects of readers: what a compiled pattern admits, its reader finds.

The readers are Rust's ``regex`` in pydantic, Python's ``re`` and the JavaScript engine of Node. Where
no character is one on which versions of Unicode disagree, both find the same.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Annotated, get_args

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from pattern_oracles import NODE, JavaScript, javascript, python_finds, rust_finds, spells
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from state_machines.errors import InvalidPatternError, PatternError, UnsupportedPatternError
from state_machines.grammar.symbols import CodePointSet, code_points
from state_machines.regex import PatternDialect, compile_pattern
from state_machines.regex.python_syntax import FLAG_LETTERS, flag_letters
from state_machines.regex.unicode_classes import perl_class, property_set
from state_machines.regex.unicode_versions import disputed, unassigned

EDGES = [
    *"aAkKsSiIbz19_-][^ ~&:,+\t\n\r\v\f\x1c\x7f\x80\x85\xa0\xff",
    *"\u0130\u0131\u017f\u212aéÉßẞςσΣµΑα\u0295\u019b\u0345\u0301\u02b0\u0663\u200d\u203f",
    *"\u2028\u2029\ufeff\u180e\uffff\U0001f600\U00010400\U00010428\U0010ffff",
    *"\u0378\u088f\u1c89\ua7cb\ua7dc\ua7ce\U0001e4f0\U00010d40\U00032000\U000105c0",
]
"""Characters at edges of classes, and at the end characters of the newest versions of Unicode."""

TEXTS = [
    "",
    *EDGES,
    *map("".join, product(EDGES, EDGES)),
    "aaa",
    "ab\n",
    "a\nb\n",
    "foo bar",
    "a\r\nb",
]
VERSIONED = unassigned() | disputed("casefolding") | disputed("scx") | disputed("extpict")

Reader = Callable[[str, Sequence[str]], "list[bool] | None"]


def judge(
    pattern: str,
    dialect: PatternDialect,
    reader: Reader,
    texts: Sequence[str],
    uncertain: CodePointSet = VERSIONED,
    flags: str = "",
) -> None:
    """Compare a pattern with its reader, unless it is refused as unsupported.

    The reader may find it in more texts if they have a character of ``uncertain``.
    """
    found = reader(pattern, texts)
    if found is None:
        event("no pattern of the dialect")
        return
    try:
        node = compile_pattern(pattern, search=True, dialect=dialect, flags=flags)
    except UnsupportedPatternError as error:
        event(f"refused: {error.what}")
        return
    for text, expected in zip(texts, found, strict=True):
        if spells(node, text) != expected:
            assert expected, f"{pattern!r} admits {text!r}"
            assert uncertain & CodePointSet.of(text), f"{pattern!r} leaves out {text!r}"


# Rust

RUST = [
    r"^\d$", r"^\D$", r"^\w$", r"^\W$", r"^\s$", r"^\S$", r"[^\w]", r"^[^\s\d]$", r"\ba", r"a\b",
    r"\b", r"\B", r"^\B$", r"\Ba\B", r"\<a", r"a\>", r"\b{start}a", r"a\b{end}", r"\b{start-half}\W",
    r"\W\b{end-half}", r"^[[:alpha:]]+$", r"^[[:^alpha:]]$", r"^[[:word:]-]$", r"[[:foo:]]",
    r"[:alpha:]", r"(?i)^[[:^lower:]]$", r"(?i)^[[:upper:]]$", r"^[\w--\d]$", r"^[\W&&\S]$",
    r"^[\p{L}~~\p{Lu}]$", r"^[^\p{L}--a]$", r"^[a-z&&[^aeiou]]$", r"[^x&&y]", r"[a&&]", r"[&&a]",
    r"[a--b]", r"[+--]", r"[--a]", r"[---]", r"[]a]", r"[^]a]", r"[]-a]", r"[a-c-e]", r"[a\]b]",
    r"(?i)^[^\P{Lu}]$", r"(?i)^[\P{Lu}x]$", r"(?i)^\P{Lu}$", r"(?i)^\p{Lu}$", r"(?i)^\W$",
    r"(?i)^ß$", r"(?i)^ſ$", r"(?i)^[^ſ]$", r"(?i)^σ$", r"(?i)^[^k]$", r"(?i)^i$", r"(?i)(?-i:k)K",
    "(?i)^\u019b$", r"(?i-u)^k$", r"(?-u)^\w$", r"(?-u)\ba", r"(?-u)\B", r"(?i-u)^[k-s]$",
    r"(?x) a [ b - d ] # foo", "(?x)[a #b\n]", r"(?x)[ ^ a ]", r"(?x)[ ] a]", r"(?x)[ - a ]",
    r"(?x)\ ", r"(?x) a {2} (?: b ) ", r"(?x) ( ?:a) ", r"a{ 1 , 2 }$", r"a{2}{2}", r"^*a", r"\b+a",
    r"^.$", r"(?s)^.$", r"(?R)^.$", r"(?m)^a", r"(?m)a$", r"(?mR)^a", r"(?mR)a$", r"(?mR)^$",
    r"(?mR)\r$", r"(?mR)^\n", r"(?R)a$", r"a(?m)$", r"$^", r"(?m)^\z", r"\Aa\z", r"(?im-sx:A$)",
    r"a$", r"^(?:a|b$)*$", r"(?:^a)+", r"(?U)a+?", r"a*?b??", r"a|", r"(|a)b", r"]}", r"\p{Greek}",
    r"\pL", r"\p{isGreek}", r"\p{sc!=Latin}", r"\P{sc!=Latin}", r"^\p{scx:Grek}$", r"^\P{scx=Grek}$",
    r"^\p{Cn}$", r"^\P{Cn}$", r"^\P{Emoji}$", r"^\p{ExtPict}$", r"^\P{ExtPict}$", r"^\P{Ll}$",
    r"^\P{Dia}$", r"^\P{CWU}$", r"^\P{XIDC}$", r"^\p{any}$", r"^\P{ascii}$", r"(?P<a>a)(?<b.c[0]>b)",
    r"\x{41}\u0041?\U00000041?", r"[^\x00-\x{10FFFF}]", r"\%\&\~\ \/", r"\a|\f|\v", r"(?u:a)",
]  # fmt: skip


@pytest.mark.parametrize("pattern", RUST)
def test_rust_pattern_is_found_where_pydantic_finds_it(pattern: str) -> None:
    judge(pattern, "rust", rust_finds, TEXTS)


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"(?-u)a.", r"(?-u:\W)", r"(?-u:[^a])", r"(?-u)\p{L}", "(", "[a", "a{2,1}", r"\Z"),
        r"\p{No}x\p{Nope}",
    ],
)
def test_rust_pattern_that_pydantic_refuses_is_invalid(pattern: str) -> None:
    assert rust_finds(pattern, []) is None
    with pytest.raises(InvalidPatternError):
        compile_pattern(pattern, search=True, dialect="rust")


RUST_ATOMS = [
    *"ab1-k\u017f\u0130é", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", ".", r"\p{L}", r"\P{L}", r"\p{Lu}",
    "[[:alpha:]]", "[^[:space:]]", r"[\w--a]", r"[^\w&&\W]", r"[\D~~\w]", "[a-z&&[^b]]", r"[^\p{Nd}k]",
    "(?i:k)", "(?i:[^k])", r"(?i:\P{Ll})", "(?s:.)", r"(?-u:\w)", r"\n", r"\r",
]  # fmt: skip
RUST_ASSERTIONS = [
    "^", "$", r"\A", r"\z", r"\b", r"\B", r"\<", r"\b{end}", r"\b{start-half}", "(?m:^)", "(?m:$)",
    "(?mR:^)", "(?mR:$)", r"(?-u:\b)",
]  # fmt: skip
PYTHON_ATOMS = [
    *"ab1-k\u017f\u0130é", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", ".", "[]a]", "[^]a]", r"[^\w]",
    r"[^\Wa]", "[[a]", r"\101", r"\0", r"\N{DIGIT ONE}", "(?i:k)", "(?i:[^k])", r"(?i:[^\wé])", "(?s:.)",
    r"\n", "(?x: a )", "(?#b)",
]  # fmt: skip
PYTHON_ASSERTIONS = [
    "^", "$", r"\A", r"\Z", r"\b", r"\B", "(?m:^)", "(?m:$)", "(?<=a)", r"(?<!\w)", "(?=a)",
    "(?!a)", r"(?=.*\n)", "(?!a$)",
]  # fmt: skip
ECMA_ATOMS = [
    *"ab1-k\u017f\u0130é", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", ".", r"\p{L}", r"\P{L}", r"\p{Lu}",
    r"[^\p{Nd}k]", r"[\P{Lu}]", "[^]", r"[^\S]", r"\p{Script=Greek}", r"\P{Script=Latin}", r"\n",
]  # fmt: skip
ECMA_ASSERTIONS = [
    "^", "$", r"\b", r"\B", "(?<=a)", r"(?<!\p{L})", r"(?<!\P{L})", r"(?=\p{L})", r"(?!\p{L})",
    r"(?!\P{L}b)", r"(?!(?!\p{Lu}).)",
]  # fmt: skip
QUANTIFIERS = ["*", "+", "?", "*?", "{2}", "{0,2}", "{1,}"]


def patterns(atoms: list[str], assertions: list[str]) -> st.SearchStrategy[str]:
    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.lists(inner, min_size=2, max_size=4).map("".join),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
            st.builds("(?:{}){}".format, inner, st.sampled_from(QUANTIFIERS)),
        )

    return st.recursive(st.sampled_from([*atoms, *assertions]), extend, max_leaves=7)


RANDOM_TEXTS = st.lists(st.text(st.sampled_from(EDGES), max_size=6), min_size=5, max_size=25)


@settings(max_examples=150)
@given(patterns(RUST_ATOMS, RUST_ASSERTIONS), RANDOM_TEXTS)
def test_random_rust_patterns_agree_with_pydantic(pattern: str, texts: list[str]) -> None:
    judge(pattern, "rust", rust_finds, ["", *EDGES, *texts])


# Python

PYTHON = [
    ("a$", ""), ("^a$", "m"), ("a$", "m"), (r"a\Z", ""), (r"\Aa", "m"), ("^.$", ""), (".", "s"),
    (r"\n$", ""), (r"$a", ""), ("a$\n", ""), ("(?:a|$)b?", ""), (r"^\w$", ""), (r"^\W$", ""),
    (r"^\d+$", ""), (r"^\D$", ""), (r"^\s$", ""), (r"^\S$", ""), (r"^\w$", "a"), (r"^\W$", "a"),
    (r"^\s$", "a"), (r"\b\w", "a"), (r"\b", ""), (r"\B", ""), (r"^\B$", ""), (r"\Ba\B", ""),
    ("^k$", "i"), ("^ſ$", "i"), ("^[^k]$", "i"), ("^[k-s]$", "i"), ("^k$", "ai"),
    (r"^[^\Wé]$", "i"), (r"^[\WA]$", "i"), ("^İ$", "i"), ("^ı$", "i"), ("^i$", "i"), ("^[ı]$", "i"),
    ("^ß$", "i"), ("^σ$", "i"), ("^Σ$", "i"), ("^[^k]$", "ai"), ("^é$", "ai"), ("(?i:a)b", ""),
    ("(?i)(?-i:a)b", ""), ("\u019b", "i"), ("[^\u019b]", "i"), ("[^\u0345]$", "i"), ("^µ$", "i"),
    ("^[\\u0100-\\uffff]$", "i"), ("^[^\\u0100-\\U0001ffff]$", "i"), ("^[\\U00010400-\\U00010427]$", "i"),
    ("[]a]$", ""), ("^[^]]$", ""), ("[]-a]", ""), ("[--a]", ""), ("[a-]", ""), (r"[a\-z]", ""),
    ("[a&&b]", ""), ("[[:alpha:]]", ""), (r"\07", ""), (r"\0", ""), (r"\101", ""), (r"\x41", ""),
    (r"\u0041\U00000042", ""), (r"\N{LATIN SMALL LETTER A}", ""), (r"[\N{DIGIT ONE}-\x39]", ""),
    (r"[\101-\132]", ""), (r"[\b]", ""), ("a{,2}$", ""), ("^a{,}$", ""), ("^a{}$", ""), ("a{2,1x}", ""),
    ("{a}", ""), ("a b # foo", "x"), (r"a\ b", "x"), ("[ a]", "x"), ("a #c\n*b", "x"), ("a(?#foo)*b", ""),
    ("(?P<n>a)b", ""), ("(?=a)a|b", ""), ("(?!a)[ab]", ""), ("(?<=a)b", ""), ("(?<![ab])b", ""),
    ("(?<=a|b)k", ""), ("(?=.*a$)k", ""), (r"(?!.*\n)k", ""), ("(?m:^)a", ""), ("(?s-m:.$)", "m"),
    (r"\-\_\ \é\%", ""), ("(?:^)*a", ""), ("(?=a)*b", ""), ("()", ""), ("a||b", ""),
    (r"[\ud83d\ude00]", ""), ("^(?:(?!ab).)*$", ""), (r"(?!\w)", ""), ("^(?!(?i:k))", ""), ("^$", "m"),
    (r"^\s*$", "m"), (r"\b$", "m"),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "flags"), PYTHON)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_python_pattern_is_found_where_re_finds_it(pattern: str, flags: str) -> None:
    value = sum(FLAG_LETTERS[letter] for letter in flags)
    found = python_finds(pattern, TEXTS, value)
    assert found is not None
    node = compile_pattern(pattern, search=True, dialect="python", flags=flags)
    assert [text for text, is_found in zip(TEXTS, found, strict=True) if spells(node, text)] == [
        text for text, is_found in zip(TEXTS, found, strict=True) if is_found
    ]


@settings(max_examples=150)
@given(
    patterns(PYTHON_ATOMS, PYTHON_ASSERTIONS),
    st.sampled_from(["", "a", "i", "m", "ais"]),
    RANDOM_TEXTS,
)
def test_random_python_patterns_agree_with_re(pattern: str, flags: str, texts: list[str]) -> None:
    def reader(pattern: str, texts: Sequence[str]) -> list[bool] | None:
        return python_finds(pattern, texts, sum(FLAG_LETTERS[letter] for letter in flags))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        judge(pattern, "python", reader, ["", *EDGES, *texts], CodePointSet(()), flags)


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        (r"(a)\1", "back-reference"),
        ("(?P<n>a)(?P=n)", "back-reference"),
        ("(a)?(?(1)b|c)", "conditional"),
        ("(?>a)b", "atomic"),
        ("a*+b", "possessive"),
        ("(?<=ab)c", "look-behind"),
        (r"(?a:\W)b", "flag a"),
    ],
)
def test_python_construct_that_is_not_regular_is_refused(pattern: str, what: str) -> None:
    with pytest.raises(UnsupportedPatternError, match=what):
        compile_pattern(pattern, search=True, dialect="python")


@pytest.mark.parametrize(("pattern", "position"), [("(", 0), ("a**", 2), (r"\Q", 0), ("a(?i)", 1)])
def test_error_of_re_names_the_position(pattern: str, position: int) -> None:
    with pytest.raises(InvalidPatternError) as caught:
        compile_pattern(pattern, search=True, dialect="python")
    assert caught.value.position == position


def test_flags_of_compiled_pattern_have_letters() -> None:
    compiled = re.compile("a . # b", re.IGNORECASE | re.VERBOSE | re.DOTALL)
    assert set(flag_letters(compiled.flags)) == set("isux")
    node = compile_pattern(
        compiled.pattern, search=True, dialect="python", flags=flag_letters(compiled.flags)
    )
    assert spells(node, "xA\n")
    assert not spells(node, "a")


@pytest.mark.parametrize("pattern", ["b", re.compile("B", re.IGNORECASE)])
def test_python_engine_of_pydantic_searches(pattern: str | re.Pattern[str]) -> None:
    adapter: TypeAdapter[str] = TypeAdapter(
        Annotated[str, Field(pattern=pattern)], config=ConfigDict(regex_engine="python-re")
    )
    assert adapter.validate_python("abc") == "abc"
    with pytest.raises(ValidationError):
        adapter.validate_python("ac")


# ECMA-262


@pytest.fixture(scope="module")
def node_process() -> Iterator[JavaScript]:
    if NODE is None:
        pytest.skip("Node is not installed")
    with javascript() as process:
        yield process


@settings(max_examples=150)
@given(patterns(ECMA_ATOMS, ECMA_ASSERTIONS), RANDOM_TEXTS)
def test_random_ecma_patterns_agree_with_node(
    node_process: JavaScript, pattern: str, texts: list[str]
) -> None:
    # Node also finds empty matches between the two halves of a surrogate pair.
    uncertain = VERSIONED | code_points(0x10000, 0x10FFFF)
    judge(pattern, "ecma", node_process.finds, ["", *EDGES, *texts], uncertain)


@pytest.mark.parametrize(
    ("pattern", "position", "hint"),
    [
        ("a]", 1, r"\\]"),
        ("]", 0, r"\\]"),
        ("[^]]", 3, "whole classes"),
        ("^[]a-z]+$", 6, "whole classes"),
        ("[[:alpha:]]+", 10, "alpha"),
        ("[[:alpha:][:digit:]]+", 19, "alpha"),
        ("[a&&[b]]", 7, "classes inside classes"),
        ("[a-z--[aeiou]]", 13, "classes inside classes"),
    ],
)
def test_lone_bracket_is_refused_as_by_node(pattern: str, position: int, hint: str) -> None:
    with pytest.raises(InvalidPatternError) as caught:
        compile_pattern(pattern, search=True)
    assert caught.value.position == position
    assert re.search(hint, caught.value.hint)
    if NODE is not None:
        with javascript() as process:
            assert process.finds(pattern, []) is None


# Versions of Unicode


@pytest.mark.parametrize(
    "name", ["L", "Lu", "Ll", "Nd", "Mn", "Alphabetic", "Emoji", "ExtPict", "Greek"]
)
@pytest.mark.parametrize("form", [r"^\p{%s}$", r"^\P{%s}$", r"^[^\p{%s}]$", r"(?i)^\P{%s}$"])
def test_property_admits_no_character_that_pydantic_refuses(name: str, form: str) -> None:
    pattern = form % name
    ((members, _),) = compile_pattern(pattern, search=False, dialect="rust").transitions
    texts = list(map(chr, members))
    found = rust_finds(pattern, texts)
    assert found is not None
    assert [
        hex(ord(text)) for text, is_found in zip(texts, found, strict=True) if not is_found
    ] == []


@pytest.mark.parametrize("letter", "dDwWsS")
def test_class_has_the_members_that_pydantic_finds(letter: str) -> None:
    ((members, _),) = compile_pattern(rf"^\{letter}$", search=False, dialect="rust").transitions
    texts = [chr(p) for p in range(0x110000) if not 0xD800 <= p < 0xE000 and p not in unassigned()]
    found = rust_finds(rf"^\{letter}$", texts)
    assert found is not None
    assert [
        t for t, is_found in zip(texts, found, strict=True) if is_found != (ord(t) in members)
    ] == []


def test_unassigned_characters_are_in_no_property_and_in_no_complement() -> None:
    dialects: list[PatternDialect] = ["ecma", "rust"]
    for dialect in dialects:
        for pattern in (r"^\p{L}$", r"^\P{L}$", r"^[^\p{L}]$", r"^(?:a|\P{Lu})$"):
            ((members, _),) = compile_pattern(pattern, search=False, dialect=dialect).transitions
            assert not members & unassigned(), (dialect, pattern)
    ((members, _),) = compile_pattern("^[^a]$", search=False).transitions
    assert members & unassigned() == unassigned()


def test_denied_property_admits_no_unassigned_character() -> None:
    for pattern in (r"^(?!\p{L})..$", r"^.(?<!\p{L}).$", r"^(?!\P{L})..$", r"^(?!a\P{L}|\p{L})..$"):
        node = compile_pattern(pattern, search=True)
        for point in (0x378, 0x1C89, 0x105C0):
            assert not spells(node, f"{chr(point)}a"), (pattern, point)


def test_errors_of_all_dialects_name_the_position() -> None:
    for dialect in get_args(PatternDialect):
        with pytest.raises(PatternError) as caught:
            compile_pattern("ab(", search=True, dialect=dialect)
        assert caught.value.position == 2


@pytest.mark.parametrize("dialect", get_args(PatternDialect))
def test_unknown_flag_is_refused(dialect: PatternDialect) -> None:
    with pytest.raises(UnsupportedPatternError, match="flag 'g'"):
        compile_pattern("a", search=True, dialect=dialect, flags="ig")


@pytest.mark.parametrize("dialect", get_args(PatternDialect))
def test_flag_ignores_case_in_each_dialect(dialect: PatternDialect) -> None:
    node = compile_pattern("^[a-c]é$", search=True, dialect=dialect, flags="i")
    assert spells(node, "BÉ")
    assert not spells(node, "dé")


def test_table_of_digits_is_that_of_unicode() -> None:
    """A later version may have more digits, which older ones do not assign."""
    known = property_set("Nd")
    assert known is not None
    assert (perl_class("d") & ~known).ranges == ()
    assert ((known & ~perl_class("d")) & ~unassigned()).ranges == ()
