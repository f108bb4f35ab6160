"""Walks of automata over tries, with and without the compiled kernel."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_machines.grammar.boolean import difference
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import repetition, symbols
from state_machines.grammar.symbols import ANY_BYTE, byte_ranges
from state_machines.masks.automaton import (
    KERNEL,
    LIBRARY,
    UNBOUNDED,
    Automaton,
    Kernel,
    states_at_vertices,
)
from state_machines.masks.token_trie import TokenTrie
from state_machines.regex import compile_pattern

KERNELS = [
    pytest.param(None, id="arrays"),
    pytest.param(
        KERNEL,
        id="compiled",
        marks=pytest.mark.skipif(KERNEL is None, reason="the loop was not compiled"),
    ),
]
PATTERNS = ("a*", "(ab|ba)*c?", "[a-c]{2,5}", "é+|x", r"[^a]\d*", "(a|b)*a(a|b){3}", "abc|abd")


def language(pattern: str) -> Node:
    return encoded(compile_pattern(pattern, search=False), RAW)


def state_after(node: Node, text: bytes, most: int) -> Node:
    """Return the state after a text; :data:`EMPTY` if no word within the bound begins with it."""
    left = most - len(text)
    for byte in text:
        node = node.derivative(byte)
    if most == UNBOUNDED or node is EMPTY:
        return node
    short = repetition(symbols(ANY_BYTE), 0, max(left, 0))
    too_long = difference(node, short, ANY_BYTE)
    within = difference(node, too_long, ANY_BYTE)
    return node if left >= 0 and not within.is_empty else EMPTY


@pytest.mark.parametrize("kernel", KERNELS)
@given(
    st.sampled_from(PATTERNS),
    st.lists(st.text("abcdxé1", min_size=1, max_size=6), min_size=1, max_size=20, unique=True),
    st.sampled_from((UNBOUNDED, 0, 2, 4)),
)
def test_states_at_vertices_are_the_derivatives(
    kernel: Kernel | None, pattern: str, texts: list[str], most: int
) -> None:
    forms = [text.encode() for text in texts]
    trie = TokenTrie.of_texts(forms)
    node = language(pattern)
    automaton = Automaton(node, byte_ranges, is_bounded=most != UNBOUNDED)
    states = states_at_vertices(automaton, trie, most, kernel)
    for form in forms:
        path = trie.path(form)
        found = [automaton.nodes[states[vertex]] for vertex in path]
        expected = [state_after(node, form[: n + 1], most) for n in range(len(form))]
        assert found == expected


def test_missing_library_is_an_error() -> None:
    with pytest.raises(OSError, match="nowhere"):
        Kernel(LIBRARY.with_name("nowhere.so"))


@pytest.mark.skipif(KERNEL is None, reason="the loop was not compiled")
def test_library_of_another_version_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("state_machines.masks.automaton.VERSION", 1)
    with pytest.raises(OSError, match="reinstall"):
        Kernel(LIBRARY)
