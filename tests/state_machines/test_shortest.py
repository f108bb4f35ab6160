"""Shortest words against all words up to a length."""

import pytest

from state_machines.budgets import Verdict
from state_machines.grammar.shortest import has_endless_words
from state_machines.regex import compile_pattern


@pytest.mark.parametrize(
    ("pattern", "is_endless"),
    [("a*", True), ("a{2,9}", False), ("(ab|c)+d", True), ("a|bc", False), (r"[^b]*x{3}", True)],
)
def test_endless_words(pattern: str, is_endless: bool) -> None:
    assert has_endless_words(compile_pattern(pattern, search=False)) is Verdict.of(is_endless)


def test_endless_words_within_a_budget() -> None:
    late = compile_pattern("a{50}b*", search=False)
    assert has_endless_words(late, max_states=40) is Verdict.UNKNOWN
    assert has_endless_words(late, max_states=60) is Verdict.YES
