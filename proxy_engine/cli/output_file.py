"""A file of results, which holds whole lines whatever happens, each written once."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from .errors import CommandLineError, OutputFileError

__all__ = ["OutputFile", "open_output"]


class OutputFile:
    """A file that this process alone writes, line by line.

    ``path`` is its name, for messages. Nothing in it is changed before ``begin``.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._end: int | None = None

    @property
    def is_begun(self) -> bool:
        """Whether it may have been changed."""
        return self._end is not None

    @property
    def size(self) -> int:
        """Bytes that are in it."""
        return os.fstat(self._descriptor).st_size if self._is_regular else 0

    def lines(self) -> Iterator[bytes]:
        """The lines that are in it, with their ends; the last one may lack it.

        Raises ``CommandLineError`` where it is no file that can be read again.
        """
        if not self._is_regular:
            raise CommandLineError(f"{self.path!r} is no regular file, and cannot be gone on with")
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        with open(self._descriptor, "rb", closefd=False) as lines:
            yield from lines

    def begin(self, size: int) -> None:
        """Keep the first ``size`` bytes, and write after them from now on."""
        self._end = size
        if self._is_regular:
            os.ftruncate(self._descriptor, size)
            os.lseek(self._descriptor, size, os.SEEK_SET)

    def write(self, line: str) -> None:
        """Write a line, all of it or nothing. Raises ``OutputFileError``."""
        assert self._end is not None, "`begin` comes first"
        left = memoryview(line.encode() + b"\n")
        end = self._end + len(left)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except BaseException as error:
            # A full disk, or an interrupt, may leave the beginning of the line there.
            self.begin(self._end)
            if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
                raise OutputFileError(f"cannot write {self.path!r}: {error.strerror}") from error
            raise
        self._end = end


@contextmanager
def open_output(
    path: str, *, source: IO[bytes], is_resumed: bool, is_replaced: bool
) -> Iterator[OutputFile]:
    """Open a file that is new, or empty, or else to be gone on with or replaced.

    Raises ``CommandLineError`` where it is none of these, cannot be written, is ``source`` itself,
    or is being written by another process that opened it so.
    """
    try:
        descriptor = os.open(path, (os.O_RDWR if is_resumed else os.O_WRONLY) | os.O_CREAT, 0o666)
    except OSError as error:
        raise CommandLineError(f"cannot write {path!r}: {error.strerror}") from error
    try:
        output = OutputFile(path, descriptor)
        if _is_same_file(source, descriptor):
            raise CommandLineError(f"{path!r} is the input")
        # First of all: what is in a file that another process writes says nothing.
        _lock(path, descriptor)
        if output.size and not is_resumed and not is_replaced:
            raise CommandLineError(
                f"{path!r} is there already",
                hint="--resume goes on with it after an interrupt, --overwrite replaces it.",
            )
        yield output
    finally:
        os.close(descriptor)


def _lock(path: str, descriptor: int) -> None:
    # Some network file systems have no locks; there the caller has to know.
    with suppress(OSError):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CommandLineError(f"another process is writing {path!r}") from error


def _is_same_file(source: IO[bytes], descriptor: int) -> bool:
    try:
        of_source, of_output = os.fstat(source.fileno()), os.fstat(descriptor)
    except OSError:
        return False
    return stat.S_ISREG(of_source.st_mode) and os.path.samestat(of_source, of_output)
