"""Output files that hold whole rows, each written once."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ..errors import OutputFileError, OutputFileRefusedError


class OutputFile:
    """A file that only this process writes, row by row. Unchanged until ``begin``.

    Args:
        path: Its name, for messages.
        descriptor: Its file descriptor.

    Attributes:
        path: Its name.
        is_regular: Whether it is a file, and no device or pipe.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self.is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._end: int | None = None

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return os.fstat(self._descriptor).st_size if self.is_regular else 0

    def lines(self, begin: int = 0) -> Iterator[bytes]:
        """Yield the lines of a regular file with their line breaks; the last one may lack it.

        Args:
            begin: The position of the first line in bytes.
        """
        os.lseek(self._descriptor, begin, os.SEEK_SET)
        with open(self._descriptor, "rb", closefd=False) as lines:
            yield from lines

    def has_line_end(self, position: int) -> bool:
        """Whether a line ends at a position, or the file begins there."""
        return not position or os.pread(self._descriptor, 1, position - 1) == b"\n"

    def begin(self, size: int) -> None:
        """Truncate the file to ``size`` bytes; later rows follow them."""
        self._end = size
        if self.is_regular:
            os.ftruncate(self._descriptor, size)
            os.lseek(self._descriptor, size, os.SEEK_SET)

    def write(self, row: str) -> int:
        """Append a row and a line break, whole or not at all, and return the size of the file.

        Raises:
            OutputFileError: The row cannot be written.
        """
        assert self._end is not None, "`begin` comes first"
        left = memoryview(row.encode() + b"\n")
        end = self._end + len(left)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except BaseException as error:
            # A full disk or an interrupt may have left the beginning of the row.
            self.begin(self._end)
            if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
                raise OutputFileError(
                    f"cannot write {self.path!r}: {error.strerror}", path=self.path
                ) from error
            raise
        self._end = end
        return end


@contextmanager
def open_output(
    path: str,
    *,
    inputs: Sequence[IO[bytes] | str],
    is_resumed: bool = False,
    is_replaced: bool = False,
) -> Iterator[OutputFile]:
    """Open an output file.

    Args:
        path: Its name.
        inputs: The inputs, files or paths, which must be other files.
        is_resumed: Whether the file may have rows that are kept.
        is_replaced: Whether the file may have contents that are dropped.

    Raises:
        OutputFileRefusedError: The file has contents, cannot be written, is an input, or is locked
            by another process that writes it.
    """
    try:
        descriptor = os.open(path, (os.O_RDWR if is_resumed else os.O_WRONLY) | os.O_CREAT, 0o666)
    except (OSError, ValueError) as error:
        # A name with a null byte is a ValueError.
        reason = error.strerror if isinstance(error, OSError) else error
        raise OutputFileRefusedError(f"cannot write {path!r}: {reason}", path=path) from error
    try:
        output = OutputFile(path, descriptor)
        if any(_is_same_file(source, descriptor) for source in inputs):
            raise OutputFileRefusedError(f"{path!r} is the input", path=path)
        # Before the size is read: another process may be writing.
        _lock(path, descriptor)
        if output.size and not is_resumed and not is_replaced:
            raise existing(path)
        yield output
    finally:
        os.close(descriptor)


@contextmanager
def written_whole(path: str) -> Iterator[str]:
    """Yield the name of a file to write, which then replaces ``path``, whole or not at all.

    Raises:
        OutputFileError: It cannot be written.
    """
    temporary = f"{path}.partial"
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            reason = error.strerror or error
            raise OutputFileError(f"cannot write {path!r}: {reason}", path=path) from error
        raise


def existing(path: str) -> OutputFileRefusedError:
    """Return the error of a file that has contents and should be neither resumed nor replaced."""
    return OutputFileRefusedError(
        f"{path!r} already exists",
        path=path,
        hint="resume=True continues it after an interrupt, overwrite=True replaces it.",
    )


def has_contents(path: str) -> bool:
    """Whether there is a file that is not empty."""
    try:
        return Path(path).stat().st_size > 0
    except (OSError, ValueError):
        return False


def _lock(path: str, descriptor: int) -> None:
    # Some network file systems have no locks; without them nothing is checked.
    with suppress(OSError):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OutputFileRefusedError(
                f"another process is writing {path!r}", path=path
            ) from error


def _is_same_file(source: IO[bytes] | str, descriptor: int) -> bool:
    try:
        of_source = os.stat(source if isinstance(source, str) else source.fileno())
    except (OSError, ValueError):
        # An in-memory stream, or a missing file.
        return False
    of_output = os.fstat(descriptor)
    return stat.S_ISREG(of_source.st_mode) and os.path.samestat(of_source, of_output)
