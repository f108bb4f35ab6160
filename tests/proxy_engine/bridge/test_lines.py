"""Reading lines."""

from __future__ import annotations

import io
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.bridge.commands import ProtocolError
from proxy_engine.bridge.process import read_lines

BYTES = st.lists(st.sampled_from([b"\n", b"a", b"bcd", b"\n\n", b"\xff"])).map(b"".join)


@given(BYTES, st.integers(1, 6))
def test_long_lines_are_replaced_by_an_error(data: bytes, limit: int) -> None:
    found = list(read_lines(io.BytesIO(data), limit))
    assert [line if isinstance(line, bytes) else None for line in found] == [
        line if len(line) <= limit else None for line in data.splitlines(keepends=True)
    ]


def test_too_long_line_is_reported_early_and_discarded() -> None:
    class Endless(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            buffer[:] = b"x" * len(buffer)
            return len(buffer)

    assert isinstance(next(read_lines(io.BufferedReader(Endless()), 1000)), ProtocolError)
