"""The output file: whole lines, locking, and refusal of foreign files."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any

import pytest

from proxy_engine import OutputFileError, OutputFileRefusedError
from proxy_engine.extraction.output_file import open_output

NOWHERE = io.BytesIO()


def opened(path: Path, **options: bool) -> Any:
    return open_output(
        str(path), inputs=[NOWHERE], **{"is_resumed": False, "is_replaced": False, **options}
    )


def test_file_has_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with opened(path) as output:
        output.begin(0)
        output.write("first")
        for option in ("is_replaced", "is_resumed"):
            with (
                pytest.raises(OutputFileRefusedError, match="another process"),
                opened(path, **{option: True}),
            ):
                pass
    with opened(path, is_resumed=True) as output:
        assert list(output.lines()) == [b"first\n"]


def test_output_must_not_be_the_input(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b'"text"\n')
    link = tmp_path / "link"
    link.symlink_to(path)
    with (
        path.open("rb") as source,
        pytest.raises(OutputFileRefusedError, match="is the input"),
        open_output(str(link), inputs=[source], is_resumed=False, is_replaced=True),
    ):
        pass
    assert path.read_bytes() == b'"text"\n'


def test_device_is_written_but_not_resumed() -> None:
    with opened(Path(os.devnull)) as output:
        output.begin(0)
        output.write("gone")
        assert not output.is_regular


@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), OutputFileError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_line_is_written_whole_or_not_at_all(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: BaseException,
    raised: type[BaseException],
) -> None:
    path = tmp_path / "out"
    write = os.write
    with opened(path) as output:
        output.begin(0)
        output.write("whole")

        def half(descriptor: int, content: memoryview) -> int:
            if len(content) < 4:
                raise failure
            return write(descriptor, content[: len(content) // 2])

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", half)
            with pytest.raises(raised):
                output.write("cut off here")
        assert path.read_bytes() == b"whole\n"
        output.write("next")
    assert path.read_bytes() == b"whole\nnext\n"
