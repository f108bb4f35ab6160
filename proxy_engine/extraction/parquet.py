"""Parquet: rows of JSON Lines, which become columns when all of them are there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import OutputFileError
from .answer_format import AnswerFormat
from .inputs import Item
from .json_values import encode, in_utf8
from .outcomes import Outcome
from .output_file import written_whole
from .rows import JsonLines, Tables, error_text, unwritten
from .tables import Column, answer_types, fitted, import_arrow

_CHUNK = 2_000


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
        # Validators may reject the values that they have returned: the answer is that of the model.
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
