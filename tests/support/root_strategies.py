"""Random compositions of parts over few letters, and vocabularies that cut them badly."""

from __future__ import annotations

from hypothesis import strategies as st
from root_reference import END_NAME, SPECIAL_NAME

from state_machines import RegexStateMachine, Vocabulary
from state_machines.root import (
    Choice,
    Marker,
    Optional,
    Part,
    Repeat,
    Series,
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
        begin=draw(st.sampled_from(("", "", "", *MARKS[:5]))),
        end=draw(st.sampled_from(("", "", "", *MARKS[:8], *ENDS))),
        min_chars=least,
        max_chars=most,
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

    def leaf() -> Part:
        kind = draw(st.sampled_from(("text", "text", "marker", "structured")))
        if kind == "text":
            return draw(texts())
        if kind == "marker":
            return Marker(draw(st.sampled_from("mn")), draw(marks))
        return structured(
            draw(st.sampled_from(PATTERNS)),
            draw(st.just("") | marks),
            draw(st.just("") | marks),
        )

    def some(depth: int) -> list[Part]:
        return [one(depth - 1) for _ in range(draw(st.integers(2, 3)))]

    def one(depth: int) -> Part:
        if depth <= 0:
            return leaf()
        kind = draw(st.sampled_from(("leaf", "sequence", "choice", "optional", "loop")))
        if kind == "sequence":
            return Series(*some(depth))
        if kind == "choice":
            return Choice(*some(depth))
        if kind == "optional":
            return Optional(one(depth - 1))
        if kind == "loop":
            body = one(depth - 1)
            if draw(st.booleans()):
                body = Series(Marker("o", draw(marks)), body)
            least, most = draw(bounds)
            between = Marker("between", draw(marks)) if draw(st.booleans()) else None
            return Repeat(body, min_count=least, max_count=most, between=between)
        return leaf()

    # The patterns are by identity, so the parts are handed out with them.
    return Series(*some(draw(st.integers(1, 3)))), patterns


@st.composite
def vocabularies(draw: st.DrawFn) -> Vocabulary:
    """All letters, and tokens across whatever there may be."""
    pieces = draw(st.lists(st.text(LETTERS, min_size=2, max_size=5), max_size=12, unique=True))
    forms = [*(letter.encode() for letter in LETTERS), *(piece.encode() for piece in pieces)]
    forms += ["é".encode()[:1], "é".encode()[1:], b"<\xc3", b"special", b"end", b"stop"]
    last = len(forms)
    names = {SPECIAL_NAME: last - 3, END_NAME: last - 2, "stop": last - 1}
    return Vocabulary(forms, end_token_ids=[last - 2, last - 1], special_tokens=names)
