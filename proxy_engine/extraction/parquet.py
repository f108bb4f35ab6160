"""Parquet files, which are written from a file of JSON Lines when all rows are there."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from ..errors import OutputFileError
from .answer_format import ERROR, AnswerFormat
from .column_types import ColumnType, common_type, conform, infer_type
from .frames import arrow_type, import_library
from .json_values import encode, in_utf8
from .output_file import written_whole
from .rows import error_text, unwritten

_CHUNK = 2_000

Lines = Callable[[], Iterator[bytes]]


class ParquetWriter:
    """Converts rows of JSON Lines to a Parquet file, in chunks.

    A column has the common type of all its values; a column without one has texts with JSON.

    Args:
        answers: The format of the answers.
        types: Types of pyarrow of the records' fields, where they are known.
    """

    def __init__(self, answers: AnswerFormat, types: Mapping[str, Any]) -> None:
        self._arrow = import_library("pyarrow")
        self._answers = answers
        self._error = answers.prefix + ERROR
        self._given = dict(types)
        self._kinds: dict[str, ColumnType] = {**answers.details.types}
        self._native: dict[str, Any] = {}

    def write(self, lines: Lines, path: str) -> None:
        """Write the file, whole or not at all.

        Args:
            lines: Returns the rows, each time from the first.
            path: The file.

        Raises:
            OutputFileError: It cannot be written.
        """
        parquet = importlib.import_module("pyarrow.parquet")
        try:
            with written_whole(path) as temporary:
                for rows in self._chunks(lines):
                    self._learn(rows)
                schema = self._schema()
                with parquet.ParquetWriter(temporary, schema) as writer:
                    for rows in self._chunks(lines):
                        writer.write_table(self._table(rows, schema))
        except self._arrow.ArrowException as error:
            raise OutputFileError(f"cannot write {path!r}: {error}", path=path) from error

    def _chunks(self, lines: Lines) -> Iterator[list[dict[str, Any]]]:
        rows = map(self._row, lines())
        while chunk := list(islice(rows, _CHUNK)):
            yield chunk

    def _row(self, line: bytes) -> dict[str, Any]:
        """Return the columns of a row as plain values."""
        row: dict[str, Any] = json.loads(line)
        # An escaped lone surrogate, which a column of texts cannot have.
        if b"\\ud" in line:
            row = {name: in_utf8(value) for name, value in row.items()}
        error = row.pop(self._error, None)
        if error is not None:
            return {**row, self._error: f"{error['type']}: {error['message']}"}
        if self._answers.reader is None:
            return row
        columns = {name: row.pop(name) for name in self._answers.columns if name in row}
        text = encode(self._answers.join(columns))
        try:
            value = self._answers.parse(text)
            return {**row, **self._answers.cells(self._answers.plain(value))}
        except ValueError as refused:
            # A validator that has changed since the row was written, in an earlier run.
            return {**row, self._error: error_text(unwritten(refused, text))}

    def _learn(self, rows: list[dict[str, Any]]) -> None:
        """Take the rows into account for the types of columns."""
        for name in dict.fromkeys(name for row in rows for name in row):
            values = [row.get(name) for row in rows]
            if name in self._given:
                if self._cast(values, self._given[name]) is not None:
                    continue
                del self._given[name]
            kind = common_type(self._kinds.get(name, "null"), infer_type(values))
            if not isinstance(kind, str) and arrow_type(self._arrow, kind) is None:
                kind = self._learn_native(name, values, kind)
            self._kinds[name] = kind

    def _learn_native(self, name: str, values: list[Any], kind: ColumnType) -> ColumnType:
        arrow = self._arrow
        try:
            found = arrow.schema([(name, arrow.array(values).type)])
            known = self._native.get(name)
            schemas = [found] if known is None else [arrow.schema([(name, known)]), found]
            unified = arrow.unify_schemas(schemas, promote_options="permissive")
            self._native[name] = unified.field(name).type
        except (arrow.ArrowException, TypeError, ValueError):
            return "json"
        return kind

    def _schema(self) -> Any:
        """Return the schema: fields of the records, columns of the answers, errors."""
        added = self._answers.added_columns
        known = dict.fromkeys((*self._given, *self._kinds))
        names = [*(name for name in known if name not in added), *added]
        return self._arrow.schema([(name, self._type(name)) for name in names])

    def _type(self, name: str) -> Any:
        if name in self._given:
            return self._given[name]
        kind = self._kinds.get(name, "string")
        return arrow_type(self._arrow, kind) or self._native[name]

    def _table(self, rows: list[dict[str, Any]], schema: Any) -> Any:
        arrays = []
        for field in schema:
            values = [row.get(field.name) for row in rows]
            if field.name in self._given:
                arrays.append(self._cast(values, field.type))
            else:
                kind = self._kinds.get(field.name, "string")
                conformed = [conform(value, kind) for value in values]
                arrays.append(self._arrow.array(conformed, type=field.type))
        return self._arrow.Table.from_arrays(arrays, schema=schema)

    def _cast(self, values: list[Any], kind: Any) -> Any:
        """Return JSON values as an array of a type; ``None`` if they cannot be converted."""
        arrow = self._arrow
        with suppress(arrow.ArrowException, TypeError, ValueError):
            return arrow.array(values, type=kind)
        with suppress(arrow.ArrowException, TypeError, ValueError):
            return arrow.array(values).cast(kind)
        return None
