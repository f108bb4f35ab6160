"""Standard output, and output files that hold whole lines, each written once."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from .errors import CommandLineError, OutputFileError


@contextmanager
def writing_to_standard_output() -> Iterator[None]:
    """Convert errors of writing, such as a full disk, to ``OutputFileError``.

    ``BrokenPipeError`` passes: the reader closed standard output.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFileError(f"cannot write standard output: {error.strerror}") from error


def discard_standard_output() -> None:
    """Discard the buffer, which the interpreter would otherwise flush, and fail, at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class OutputFile:
    """A file that only this process writes, line by line. Unchanged until ``begin``.

    Args:
        path: Its name, for messages.
        descriptor: Its file descriptor.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._end: int | None = None

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return os.fstat(self._descriptor).st_size if self._is_regular else 0

    def lines(self) -> Iterator[bytes]:
        """Yield its lines with their line breaks; the last one may lack it.

        Raises:
            CommandLineError: It is not a regular file.
        """
        if not self._is_regular:
            raise CommandLineError(f"{self.path!r} is not a regular file and cannot be resumed")
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        with open(self._descriptor, "rb", closefd=False) as lines:
            yield from lines

    def begin(self, size: int) -> None:
        """Truncate the file to ``size`` bytes; later lines follow them."""
        self._end = size
        if self._is_regular:
            os.ftruncate(self._descriptor, size)
            os.lseek(self._descriptor, size, os.SEEK_SET)

    def write(self, line: str) -> None:
        """Append a line, whole or not at all.

        Raises:
            OutputFileError: The line cannot be written.
        """
        assert self._end is not None, "`begin` comes first"
        left = memoryview(line.encode() + b"\n")
        end = self._end + len(left)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except BaseException as error:
            # A full disk or an interrupt may have left the beginning of the line.
            self.begin(self._end)
            if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
                raise OutputFileError(f"cannot write {self.path!r}: {error.strerror}") from error
            raise
        self._end = end


@contextmanager
def open_output(
    path: str, *, inputs: Sequence[IO[bytes] | str], is_resumed: bool, is_replaced: bool
) -> Iterator[OutputFile]:
    """Open an output file.

    Args:
        path: Its name.
        inputs: The inputs, files or paths, which must be other files.
        is_resumed: Whether the file may have lines that are kept.
        is_replaced: Whether the file may have contents that are dropped.

    Raises:
        CommandLineError: The file has contents, cannot be written, is an input, or is locked by
            another process that writes it.
    """
    try:
        descriptor = os.open(path, (os.O_RDWR if is_resumed else os.O_WRONLY) | os.O_CREAT, 0o666)
    except OSError as error:
        raise CommandLineError(f"cannot write {path!r}: {error.strerror}") from error
    try:
        output = OutputFile(path, descriptor)
        if any(_is_same_file(source, descriptor) for source in inputs):
            raise CommandLineError(f"{path!r} is the input")
        # Before the size is read: another process may be writing.
        _lock(path, descriptor)
        if output.size and not is_resumed and not is_replaced:
            raise CommandLineError(
                f"{path!r} already exists",
                hint="--resume continues it after an interrupt, --overwrite replaces it.",
            )
        yield output
    finally:
        os.close(descriptor)


def _lock(path: str, descriptor: int) -> None:
    # Some network file systems have no locks; without them nothing is checked.
    with suppress(OSError):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CommandLineError(f"another process is writing {path!r}") from error


def _is_same_file(source: IO[bytes] | str, descriptor: int) -> bool:
    try:
        of_source = os.stat(source if isinstance(source, str) else source.fileno())
    except OSError:
        # An in-memory stream, or a missing file.
        return False
    of_output = os.fstat(descriptor)
    return stat.S_ISREG(of_source.st_mode) and os.path.samestat(of_source, of_output)
