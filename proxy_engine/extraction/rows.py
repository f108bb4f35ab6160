"""Rows of an output file: other fields of the record, then the answer or the error."""

from __future__ import annotations

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..errors import EarlierRunError, OutputValidationError, RecordError
from .answer_format import ERROR, AnswerFormat
from .inputs import Item
from .json_values import encode, in_utf8, join_members, jsonable
from .remote import is_remote

if TYPE_CHECKING:
    from .outcomes import Outcome


FileFormat: TypeAlias = Literal["jsonl", "csv", "parquet"]

SUFFIXES: dict[str, FileFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}


def format_of(path: str) -> FileFormat | None:
    """Return the format that a file's suffix names; ``None`` for other suffixes."""
    return SUFFIXES.get(suffix_of(path))


def suffix_of(path: str) -> str:
    """Return the suffix of a path or URL in lower case; empty without one."""
    return Path(path.partition("?")[0] if is_remote(path) else path).suffix.lower()


Tables: TypeAlias = Callable[[], Iterable[Any] | None]
"""Returns the fields of the records as tables of pyarrow, again with each call."""


class RowFormat(ABC):
    """Encodes rows.

    Args:
        answers: The format of the answers.
        fields: The fields of the records, if they are known.
        tables: Returns the fields of the records as tables, if they are a table.

    Attributes:
        name: The name of the format.
        beside: The suffix of the file with the rows until the last one; empty: the file itself.
    """

    name = ""
    beside = ""

    def __init__(
        self, answers: AnswerFormat, fields: Iterable[str] = (), tables: Tables = lambda: None
    ) -> None:
        self.answers = answers
        self.error = answers.prefix + ERROR
        self._reserved = frozenset(answers.added_columns)

    def admit(self, fields: Mapping[str, Any]) -> None:
        """Check the fields of a record before its request.

        Raises:
            RecordError: The row has no place for a field.
        """
        for name in fields:
            if name in self._reserved:
                raise RecordError(
                    f"the field {name!r} has the name of a column of the output",
                    field=name,
                    hint="Give the result's columns other names with prefix=.",
                )

    def continue_after(self, lines: Iterator[str]) -> None:  # noqa: B027 - JSON Lines need nothing
        """Read what later rows depend on from the lines of an earlier run."""

    def type_by_schema(self) -> None:  # noqa: B027 - texts have no types
        """Give the columns of answers the types of their schema; other values are errors."""

    def missing_header(self) -> str | None:
        """Return the header of a file without rows; ``None`` if none is missing."""
        return None

    def complete(self, rows: str, path: str) -> None:  # noqa: B027 - only for formats beside rows
        """Write the file from the rows beside it, whole or not at all.

        Raises:
            OutputFileError: It cannot be written.
        """

    def encoded(self, outcome: Outcome) -> tuple[str, Outcome]:
        """Return the row and the outcome of a record: an error if its value cannot be written."""
        try:
            return self.row(outcome), outcome
        except ValueError as error:
            refused = unwritten(error, outcome.answer)
            outcome = replace(outcome, result=None, earlier=None, error=refused)
            return self.row(outcome), outcome

    @abstractmethod
    def row(self, outcome: Outcome) -> str:
        """Return the row of a record, without a line break.

        Raises:
            ValueError: The value cannot be written.
        """

    def _fields(self, item: Item) -> dict[str, Any]:
        """Return the fields of a record as JSON values."""
        fields = item.fields.items()
        return {name: jsonable(value) for name, value in fields if name not in self._reserved}


class JsonLines(RowFormat):
    """JSON Lines. A row without other fields is the answer itself, if nothing is added to it."""

    name = "jsonl"

    def row(self, outcome: Outcome) -> str:
        details = self.answers.details.members(outcome.details)
        is_extended = self.answers.prefix or details or self._fields(outcome.item)
        if outcome.error is None and not is_extended:
            return outcome.text
        return self._row(outcome, outcome.text)

    def _row(self, outcome: Outcome, answer: str) -> str:
        fields = {name: encode(value) for name, value in self._fields(outcome.item).items()}
        if outcome.error is not None:
            error = failure(outcome.item.key, outcome.error)
            return join_members({**fields, self.error: encode(error)})
        details = self.answers.details.members(outcome.details)
        added = {name: encode(value) for name, value in details.items()}
        return join_members({**fields, **self.answers.split(answer), **added})


class Csv(RowFormat):
    """CSV (RFC 4180) with line breaks of one character, in UTF-8, with a header.

    A text is written as it is, another value as JSON, and a missing value as an empty cell. The
    columns are fixed when the first row is written.
    """

    name = "csv"

    def __init__(
        self, answers: AnswerFormat, fields: Iterable[str] = (), tables: Tables = lambda: None
    ) -> None:
        super().__init__(answers, fields, tables)
        self._names = dict.fromkeys(fields)
        self._has_header = False

    def admit(self, fields: Mapping[str, Any]) -> None:
        super().admit(fields)
        if not self._has_header:
            # Those of all records that are read before the first row is written.
            self._names.update(dict.fromkeys(fields))
            return
        for name in fields:
            if name not in self._names:
                raise RecordError(
                    f"the field {name!r} is no column of the output",
                    field=name,
                    hint="The columns of a CSV file are those of the first records; "
                    "write JSON Lines.",
                )

    def continue_after(self, lines: Iterator[str]) -> None:
        header = next(csv.reader(lines))
        self._has_header = True
        self._names = dict.fromkeys(header[: -len(self.answers.added_columns)])

    def missing_header(self) -> str | None:
        if self._has_header:
            return None
        self._has_header = True
        return _line([*self._names, *self.answers.added_columns])

    def row(self, outcome: Outcome) -> str:
        if outcome.error is not None:
            cells = {self.error: _cell(error_text(outcome.error))}
        else:
            columns = self.answers.split(outcome.text)
            cells = {name: _cell(json.loads(text), text) for name, text in columns.items()}
            cells |= {name: _cell(value) for name, value in outcome.details.items()}
        header = self.missing_header()
        fields = self._fields(outcome.item)
        row = [_cell(fields.get(name)) for name in self._names]
        row += [cells.get(name, "") for name in self.answers.added_columns]
        return f"{'' if header is None else header + chr(10)}{_line(row)}"


def failure(key: Mapping[str, Any], error: Exception) -> dict[str, Any]:
    """Return an error as a JSON object.

    Args:
        key: Identifies the record.
        error: The error.
    """
    facts = {**key, "type": error_type(error), "message": str(error)}
    if isinstance(error, OutputValidationError):
        facts["text"] = error.text
    return facts


def unwritten(error: ValueError, text: str) -> OutputValidationError:
    """Return the error of a value that cannot be written; ``text`` is the answer of the model."""
    return OutputValidationError(f"the value cannot be written: {error}", text=text)


def error_type(error: Exception) -> str:
    """Return the name of an error's class; of an error of an earlier run that of its class then."""
    return error.type if isinstance(error, EarlierRunError) else type(error).__name__


def error_text(error: Exception) -> str:
    """Return an error as one text: the name of its class and its message."""
    return f"{error_type(error)}: {error}"


def _cell(value: Any, text: str | None = None) -> str:
    """Return a JSON value as a cell; ``text`` is its JSON text, if that is known."""
    if value is None:
        return ""
    if isinstance(value, str):
        escaped: str = in_utf8(value)
        return escaped
    return encode(value) if text is None else text


def _line(cells: Sequence[str]) -> str:
    line = io.StringIO()
    # A cell is quoted if it has a character of the line terminator.
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().removesuffix("\r\n")
