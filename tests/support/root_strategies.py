"""Random compositions of parts over few letters, and vocabularies that cut them badly."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from root_reference import END_NAME, SPECIAL_NAME

from state_machines import RegexStateMachine, Vocabulary
from state_machines.root import (
    Choice,
    Loop,
    Marker,
    Optional,
    Part,
    Sequence,
    Structured,
    Text,
)

__all__ = ["LETTERS", "compositions", "vocabularies"]

LETTERS = "ab<"
PATTERNS = ("a+", "[ab]", "(ab)*", "b?", "a|ab", "<b", "a(b<)*")
MARKS = ("ab", "aba", "a", "<", "<<", "<a", "b<", "bb", "<b<", SPECIAL_NAME, SPECIAL_NAME + "<")
ENDS = (END_NAME, "b" + END_NAME)

marks = st.sampled_from(MARKS)
few_marks = st.lists(marks, max_size=2, unique=True).map(tuple)
bounds = st.tuples(st.integers(0, 2), st.none() | st.none() | st.integers(0, 3)).map(
    lambda pair: (pair[0], None if pair[1] is None else pair[0] + pair[1])
)


@st.composite
def texts(draw: st.DrawFn) -> Text:
    """Free texts of all kinds, most of them plain."""
    least, most = draw(st.just((0, None)) | bounds)
    return Text(
        draw(st.sampled_from("xyz")),
        begin=draw(st.just("") | marks),
        end=draw(st.just("") | marks | st.sampled_from(ENDS)),
        least=least,
        most=most,
        stop=draw(st.just(()) | few_marks),
        excluding=draw(st.just(()) | few_marks),
    )


@st.composite
def compositions(draw: st.DrawFn) -> tuple[Part, dict[int, str]]:
    """Draw a part, and the patterns of the sub-states in it by identity."""
    patterns: dict[int, str] = {}

    def structured(pattern: str, begin: str, end: str) -> Structured:
        part = Structured("s", grammar=RegexStateMachine(pattern), begin=begin, end=end)
        patterns[id(part)] = pattern
        return part

    leaves: st.SearchStrategy[Part] = st.one_of(
        texts(),
        st.builds(Marker, st.sampled_from("mn"), marks),
        st.builds(
            structured, st.sampled_from(PATTERNS), st.just("") | marks, st.just("") | marks
        ),
    )

    def loops(body: Part, opener: str | None, span: Any, between: Part | None) -> Loop:
        if opener is not None:
            body = Sequence(Marker("o", opener), body)
        return Loop(body, least=span[0], most=span[1], between=between)

    def around(inner: st.SearchStrategy[Part]) -> st.SearchStrategy[Part]:
        return st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: Sequence(*parts)),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: Choice(*parts)),
            inner.map(Optional),
            st.builds(
                loops,
                inner,
                st.none() | marks,
                bounds,
                st.none() | st.builds(Marker, st.just("between"), marks),
            ),
        )

    part = draw(st.recursive(leaves, around, max_leaves=6))
    # Kept alive, for their identities are the keys.
    return part, patterns


@st.composite
def vocabularies(draw: st.DrawFn) -> Vocabulary:
    """All letters, and tokens across whatever there may be."""
    pieces = draw(st.lists(st.text(LETTERS, min_size=2, max_size=5), max_size=12, unique=True))
    forms = [*(letter.encode() for letter in LETTERS), *(piece.encode() for piece in pieces)]
    forms += ["é".encode()[:1], "é".encode()[1:], b"<\xc3", b"special", b"end", b"stop"]
    last = len(forms)
    names = {SPECIAL_NAME: last - 3, END_NAME: last - 2, "stop": last - 1}
    return Vocabulary(forms, end_token_ids=[last - 2, last - 1], special_tokens=names)
