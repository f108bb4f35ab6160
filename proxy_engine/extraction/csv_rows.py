"""Rows of CSV files: RFC 4180 with line breaks of one character, in UTF-8, with a header.

A text is written as it is, another value as JSON, and a missing value as an empty cell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import jsonschema

from ..errors import RecordError
from ..validation import JsonValidator
from .answer_format import AnswerFormat
from .details import DetailType
from .inputs import Item
from .json_members import encode
from .results import error_text
from .rows import Answer, Failure, Read, RowFormat, Written

_CELL = re.compile(r'(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|\Z)')
_MISSING = object()
_MAX_READINGS = 256


class Csv(RowFormat):
    """CSV. The columns are fixed when the first row is written.

    Args:
        answers: The format of the answers.
        fields: The fields of the records, if they are known.
    """

    def __init__(self, answers: AnswerFormat, fields: Iterable[str] = ()) -> None:
        super().__init__(answers)
        self._names = dict.fromkeys(fields)
        self._header: list[str] | None = None

    def admit(self, fields: Mapping[str, Any]) -> None:
        super().admit(fields)
        if self._header is None:
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

    def split(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        row = b""
        for line in lines:
            row += line
            # Quotes come in pairs, so a line break inside of quotes follows an odd number.
            if row.count(b'"') % 2 == 0:
                yield row
                row = b""
        if row:
            yield row.removesuffix(b"\n")

    def read_header(self, rows: Iterator[bytes], first: Item | None) -> int | None:
        row = next(rows, b"")
        if not row.endswith(b"\n"):
            expected = {} if first is None else self._fields(first)
            head = line_of([*expected, *self.answers.added_columns]).encode()
            return 0 if head.startswith(row) else None
        names = _cells(row)
        added = self.answers.added_columns
        if tuple(names[-len(added) :]) != added:
            return None
        self._header = names
        self._names = dict.fromkeys(names[: -len(added)])
        return len(row)

    def missing_header(self) -> str | None:
        return None if self._header is not None else self._begin()

    def _begin(self) -> str:
        self._header = [*self._names, *self.answers.added_columns]
        return line_of(self._header)

    def encode(self, item: Item, answer: Written | Exception) -> str:
        if isinstance(answer, Exception):
            cells = {self.error: error_text(answer)}
        else:
            columns = self.answers.split(answer.text)
            cells = {name: cell_of(json.loads(text), text) for name, text in columns.items()}
            cells |= {name: cell_of(value) for name, value in answer.details.items()}
        header = "" if self._header is not None else self._begin() + "\n"
        return header + line_of([*self._field_cells(item), *self._ordered(cells)])

    def read(self, row: bytes, item: Item) -> Read | None:
        assert self._header is not None, "`read_header` comes first"
        cells = _cells(row)
        own = self._field_cells(item)
        if len(cells) != len(self._header) or cells[: len(own)] != own:
            return None
        added = dict(zip(self._header[len(own) :], cells[len(own) :], strict=True))
        error = added.pop(self.error)
        if error:
            kind, _, message = error.partition(": ")
            return Failure(kind, message)
        types = self.answers.details.types
        about = {name: _detail(added.pop(name), kind) for name, kind in types.items()}
        return self._answer(added, about)

    def is_beginning(self, row: bytes, item: Item) -> bool:
        head = line_of(self._field_cells(item)).encode()
        return head.startswith(row) or row.startswith(head)

    def _field_cells(self, item: Item) -> list[str]:
        fields = self._fields(item)
        return [cell_of(fields.get(name)) for name in self._names]

    def _ordered(self, cells: Mapping[str, str]) -> list[str]:
        return [cells.get(name, "") for name in self.answers.added_columns]

    def _answer(self, cells: Mapping[str, str], details: Mapping[str, Any]) -> Answer | None:
        """Return the answer in cells. A cell can have several readings: 5 is a number or a text."""
        readings = [self._readings(name, cell) for name, cell in cells.items()]
        for number, values in enumerate(product(*readings)):
            if number == _MAX_READINGS:
                break
            columns = dict(zip(cells, values, strict=True))
            given = {name: value for name, value in columns.items() if value is not _MISSING}
            found = self._restored(given, details)
            if isinstance(found, Answer):
                return found
        return None

    def _readings(self, column: str, cell: str) -> list[Any]:
        """Return the values that a cell can stand for, those that the schema admits first."""
        readings: list[Any] = [None, _MISSING, ""] if not cell else [cell]
        if cell:
            try:
                value = json.loads(cell)
            except (ValueError, RecursionError):
                pass
            else:
                # A text is not written as JSON.
                readings = [cell] if isinstance(value, str) or value is None else [value, cell]
                if isinstance(value, dict | list):
                    # Objects of one type in a Parquet file have nulls for absent members.
                    readings.insert(1, _without_nulls(value))
        schema = self._schema_of(column)
        return sorted(readings, key=lambda value: not self._is_admitted(column, schema, value))

    def _is_admitted(self, column: str, schema: Any, value: Any) -> bool:
        if value is _MISSING:
            root = self.answers.schema
            required = root.get("required", ()) if isinstance(root, Mapping) else ()
            return column.removeprefix(self.answers.prefix) not in required
        try:
            JsonValidator(True if schema is None else schema).validate(value)
        except (ValueError, RecursionError, jsonschema.ValidationError):
            return False
        return True

    def _schema_of(self, column: str) -> Any:
        schema = self.answers.schema
        if not isinstance(schema, Mapping) or not self.answers.properties:
            return schema
        properties = schema.get("properties", {})
        found = properties.get(column.removeprefix(self.answers.prefix), True)
        shared = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
        return {**shared, **found} if isinstance(found, Mapping) else True


def _detail(cell: str, kind: DetailType) -> Any:
    if not cell:
        return None
    return cell if kind == "string" else json.loads(cell)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_nulls(member) for name, member in value.items() if member is not None
        }
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def cell_of(value: Any, text: str | None = None) -> str:
    """Return a JSON value as a cell; ``text`` is its JSON text, if that is known."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return encode(value) if text is None else text


def line_of(cells: Sequence[str]) -> str:
    """Return a row, without a line break at its end."""
    quoted = (
        '"' + cell.replace('"', '""') + '"' if re.search(r'[",\r\n]', cell) else cell
        for cell in cells
    )
    line = ",".join(quoted)
    # An empty line would be skipped by many readers.
    return line or '""'


def _cells(row: bytes) -> list[str]:
    text = row.decode("utf-8", "replace")
    cells: list[str] = []
    position = 0
    while True:
        found = _CELL.match(text, position)
        if found is None:
            return []
        quoted, bare, end = found.groups()
        cells.append(bare if quoted is None else quoted.replace('""', '"'))
        position = found.end()
        if end != ",":
            return cells if position == len(text) else []
