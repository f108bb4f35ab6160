"""Writing to standard output, and what happens where that takes no more."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import OutputFileError

__all__ = ["discard_standard_output", "writing_to_standard_output"]


@contextmanager
def writing_to_standard_output() -> Iterator[None]:
    """Within, an error of writing becomes an ``OutputFileError``: a full disk, for example.

    A ``BrokenPipeError`` passes: the reader went away.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFileError(f"cannot write standard output: {error.strerror}") from error


def discard_standard_output() -> None:
    """Discard the text that is still in the buffer.

    The interpreter flushes standard output once more at exit, and would fail once more.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
