"""Sets of symbols, against Python's sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from state_machines.grammar.symbols import (
    ANY_CODE_POINT,
    MAX_CODE_POINT,
    CodePointSet,
    is_whole_alphabet,
)

SURROGATES = range(0xD800, 0xE000)
# Around every boundary: the ends, the surrogates, the lengths of UTF-8 forms.
BORDERS = [0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xD800, 0xDFFF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF]
points = st.one_of(
    st.integers(0, 40),
    st.sampled_from(BORDERS),
    st.builds(
        lambda border, step: min(max(border + step, 0), MAX_CODE_POINT),
        st.sampled_from(BORDERS),
        st.integers(-3, 3),
    ),
)


@st.composite
def ranges(draw: st.DrawFn) -> list[tuple[int, int]]:
    found = []
    for first in draw(st.lists(points, max_size=6)):
        found.append((first, min(first + draw(st.integers(0, 6)), MAX_CODE_POINT)))
    return found


def members(pairs: list[tuple[int, int]]) -> set[int]:
    return {p for first, last in pairs for p in range(first, last + 1) if p not in SURROGATES}


@given(ranges(), ranges())
def test_intersection_and_union_match_python_sets(
    left: list[tuple[int, int]], right: list[tuple[int, int]]
) -> None:
    a, b = CodePointSet(left), CodePointSet(right)
    assert set(a & b) == members(left) & members(right)
    assert set(a | b) == members(left) | members(right)
    assert set(a & ~b) == members(left) - members(right)
    assert (a == b) == (members(left) == members(right))
    assert a & b == b & a
    assert a | b == b | a
    assert a & a is a
    assert a | a is a
    assert a & ANY_CODE_POINT == a
    assert not a & ~a


@given(ranges())
def test_complement_matches_python_sets(pairs: list[tuple[int, int]]) -> None:
    ours = CodePointSet(pairs)
    assert ~~ours == ours
    assert ours | ~ours == ANY_CODE_POINT
    assert len(ours) + len(~ours) == MAX_CODE_POINT + 1 - len(SURROGATES)
    assert all(surrogate not in ~ours for surrogate in (0xD800, 0xDABC, 0xDFFF))
    assert is_whole_alphabet(ours | ~ours)
    assert is_whole_alphabet(ours) == (not ~ours)
