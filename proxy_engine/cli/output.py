"""Standard output, and errors of output files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import OutputFileError, OutputFileRefusedError
from ..extraction.output_file import EXISTING_HINT
from .errors import CommandLineError


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


@contextmanager
def refused_output() -> Iterator[None]:
    """Convert ``OutputFileRefusedError`` to ``CommandLineError``."""
    try:
        yield
    except OutputFileRefusedError as error:
        hint = error.hint
        if hint == EXISTING_HINT:
            hint = "--resume continues it after an interrupt, --overwrite replaces it."
        raise CommandLineError(error.what, hint=hint) from error
