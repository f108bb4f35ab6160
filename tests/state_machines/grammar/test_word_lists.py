"""Unions of many or long words: their language, and the cost of using a part of it."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patched_limits import steps_of
from small_vocabulary import small_vocabulary

from state_machines import ChoiceStateMachine, GrammarStateMachine
from state_machines.grammar import word_lists
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import concatenation, literal
from state_machines.grammar.word_lists import literals, word_list

MEGABYTE = "abcdefghijklmnopqrst" * 50_000


WORDS = st.lists(st.text("ab\n", max_size=9), min_size=1, max_size=12)
ENDS = [EPSILON, literal(b"b"), literal(b"ab")]


@pytest.fixture(params=["as it is", "small limits"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with small limits as well, so that small lists are built like large ones."""
    if request.param != "as it is":
        monkeypatch.setattr(word_lists, "CHUNK", 2)
        monkeypatch.setattr(word_lists, "SHORT", 1)


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("over", ["bytes", "characters"])
def test_word_list_accepts_exactly_its_words(over: str) -> None:
    @given(WORDS, st.text("ab\n", max_size=9))
    def check(words: Sequence[str], other: str) -> None:
        if over == "bytes":
            node = literals(word.encode() for word in words)
        else:
            node = encoded(literals(words), RAW)
        for text in (*words, other):
            assert node.matches(text.encode()) == (text in words)
            for end in range(len(text) + 1):
                begins = any(word.startswith(text[:end]) for word in words)
                assert (node.compute_word_derivative(text[:end].encode()) is not EMPTY) == begins
        assert node.min_length == min(map(len, words))

    check()


@pytest.mark.usefixtures("size")
@given(st.lists(st.tuples(st.binary(max_size=4), st.sampled_from(ENDS)), min_size=1, max_size=9))
def test_continuation_depends_on_the_word(entries: list[tuple[bytes, Node]]) -> None:
    node = word_list(entries)
    for word, then in entries:
        for end in (b"", b"b", b"ab"):
            text = word + end
            expected = any(concatenation(literal(w), t).matches(text) for w, t in entries)
            assert node.matches(text) == expected
        assert node.compute_word_derivative(word) is not EMPTY or then is EMPTY


@pytest.mark.usefixtures("size")
@given(WORDS)
def test_equal_lists_are_one_node(words: list[str]) -> None:
    entries = [(word.encode(), EPSILON) for word in words]
    node = word_list(entries)
    assert word_list(entries[::-1]) is node


@pytest.mark.parametrize(
    "texts",
    [
        [MEGABYTE],
        [MEGABYTE + "a", MEGABYTE + "b"],
        [str(number) + MEGABYTE[:2000] for number in range(500)],
        [MEGABYTE[:2000] + str(number) for number in range(500)],
        [f"{number:x}" for number in range(30_000)],
    ],
    ids=["one", "common beginning", "many", "many with a common beginning", "short"],
)
def test_cost_depends_on_the_used_part_only(texts: list[str]) -> None:
    """Building it, its first mask and advancing take less than one step for each byte."""
    machines: list[ChoiceStateMachine] = []
    vocabulary = small_vocabulary()

    def begin() -> None:
        machines.append(ChoiceStateMachine(texts))
        machines[0].matcher(vocabulary).allowed_tokens()

    assert steps_of(begin) < 60_000
    (machine,) = machines
    assert steps_of(lambda: machine.matches(texts[0])) < 5000
    assert not machine.matches(texts[0] + "x")
    writing = machine.matcher(vocabulary)
    forced = writing.forced_bytes()
    assert texts[0].encode().startswith(forced)

    def write() -> None:
        for byte in texts[0][:300].encode():
            assert writing.allowed_tokens()[byte]
            writing.advance(byte)

    assert steps_of(write) < 200 * 300


def test_states_of_a_long_text_share_a_cache_of_derivatives() -> None:
    machine = GrammarStateMachine(f'root ::= "{MEGABYTE[:100_000]}" | "x"')
    writing = machine.matcher(small_vocabulary())
    gc.collect()
    for byte in MEGABYTE[:3000].encode():
        writing.advance(byte)
    before = len(gc.get_objects())
    for byte in MEGABYTE[3000:12_000].encode():
        writing.advance(byte)
    gc.collect()
    assert len(gc.get_objects()) - before < 9000
