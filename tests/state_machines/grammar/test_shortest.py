"""Lengths of words against all words up to a length."""

import pytest

from state_machines.budgets import Verdict
from state_machines.grammar.nodes import literal
from state_machines.grammar.shortest import (
    has_all_lengths,
    has_endless_words,
    has_word_within,
    shortest_word,
)
from state_machines.regex import compile_pattern


@pytest.mark.parametrize(
    ("pattern", "has_all"),
    [
        ("a*", True),
        ("(ab|c)+d", False),
        ("(ab|c)+d*", True),
        (r"[^b]*x{3}.*", True),
        ("a{2,9}", False),
        ("a|bc", False),
        ("(..)*", False),
        ("(..)*|a(..)*", False),
        (".*abc", False),
    ],
)
def test_texts_of_all_lengths(pattern: str, has_all: bool) -> None:
    assert has_all_lengths(compile_pattern(pattern, search=False)) is Verdict.of(has_all)


def test_texts_of_all_lengths_within_a_budget() -> None:
    late = compile_pattern("a{50}b*", search=False)
    assert has_all_lengths(late, max_states=40) is Verdict.UNKNOWN
    later = compile_pattern("c{50}b*", search=False)
    assert has_all_lengths(later, max_states=60) is Verdict.YES


@pytest.mark.parametrize(("pattern", "shortest"), [("", 0), ("ab|c", 1), (r"(\S+\s+){0,9}\S+x", 2)])
@pytest.mark.parametrize("length", range(4))
def test_texts_within_a_length(pattern: str, shortest: int, length: int) -> None:
    for _ in range(2):
        found = has_word_within(compile_pattern(pattern, search=False), length, max_states=40)
        assert found is Verdict.of(shortest <= length)
    assert has_word_within(compile_pattern("a{50}", search=False), 60, 40) is Verdict.UNKNOWN


def test_search_for_a_shortest_word_gives_up_after_some_states() -> None:
    assert [shortest_word(literal(b"abc"), limit) for limit in (3, 4, None)] == [
        None, b"abc", b"abc",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "is_endless"),
    [("a*", True), ("(ab|c)+d", True), (".*abc", True), ("a{2,9}b", False), ("a|bc|", False)],
)
def test_words_beyond_every_length(pattern: str, is_endless: bool) -> None:
    found = has_endless_words(compile_pattern(pattern, search=False))
    assert found is (Verdict.YES if is_endless else Verdict.UNKNOWN)
