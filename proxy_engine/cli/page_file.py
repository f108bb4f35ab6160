"""``--html``: the page of texts and highlighted quotes, written as records finish."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from ..errors import OutputFileError
from ..extraction.outcomes import Extraction, Outcome
from ..extraction.page import head, record_of, section
from .errors import CommandLineError

Page = Callable[[Outcome], None]
"""Writes the part of the page for an outcome."""


@contextlib.contextmanager
def opened_page(
    path: str | None, extraction: Extraction, *, is_replaced: bool
) -> Iterator[Page | None]:
    """Open the page; ``None`` without a path. A run that does not finish leaves no page.

    Raises:
        CommandLineError: There is a file of the name, or it cannot be written.
        OutputFileError: The page cannot be completed.
    """
    if path is None:
        yield None
        return
    if not is_replaced and Path(path).exists():
        raise CommandLineError(f"{path!r} already exists", hint="--overwrite replaces it.")
    temporary = f"{path}.partial"
    try:
        file = open(temporary, "w", encoding="utf-8")  # noqa: SIM115 - closed below
    except (OSError, ValueError) as error:
        raise CommandLineError(f"cannot write {path!r}: {error}") from error
    numbers = count()

    def add(outcome: Outcome) -> None:
        file.write(section(next(numbers), record_of(outcome, extraction.quotes(outcome))))

    try:
        with file:
            file.write(head())
            yield add
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise OutputFileError(f"cannot write {path!r}: {error.strerror}", path=path) from error
        raise
