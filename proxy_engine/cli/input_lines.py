"""The lines of an input of any size, read as they arrive."""

from __future__ import annotations

import os
import select
import stat
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from ..extraction.inputs import Content
from .errors import CommandLineError
from .records import IMAGE, TEXT, other_fields, parse_line, read_value

_CHUNK = 1 << 16


class InputLine(NamedTuple):
    """A line of JSON Lines.

    Attributes:
        number: Its number in the input, from 1.
        content: The line.
        directory: The directory that its paths are relative to.
        text: The field with the text.
    """

    number: int
    content: bytes
    directory: Path = Path()
    text: str = "text"

    @property
    def record(self) -> bytes:
        """The line."""
        return self.content

    @property
    def label(self) -> str:
        """Names the line in messages."""
        return f"line {self.number}"

    @property
    def key(self) -> dict[str, Any]:
        """Identifies the line in the output line of its failure."""
        return {"line": self.number}

    def fields(self) -> Mapping[str, Any]:
        """Return the fields besides text and images."""
        try:
            return other_fields(parse_line(self.content), self.text)
        except ValueError:
            return {}

    def read(self) -> Content:
        """Return the record in the line.

        Raises:
            ValueError: The line is malformed, or an image cannot be read.
        """
        return read_value(parse_line(self.content), self.text, self.directory)


class InputLines:
    """Iterates over the lines of an input that are not blank.

    Args:
        source: The input, at the beginning of a line. Nothing else may read it.
        directory: The directory that the lines' paths of images are relative to.
        text: The field with the text.
    """

    unit = "line"

    def __init__(self, source: IO[bytes], directory: Path = Path(), text: str = "text") -> None:
        self._source = source
        self._directory = directory
        self._text = text
        self._descriptor = _descriptor(source)
        self._number = 0
        self._lines: deque[InputLine] = deque()
        self._partial: list[bytes] = []
        self._at_end = False

    @property
    def is_file(self) -> bool:
        """Whether the input is a file, whose lines are there already."""
        return self._descriptor is not None and stat.S_ISREG(os.fstat(self._descriptor).st_mode)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> InputLine:
        if self.peek() is None:
            raise StopIteration
        return self._lines.popleft()

    def peek(self) -> InputLine | None:
        """Wait for the next line and return it, without taking it; ``None`` at the end."""
        while not self._lines and not self._at_end:
            self._read()
        return self._lines[0] if self._lines else None

    def is_ready(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the next line or the end; return whether it arrived."""
        while not self._lines and not self._at_end:
            if self._descriptor is not None:
                readable, _, _ = select.select([self._descriptor], [], [], seconds)
                if not readable:
                    return False
            self._read()
        return True

    def check_text(self) -> None:
        """Refuse a file in whose first lines no record has a text. Later lines fail alone.

        Raises:
            CommandLineError: No line at the beginning of the file has the field.
        """
        if not self.is_file or self.peek() is None:
            return
        if not self._at_end:
            # A small file is read completely, its last line included.
            self._read()
        values = [_parsed(line) for line in self._lines]
        records = [value for value in values if isinstance(value, Mapping)]
        # An image needs no text, unless `--text` names a field.
        fields = {self._text, IMAGE} if self._text == TEXT else {self._text}
        if not records or len(records) < len(values) or any(fields & one.keys() for one in records):
            return
        shown = ", ".join(map(repr, dict.fromkeys(name for one in records for name in one)))
        raise CommandLineError(
            f"the records have no field {self._text!r}; their fields: {shown or 'none'}",
            hint="Name the field of the texts with --text.",
        )

    def count(self) -> int | None:
        """Return the number of lines; ``None`` if they cannot be read twice.

        Must be called before anything is read.
        """
        if self._descriptor is None or not self.is_file:
            return None
        begin = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        try:
            with open(self._descriptor, "rb", closefd=False) as lines:
                return sum(1 for line in lines if line.strip())
        finally:
            os.lseek(self._descriptor, begin, os.SEEK_SET)

    def _read(self) -> None:
        # `read1` leaves nothing in the source's buffer, which `select` does not see.
        chunk: bytes = self._source.read1(_CHUNK)  # type: ignore[attr-defined]
        first, *more = chunk.split(b"\n")
        self._partial.append(first)
        for part in more:
            self._add(b"".join(self._partial))
            self._partial = [part]
        if not chunk:
            self._at_end = True
            self._add(b"".join(self._partial))

    def _add(self, line: bytes) -> None:
        self._number += 1
        if line.strip():
            self._lines.append(InputLine(self._number, line, self._directory, self._text))


def _parsed(line: InputLine) -> Any:
    try:
        return parse_line(line.content)
    except ValueError:
        return None


def _descriptor(source: IO[bytes]) -> int | None:
    try:
        return source.fileno()
    except OSError:
        # An in-memory stream.
        return None
