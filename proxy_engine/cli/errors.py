"""The command line's own error, and errors of standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import EngineError, OutputFileError

WRONG_COMMAND_LINE = 2
"""The exit status of a wrong command line, or a missing input, before any work."""


class CommandLineError(EngineError):
    """The command line is wrong, or names a missing input; exit status 2."""


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
