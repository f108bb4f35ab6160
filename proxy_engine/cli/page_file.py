"""``--html``: the page of texts and highlighted quotes, written as records finish."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ..errors import OutputFileError
from ..extraction.answer_format import AnswerFormat
from ..extraction.inputs import Item
from ..extraction.outcomes import Outcome
from ..extraction.page import HEAD, PageRecord, section
from ..extraction.results import error_text
from ..extraction.rows import Answer, Read
from ..extraction.run import earlier_quotes
from ..options.overrides import OptionOverrides
from .errors import CommandLineError

if TYPE_CHECKING:
    from ..results.parts import Quotation


class PageFile:
    """The page of a run.

    Args:
        file: The file.
        answers: The format of the answers.
        options: The options of the requests.
    """

    def __init__(self, file: IO[str], answers: AnswerFormat, options: OptionOverrides) -> None:
        self._file = file
        self._answers = answers
        self._options = options
        self._count = 0
        self._file.write(HEAD)

    def add(self, outcome: Outcome) -> None:
        """Write a record of this run."""
        if outcome.result is None:
            assert outcome.error is not None, "a record has an answer or an error"
            self._write(outcome.item, error=error_text(outcome.error))
        else:
            answer = self._answers.json_text(outcome.result)
            self._write(outcome.item, answer, outcome.result.quotes)

    def add_earlier(self, item: Item, read: Read) -> None:
        """Write a record of an earlier run."""
        if isinstance(read, Answer):
            quotes = earlier_quotes(item, read, self._answers, self._options)
            self._write(item, self._answers.written(read.value), quotes)
        else:
            self._write(item, error=f"{read.type}: {read.message}")

    def _write(
        self,
        item: Item,
        answer: str | None = None,
        quotes: tuple[Quotation, ...] = (),
        error: str = "",
    ) -> None:
        try:
            text = item.read().text
        except ValueError:
            text = ""
        record = PageRecord(item.label, text, answer, quotes, error)
        self._file.write(section(self._count, record))
        self._count += 1


@contextlib.contextmanager
def opened_page(
    path: str | None, answers: AnswerFormat, options: OptionOverrides, *, is_replaced: bool
) -> Iterator[PageFile | None]:
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
    try:
        with file:
            yield PageFile(file, answers, options)
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise OutputFileError(f"cannot write {path!r}: {error.strerror}", path=path) from error
        raise
