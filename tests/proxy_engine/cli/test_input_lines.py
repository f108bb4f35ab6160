"""Input lines from files, pipes and memory."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.cli import input_lines
from proxy_engine.cli.input_lines import InputLine, InputLines


def expected(content: bytes) -> list[InputLine]:
    lines = enumerate(content.split(b"\n"), start=1)
    return [InputLine(number, line) for number, line in lines if line.strip()]


@given(st.lists(st.sampled_from([b"", b" ", b"a", b"bcd", b"\r", b"e\rf\x0c"])), st.integers(1, 9))
def test_lines_have_numbers_and_blank_ones_are_skipped(parts: list[bytes], chunk: int) -> None:
    content = b"\n".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(input_lines, "_CHUNK", chunk)
        lines = InputLines(io.BytesIO(content))
        found = []
        while (line := lines.peek()) is not None:
            assert lines.is_ready(0)
            assert next(lines) == line
            found.append(line)
    assert found == expected(content)
    assert next(lines, None) is None
    assert lines.count() is None


@pytest.mark.parametrize("content", [b"", b"\n\n", b"a\n\nb", b"a\n \nb\n"])
@pytest.mark.parametrize("begin", [0, 2])
def test_count_leaves_the_position_in_the_file(tmp_path: Path, content: bytes, begin: int) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"x\n"[:begin] + content)
    with path.open("rb", buffering=0) as raw:
        raw.seek(begin)
        lines = InputLines(io.BufferedReader(raw))
        assert lines.count() == len(expected(content))
        assert list(lines) == expected(content)


def test_pipe_is_ready_when_a_whole_line_has_arrived() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as source, open(writing, "wb", buffering=0) as sink:
        lines = InputLines(source)
        assert lines.count() is None
        assert not lines.is_ready(0)
        sink.write(b"\n\nfir")
        assert not lines.is_ready(0.01)
        sink.write(b"st\nsecond\nthi")
        assert lines.is_ready(0)
        assert next(lines) == InputLine(3, b"first")
        assert lines.is_ready(0)
        assert next(lines) == InputLine(4, b"second")
        assert not lines.is_ready(0)
        sink.write(b"rd")
        sink.close()
        assert lines.is_ready(0)
        assert list(lines) == [InputLine(5, b"third")]
        assert lines.is_ready(0)
        assert lines.peek() is None
