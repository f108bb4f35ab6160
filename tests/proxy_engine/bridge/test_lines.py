"""Reading and writing lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.bridge.errors import LineTooLongError
from proxy_engine.bridge.lines import read_lines

BYTES = st.lists(st.sampled_from([b"\n", b"a", b"bcd", b"\n\n", b"\xff"])).map(b"".join)


def lines_of(data: bytes, limit: int, sizes: list[int]) -> list[bytes | None]:
    def read(most: int) -> bytes:
        nonlocal data
        size = min(most, sizes.pop() if sizes else 1)
        chunk, data = data[:size], data[size:]
        return chunk

    found = list(read_lines(read, limit))
    for line in found:
        assert isinstance(line, bytes) or line.limit == limit
    return [line if isinstance(line, bytes) else None for line in found]


@given(BYTES, st.integers(1, 6), st.lists(st.integers(1, 9)))
def test_lines_do_not_depend_on_chunk_boundaries(data: bytes, limit: int, sizes: list[int]) -> None:
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert lines_of(data, limit, sizes) == [
        line if len(line) <= limit else None for line in expected
    ]


def test_too_long_line_is_reported_early_and_discarded() -> None:
    def endless(most: int) -> bytes:
        return b"x" * most

    lines = read_lines(endless, 1000)
    assert isinstance(next(lines), LineTooLongError)
