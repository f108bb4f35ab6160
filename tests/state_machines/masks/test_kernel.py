"""Walks of automata over tries, with and without the compiled kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_machines.compiled_library import compiled_libraries
from state_machines.grammar.encoding import JSON_STRING, RAW, Spelling, encoded
from state_machines.grammar.node import Node
from state_machines.masks.descent import Descents, below, states_at_vertices
from state_machines.masks.kernel import (
    KERNEL,
    SOURCE,
    Kernel,
    load_kernel,
)
from state_machines.masks.state_table import StateTable
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
PATTERNS = ("a*", "(ab|ba)*c?", "[a-c]{2,5}", "é+|x", r"[^a]\d*", "(a|b)*a(a|b){3}", ".*", "[^é]*")
SPELLINGS = ((RAW, b""), (JSON_STRING, b'"'))


def language(pattern: str, spelling: Spelling, terminator: bytes) -> Node:
    return encoded(compile_pattern(pattern, search=False), spelling, terminator)


@pytest.mark.parametrize("kernel", KERNELS)
@given(
    st.sampled_from(PATTERNS),
    st.sampled_from(SPELLINGS),
    st.lists(
        st.one_of(
            st.text('abcdxé1€😀"\\', min_size=1, max_size=6).map(str.encode),
            st.binary(min_size=1, max_size=4),
        ),
        min_size=1,
        max_size=20,
        unique=True,
    ),
)
def test_walks_find_the_derivatives(
    kernel: Kernel | None, pattern: str, spelling: tuple[Spelling, bytes], forms: list[bytes]
) -> None:
    trie = TokenTrie.of_texts(forms)
    node = language(pattern, *spelling)
    table = StateTable()
    start = table.number(node)
    states = states_at_vertices(table, start, trie, kernel)
    for form in forms:
        path = trie.path(form)
        found = [table.nodes[states[vertex]] for vertex in path]
        assert found == [node.compute_word_derivative(form[: n + 1]) for n in range(len(form))]
    descents = Descents(trie, kernel)
    descent = descents.descend(table, below(0, start))
    live = {n for n, form in enumerate(forms) if states[trie.path(form)[-1]]}
    assert set(descent.tokens.ids.tolist()) == live
    vertices, reached = descents.visits(table, below(0, start))
    assert {(v, s) for v, s in enumerate(states.tolist()) if s} == set(
        zip(vertices.tolist(), reached.tolist(), strict=True)
    )


def test_missing_or_stale_library_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.so").write_bytes(b"not a library")
    for name in ("nowhere.so", "other.so"):
        with pytest.warns(RuntimeWarning, match=f"without compiled code.*{name}"):
            assert load_kernel([tmp_path / name]) is None
    with pytest.warns(RuntimeWarning, match="walk.c is not compiled"):
        assert load_kernel([]) is None
    monkeypatch.setattr("state_machines.masks.kernel.VERSION", 1)
    with pytest.warns(RuntimeWarning, match=r"walk.*\.so has version \d+, not 1|not compiled"):
        assert load_kernel() is None


def test_library_behind_a_stale_one_is_used(tmp_path: Path) -> None:
    (tmp_path / "stale.so").write_bytes(b"not a library")
    here = list(compiled_libraries(SOURCE))
    assert (load_kernel([tmp_path / "stale.so", *here]) is not None) == bool(here)
