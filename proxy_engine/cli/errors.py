"""The command line's own error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import EngineError, InvalidOptionError, OutputFileRefusedError
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
