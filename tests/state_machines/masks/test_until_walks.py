"""Masks of free texts: far bounds share a walk, near bounds are enforced."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schema_strategies import examples
from small_vocabulary import small_vocabulary, walk_masks

from state_machines import Matcher, Vocabulary
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import concatenation, literal, union
from state_machines.grammar.until import text_until, text_without
from state_machines.masks.free_texts import FreeTextTokens

VOCABULARY = small_vocabulary()
marks = st.sampled_from(("a", "ab", "aba", '"}', "é", "}]", "true"))


@examples(60)
@given(
    st.none() | marks,
    st.lists(marks, max_size=2),
    st.integers(0, 8),
    st.none() | st.integers(0, 3) | st.integers(15, 40),
    st.sampled_from((EPSILON, literal(b"<tool>"), literal(b'{"a":1}'))),
    st.integers(0, 2**32),
)
def test_masks_of_bounded_texts_equal_brute_force(
    wanted: str | None,
    others: list[str],
    least: int,
    room: int | None,
    rest: Node,
    seed: int,
) -> None:
    most = None if room is None else least + room
    free = concatenation(encoded(text_without([*others, "|"], least, most), RAW), rest)
    state = free
    if wanted is not None:
        until = text_until(wanted, [*others, "|"], least, most)
        state = union([free, concatenation(encoded(until, RAW), literal(b"null"))])
    walk_masks(
        Matcher(state, VOCABULARY),
        VOCABULARY,
        Random(seed),
        12,
        preferred=lambda form: len(form) > 1,
        share=0.7,
    )


@pytest.mark.parametrize(("least", "most", "wanted"), [(50, None, None), (50, 100_000, "</think>")])
def test_texts_with_far_bounds_share_one_walk(
    least: int,
    most: int | None,
    wanted: str | None,
    vocabulary: Vocabulary,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walks = []
    walk = FreeTextTokens.of

    def counted(*arguments: object) -> object:
        walks.append(arguments)
        return walk(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(FreeTextTokens, "of", counted)
    if wanted is None:
        text = text_without(["<|never|>"], least, most)
    else:
        text = text_until(wanted, ["<|never|>"], least, most)
    matcher = Matcher(encoded(text, RAW), vocabulary)
    for _ in range(120):
        assert matcher.allowed_tokens()[ord("x")]
        matcher.advance(ord("x"))
    assert len(walks) <= 1
