"""Lengths of words against all words up to a length."""

import pytest

from state_machines.budgets import Verdict
from state_machines.grammar.shortest import has_all_lengths
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
