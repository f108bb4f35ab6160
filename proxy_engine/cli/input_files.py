"""Input files, one record each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from ..extraction.inputs import Content
from .errors import CommandLineError
from .input_arguments import is_directory
from .records import read_content

FILE = "file"
"""The field of paths."""


class InputFile(NamedTuple):
    """A file and its path as the command line has it.

    Attributes:
        path: The path.
        is_named: Whether the path is a field of the output row.
    """

    path: str
    is_named: bool = False

    @property
    def record(self) -> str:
        """The path."""
        return self.path

    @property
    def label(self) -> str:
        """Names the file in messages."""
        return repr(self.path)

    @property
    def key(self) -> dict[str, Any]:
        """Identifies the file in the output line of its failure."""
        return {"file": self.path}

    def fields(self) -> dict[str, Any]:
        """Return the path, if it is a field."""
        return {FILE: self.path} if self.is_named else {}

    def read(self) -> Content:
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
        are_named: Whether paths are fields of output rows.
    """

    unit = "file"

    def __init__(self, paths: Sequence[str], *, are_named: bool = False) -> None:
        self.are_named = are_named
        self._files = [InputFile(path, are_named) for path in reversed(paths)]

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


def expanded(paths: Sequence[str]) -> list[str]:
    """Return the paths with directories replaced by their files, in the order of names.

    Subdirectories are read as well; hidden files are left out.

    Raises:
        CommandLineError: A directory cannot be read, or has no files.
    """
    files: list[str] = []
    for path in paths:
        if is_directory(path):
            try:
                found = sorted(str(file) for file in _files_in(Path(path)))
            except OSError as error:
                raise CommandLineError(f"cannot read {path!r}: {error.strerror}") from error
            if not found:
                raise CommandLineError(f"the directory {path!r} has no files")
            files += found
        else:
            files.append(path)
    return files


def _files_in(directory: Path) -> Iterator[Path]:
    for path in directory.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _files_in(path)
        else:
            yield path
