"""Rows of an output file: other fields of the record, then the answer or the error.

Each format is a class. Parquet has rows of JSON Lines, which become columns when all are there.
"""

from __future__ import annotations

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..errors import EarlierRunError, OutputFileError, OutputValidationError, RecordError
from .answer_format import ERROR, AnswerFormat
from .column_types import Column, answer_types, fitted, import_arrow
from .inputs import Item
from .json_values import encode, in_utf8, join_members, jsonable
from .output_file import written_whole
from .paths import is_remote

if TYPE_CHECKING:
    from .outcomes import Outcome


FileFormat: TypeAlias = Literal["jsonl", "csv", "parquet"]


def suffix_of(path: str) -> str:
    """Return the suffix of a path or URL in lower case; empty without one."""
    return Path(path.partition("?")[0] if is_remote(path) else path).suffix.lower()


Tables: TypeAlias = Callable[[], Iterable[Any] | None]
"""Returns the fields of the records as tables of pyarrow, again with each call."""


_CHUNK = 2_000


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

    name: FileFormat
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
                    hint="Give the result's columns another prefix.",
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

    name: FileFormat = "jsonl"

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
            # Columns are the fields of all records that are read before the first row is written.
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


class Parquet(JsonLines):
    """Parquet. Until the last row, the rows are in a file of JSON Lines beside it.

    A column has the common type of all its values; a column without one has texts with JSON.
    Columns of an input that is a table are copied from it.

    Args:
        answers: The format of the answers.
        fields: The fields of the records, if they are known.
        tables: Returns the fields of the records as tables.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """

    name = "parquet"
    beside = ".partial.jsonl"

    def __init__(
        self, answers: AnswerFormat, fields: Iterable[str] = (), tables: Tables = lambda: None
    ) -> None:
        super().__init__(answers, fields, tables)
        self._arrow = import_arrow()
        self._tables = tables
        self._types: dict[str, Any] | None = None

    def type_by_schema(self) -> None:
        self._types = answer_types(self.answers)

    def _cells(self, value: Any) -> dict[str, Any]:
        cells = self.answers.cells(self.answers.plain(value))
        return cells if self._types is None else fitted(cells, self._types)

    def _fields(self, item: Item) -> dict[str, Any]:
        return {} if self._tables() is not None else super()._fields(item)

    def row(self, outcome: Outcome) -> str:
        if outcome.error is None:
            # Raises as the conversion to columns would, when all records are done.
            self._cells(outcome.value())
        # Validators may reject values that they have returned, so the model's answer is written.
        return self._row(outcome, outcome.answer)

    def complete(self, rows: str, path: str) -> None:
        parquet = import_arrow("pyarrow.parquet")
        known = {**self.answers.details.types, **(self._types or {})}
        # JSON is a text.
        columns = {name: Column("string" if kind is None else kind) for name, kind in known.items()}
        for _, chunk in self._chunks(rows):
            for name in dict.fromkeys(name for row in chunk for name in row):
                columns.setdefault(name, Column()).learn(row.get(name) for row in chunk)
        added = self.answers.added_columns
        names = [*(name for name in columns if name not in added), *added]
        columns = {name: columns.get(name) or Column("string") for name in names}
        types = [(name, column.type) for name, column in columns.items()]
        schema = self._arrow.schema([*self._given(), *types])
        try:
            with (
                written_whole(path) as temporary,
                parquet.ParquetWriter(temporary, schema) as writer,
            ):
                for table, chunk in self._chunks(rows):
                    arrays = [] if table is None else table.columns
                    arrays += [
                        column.array(row.get(name) for row in chunk)
                        for name, column in columns.items()
                    ]
                    writer.write_table(self._arrow.Table.from_arrays(arrays, schema=schema))
        except self._arrow.ArrowException as error:
            raise OutputFileError(f"cannot write {path!r}: {error}", path=path) from error

    def _given(self) -> list[Any]:
        """Return the columns of the input."""
        tables = self._tables()
        return [] if tables is None else list(next(iter(tables)).schema)

    def _chunks(self, path: str) -> Iterator[tuple[Any, Sequence[dict[str, Any]]]]:
        """Yield the rows with their fields as a table, if there is one."""
        tables = self._tables()
        with Path(path).open("rb") as lines:
            rows = map(self._columns, lines)
            if tables is None:
                while chunk := list(islice(rows, _CHUNK)):
                    yield None, chunk
            else:
                for table in tables:
                    yield table, list(islice(rows, table.num_rows))

    def _columns(self, line: bytes) -> dict[str, Any]:
        """Return the columns of a row as plain values."""
        row: dict[str, Any] = json.loads(line)
        # An escaped lone surrogate, which a column of texts cannot have.
        if b"\\ud" in line:
            row = {name: in_utf8(value) for name, value in row.items()}
        error = row.pop(self.error, None)
        if error is not None:
            return {**row, self.error: f"{error['type']}: {error['message']}"}
        if self.answers.reader is None and self._types is None:
            return row
        columns = {name: row.pop(name) for name in self.answers.columns if name in row}
        text = encode(self.answers.join(columns))
        try:
            value = self.answers.parse(text)
            return {**row, **self._cells(value)}
        except ValueError as refused:
            # A validator that has changed since the row was written, in an earlier run.
            return {**row, self.error: error_text(unwritten(refused, text))}


FORMATS: dict[str, type[RowFormat]] = {
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".csv": Csv,
    ".parquet": Parquet,
}
"""The formats of files by suffix."""


def format_of(path: str) -> FileFormat | None:
    """Return the format that a file's suffix names; ``None`` for other suffixes."""
    found = FORMATS.get(suffix_of(path))
    return None if found is None else found.name


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
    """Return the name of an error's class; an error of an earlier run has stored it."""
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
