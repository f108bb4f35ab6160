"""Input files, one record each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from .records import Record, read_content


class InputFile(NamedTuple):
    """A file and its path as the command line has it."""

    path: str

    @property
    def label(self) -> str:
        """Names the file in messages."""
        return repr(self.path)

    @property
    def key(self) -> dict[str, Any]:
        """Identifies the file in the output line of its failure."""
        return {"file": self.path}

    def read(self) -> Record:
        """Return the record in the file.

        Raises:
            ValueError: The file cannot be read, or is neither an image nor a text.
        """
        try:
            return read_content(Path(self.path).read_bytes())
        except OSError as error:
            raise ValueError(f"cannot be read: {error.strerror}") from error


class InputFiles:
    """Iterates over files, each a text or an image. A file is read when its record is.

    Args:
        paths: The files.
    """

    unit = "file"

    def __init__(self, paths: Sequence[str]) -> None:
        self._files = [InputFile(path) for path in reversed(paths)]

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> InputFile:
        if not self._files:
            raise StopIteration
        return self._files.pop()

    def peek(self) -> InputFile | None:
        """Return the next file, without taking it; ``None`` at the end."""
        return self._files[-1] if self._files else None

    def is_ready(self, seconds: float) -> bool:
        """Return whether the next file or the end is there, which is always so."""
        return True

    def count(self) -> int:
        """Return the number of files that are left."""
        return len(self._files)
