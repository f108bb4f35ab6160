"""Regular expressions in the syntax of Rust's ``regex`` crate."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_machines import GrammarError, GrammarStateMachine


def matches(pattern: str, text: str) -> bool:
    escaped = pattern.replace("/", r"\/")
    return GrammarStateMachine.from_lark(f"start: /{escaped}/").matches(text)


@pytest.mark.parametrize(
    ("pattern", "accepted", "rejected"),
    [
        (r"\d\w\s", ["1a ", "১é\u00a0"], ["1a\ufeff"]),
        (r"\D\W\S", ["a-b"], ["1-b"]),
        (".", ["\r", "\u2028", "é"], ["\n"]),
        ("(?s).", ["\n"], [""]),
        ("(?s:.)[.]", ["\n."], ["\n\n"]),
        ("(?i)a(?-i)b", ["Ab", "ab"], ["AB"]),
        ("(?i:ß)", ["ẞ"], ["ss"]),
        ("(?x) a b # comment\n c", ["abc"], ["a b c"]),
        (r"\Aab\z", ["ab"], ["a"]),
        ("^ab$", ["ab"], ["a"]),
        (r"\p{Greek}\pL\p{lowercase_letter}", ["αAa"], ["aAa", "ααA"]),
        (r"\P{Lu}\p{^Lu}[\p{sc=Greek}--α]", ["aaβ"], ["aaα"]),
        ("[a-z&&[^aeiou]]", ["b"], ["a", "B"]),
        ("[a-f~~d-h]", ["a", "g"], ["d"]),
        ("[[:alpha:][:^ascii:]]", ["a", "é"], ["1"]),
        (r"[]a][^]a][a-][-a]", ["]b-a"], ["]]--"]),
        (r"\x41\x{42}\u0043\u{44}\U00000045\a", ["ABCDE\x07"], []),
        ("(?P<a>x)(?<b>y)", ["xy"], []),
        ("a{2}{2}", ["aaaa"], ["aa"]),
        ("a{", ["a{"], []),
        ("a||b", ["a", "", "b"], ["ab"]),
    ],
)
def test_language(pattern: str, accepted: list[str], rejected: list[str]) -> None:
    assert [text for text in accepted if not matches(pattern, text)] == []
    assert [text for text in rejected if matches(pattern, text)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        r"a\b", r"(?<=a)b", "(?!a)b", r"(a)\1", "a*?", "a{1,2}?", "(?U)a", "(?-u)a", "a^b", "(?m)^a",
        "(?>a)", "[z-a]", "[a", "(a", "a)", "*", "a{2,1}", r"\p{Nothing}", r"\Q", r"\ud800",
        "[[:letters:]]", r"[\d-x",
    ],
)  # fmt: skip
def test_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(GrammarError) as caught:
        matches(pattern, "a")
    assert caught.value.column > 1


@settings(max_examples=15)
@given(
    st.from_regex(r"([ab.]|\[ab\]|\(a\|b\)){0,4}([*+?]|\{1,2\})?", fullmatch=True),
    st.text("abc", max_size=5),
)
def test_simple_patterns_match_as_in_python(pattern: str, text: str) -> None:
    try:
        expected = re.fullmatch(pattern, text) is not None
    except re.error:
        return
    if pattern:
        assert matches(pattern, text) == expected
