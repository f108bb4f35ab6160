"""Division of a window at its timestamps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.transcription.segments import split_window

FIRST = 1000


def time(seconds: float) -> int:
    return FIRST + round(seconds * 50)


@pytest.mark.parametrize(
    ("tokens", "spans", "frames", "is_complete"),
    [
        # An unfinished segment is left to the next window.
        ([time(0), 1, time(2), time(2), 2], [(0, 200)], 200, False),
        ([time(0), 1, time(2), time(2), 2, time(4)], [(0, 200), (200, 400)], 3000, True),
        ([time(0), 1, time(2)], [(0, 200)], 3000, True),
        ([time(0), 1, 2], [(0, 3000)], 3000, False),
        ([1, 2], [(0, 3000)], 3000, False),
        ([], [(0, 3000)], 3000, False),
    ],
)
def test_segments_end_at_pairs_of_timestamps(
    tokens: list[int], spans: list[tuple[int, int]], frames: int, is_complete: bool
) -> None:
    found = split_window(tokens, FIRST, 3000)
    assert [(span.start, span.end) for span in found.spans] == spans
    assert (found.frames, found.is_complete) == (frames, is_complete)


@given(st.lists(st.integers(FIRST - 3, FIRST + 1500), max_size=20), st.integers(1, 3000))
def test_every_window_advances_by_at_most_its_length(tokens: list[int], frames: int) -> None:
    found = split_window(tokens, FIRST, frames)
    assert 1 <= found.frames <= frames
    cut = [token for span in found.spans for token in span.tokens]
    assert cut == tokens[: len(cut)]
