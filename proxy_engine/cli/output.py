"""Standard output and its errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import OutputFileError


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
        raise OutputFileError(
            f"cannot write standard output: {error.strerror}", path="-"
        ) from error


def discard_standard_output() -> None:
    """Discard the buffer, which the interpreter would otherwise flush, and fail, at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
