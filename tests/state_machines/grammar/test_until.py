"""Texts up to a string, against enumerations of their words."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schema_strategies import examples

from state_machines.budgets import step_budget
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.until import AhoCorasick, UntilText, text_until, text_without

LETTERS = "ab"
LONGEST = 7
TEXTS = ["".join(word) for n in range(LONGEST + 1) for word in product("abx", repeat=n)]
strings = st.text(LETTERS, min_size=1, max_size=4)


def language(node: Node) -> set[str]:
    """Return the words of up to ``LONGEST`` characters; fails at a dead end."""
    found = set()
    layer = [("", node)]
    for _ in range(LONGEST + 1):
        found |= {word for word, state in layer if state.nullable}
        layer = [
            (word + letter, target)
            for word, state in layer
            for symbols, target in state.transitions
            for letter in "abx"
            if ord(letter) in symbols
        ]
    return found


def ends_first(text: str, wanted: str, others: set[str]) -> bool:
    """Whether the first string that ends in a text is ``wanted``, at the end of the text."""
    everything = others | {wanted}
    for end in range(1, len(text) + 1):
        ending = [s for s in everything if text[:end].endswith(s)]
        if ending:
            return end == len(text) and max(ending, key=len) == wanted
    return False


bounds = st.tuples(st.integers(0, 3), st.none() | st.integers(0, 3)).map(
    lambda pair: (pair[0], None if pair[1] is None else pair[0] + pair[1])
)


@examples(40)
@given(st.sets(strings, max_size=3), bounds)
def test_text_without_strings_contains_none_of_them(
    without: set[str], bound: tuple[int, int | None]
) -> None:
    least, most = bound
    expected = {
        text
        for text in TEXTS
        if not any(s in text for s in without)
        and least <= len(text)
        and (most is None or len(text) <= most)
    }
    assert language(text_without(without, least, most)) == expected


@examples(40)
@given(strings, st.sets(strings, max_size=3), bounds)
def test_text_until_a_string_ends_with_its_first_occurrence(
    wanted: str, others: set[str], bound: tuple[int, int | None]
) -> None:
    least, most = bound
    expected = {
        text
        for text in TEXTS
        if ends_first(text, wanted, others)
        and least <= len(text) - len(wanted)
        and (most is None or len(text) - len(wanted) <= most)
    }
    assert language(text_until(wanted, others, least, most)) == expected


@examples(40)
@given(strings, st.sets(strings, max_size=2), st.sets(strings, max_size=3), bounds)
def test_texts_do_not_begin_with_an_excluded_string(
    wanted: str, others: set[str], first: set[str], bound: tuple[int, int | None]
) -> None:
    without = language(text_without(others, *bound))
    expected = {text for text in without if not any(text.startswith(s) for s in first)}
    assert language(text_without(others, *bound, first)) == expected
    until = language(text_until(wanted, others, *bound))
    expected = {text for text in until if not any(text.startswith(s) and text != s for s in first)}
    # The wanted string ends the text even if it is one of those.
    kept = {text for text in expected if text not in first or text.endswith(wanted)}
    assert language(text_until(wanted, others, *bound, first)) == kept


@given(
    strings,
    st.sets(strings, max_size=3),
    bounds,
    st.sets(strings, max_size=2),
    st.text("abx", max_size=6),
)
def test_no_state_is_a_dead_end(
    wanted: str, others: set[str], bound: tuple[int, int | None], first: set[str], text: str
) -> None:
    for node in (text_until(wanted, others, *bound, first), text_without(others, *bound, first)):
        for letter in text:
            targets = [target for symbols, target in node.transitions if ord(letter) in symbols]
            if not targets:
                break
            node = targets[0]
            assert has_word(node)
            if isinstance(node, UntilText):
                assert has_word(node.shortest())


def has_word(node: Node) -> bool:
    seen, layer = {node}, [node]
    for _ in range(40):
        if any(state.nullable for state in layer):
            return True
        layer = [t for state in layer for _, t in state.transitions if t not in seen]
        seen.update(layer)
    return False


@given(strings, bounds, st.integers(0, 3))
def test_near_text_has_the_same_beginnings(
    wanted: str, bound: tuple[int, int | None], length: int
) -> None:
    for node in (text_until(wanted, (), *bound), text_without({wanted}, *bound)):
        if not isinstance(node, UntilText):
            continue
        near = node.near(length)
        for word in product("abx", repeat=length):
            one, other = node, near
            for letter in word:
                one = next((t for symbols, t in one.transitions if ord(letter) in symbols), EMPTY)
                other = next(
                    (t for symbols, t in other.transitions if ord(letter) in symbols), EMPTY
                )
                assert (one is EMPTY) == (other is EMPTY)
                assert one.nullable == other.nullable


def test_ended_text_respects_its_upper_bound() -> None:
    """At the upper bound, an incomplete marker could begin once more."""
    node = text_until("ab", (), 0, 0)
    (begun,) = {target for symbols, target in node.transitions if ord("a") in symbols}
    assert isinstance(begun, UntilText)
    assert language(begun.shortest()) == language(begun) == {"b"}


def test_string_that_contains_another_is_never_found() -> None:
    assert text_until("abc", ["b"]) is EMPTY
    assert text_until("ab", ["b"]) is not EMPTY


def test_strings_beyond_ascii_are_found() -> None:
    node = encoded(text_until("｜>", ["<｜"]), RAW)
    assert node.matches("día ｜｜>".encode())
    assert not node.matches("día <｜｜>".encode())


@pytest.mark.parametrize("text", ["", "<", "<tool_cal", "<<tool_call", "é" * 300])
def test_texts_without_the_trigger(text: str) -> None:
    assert encoded(text_without(["<tool_call>"]), RAW).matches(text.encode())
    assert encoded(text_until("<tool_call>"), RAW).matches(text.encode() + b"<tool_call>")


def test_automaton_of_long_overlapping_strings_costs_linear_work() -> None:
    strings = tuple("ab" * (440 + i) + f"-{i}" for i in range(64))
    with step_budget(sum(map(len, strings)) // 4):
        found = AhoCorasick(strings)
        state = 0
        for letter in "ab" * 2000:
            state = found.next_state(state, letter)
            found.transitions(state)
    assert found.depth[state] == 2 * 503
