"""The laws of the suffix automaton, against searches through the text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.speculation.suffix_automaton import ROOT, SuffixAutomaton

TEXTS = st.integers(1, 4).flatmap(lambda n: st.lists(st.integers(0, n), max_size=40))


def automaton_of(text: list[int]) -> SuffixAutomaton:
    automaton = SuffixAutomaton()
    automaton.extend(text)
    return automaton


def ends(text: list[int], part: list[int]) -> list[int]:
    """Positions of the last tokens of a part's occurrences."""
    n = len(part)
    return [i + n - 1 for i in range(len(text) - n + 1) if text[i : i + n] == part]


def longest_suffix(text: list[int], within: list[int]) -> int:
    return next(n for n in range(len(text), -1, -1) if ends(within, text[len(text) - n :]))


@given(TEXTS)
def test_repeated_suffix_is_the_longest_that_occurred_before(text: list[int]) -> None:
    for n in range(1, len(text) + 1):
        state, length = automaton_of(text[:n]).repeated_suffix
        expected = next(
            k for k in range(n - 1, -1, -1) if k == 0 or len(ends(text[:n], text[n - k : n])) > 1
        )
        assert length == expected
        assert (state == ROOT) == (expected == 0)


@given(TEXTS)
def test_repeated_suffix_ends_at_its_last_occurrence_before(text: list[int]) -> None:
    automaton = SuffixAutomaton()
    for n in range(1, len(text) + 1):
        automaton.extend(text[n - 1 : n])
        state, length = automaton.repeated_suffix
        if length:
            occurrences = ends(text[: n - 1], text[n - length : n])
            assert automaton.end(state) in occurrences


@given(st.lists(st.integers(0, 8), max_size=60), st.integers(1, 5))
def test_suffix_is_found_where_it_occurred_last(text: list[int], count: int) -> None:
    part = [10, 11, 12]
    before = [token for n in range(count) for token in (*text, 20 + n, *part)]
    automaton = automaton_of([*before, 19, *part])
    state, length = automaton.repeated_suffix
    assert (length, automaton.end(state)) == (3, len(before) - 1)


@given(TEXTS, TEXTS)
def test_following_tokens_gives_the_longest_suffix_within_the_text(
    text: list[int], read: list[int]
) -> None:
    automaton = automaton_of(text)
    state, length = ROOT, 0
    for n in range(1, len(read) + 1):
        state, length = automaton.follow(state, length, read[n - 1])
        assert length == longest_suffix(read[:n], text)
        if length:
            assert automaton.end(state) in ends(text, read[n - length : n])


@given(TEXTS)
def test_states_are_at_most_two_per_token(text: list[int]) -> None:
    assert automaton_of(text).states <= max(2, 2 * len(text))


def test_extending_in_pieces_is_extending_at_once() -> None:
    text = [1, 2, 1, 2, 3, 1, 2, 1, 2]
    pieces = SuffixAutomaton()
    pieces.extend(text[:4])
    pieces.extend(text[4:])
    assert (
        pieces.repeated_suffix
        == automaton_of(text).repeated_suffix
        == (pieces.repeated_suffix[0], 4)
    )
    assert len(pieces) == len(text)
