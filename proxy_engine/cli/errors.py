"""The command line's own error, and errors of standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import EngineError, InvalidOptionError, OutputFileError, OutputFileRefusedError
from ..extraction.output_file import EXISTING_HINT

_HINTS = {
    "text": "Name the field of the texts with --text.",
    "prefix": "Give a prefix for the names of the result's columns with --prefix.",
}
"""Hints by the name of an option of the engine."""


class CommandLineError(EngineError):
    """The command line is wrong, or names a missing input; exit status 2."""


@contextmanager
def refused() -> Iterator[None]:
    """Convert errors of options and output files to ``CommandLineError``, with flags as hints."""
    try:
        yield
    except InvalidOptionError as error:
        hint = error.hint.replace("QuoteFrom('input')", '"x-substring-of": "input"')
        raise CommandLineError(error.what, hint=_HINTS.get(error.option, hint)) from error
    except OutputFileRefusedError as error:
        hint = error.hint
        if hint == EXISTING_HINT:
            hint = "--resume continues it after an interrupt, --overwrite replaces it."
        raise CommandLineError(error.what, hint=hint) from error


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
