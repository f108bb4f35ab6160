"""Rows of CSV and Parquet files as records."""

from __future__ import annotations

import csv
import importlib
import io
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from ..checks.texts import has_surrogate, short_repr
from ..extraction.frames import import_library
from ..extraction.inputs import Content
from .errors import CommandLineError
from .records import IMAGE, TEXT, other_fields, read_value

_DELIMITERS = (",", ";", "\t", "|")
_BATCH_ROWS = 256


class TableRow(NamedTuple):
    """A row of a table.

    Attributes:
        number: Its number, from 1; the header does not count.
        cells: Its cells by column; ``None`` for an empty cell.
        problem: Why it cannot be read; empty if it can.
        text: The column with the text.
        directory: The directory that paths of images are relative to.
    """

    number: int
    cells: Mapping[str, Any]
    problem: str
    text: str
    directory: Path

    @property
    def record(self) -> Mapping[str, Any]:
        """The cells."""
        return self.cells

    @property
    def label(self) -> str:
        """Names the row in messages."""
        return f"row {self.number}"

    @property
    def key(self) -> dict[str, Any]:
        """Identifies the row in the error of its output row."""
        return {"row": self.number}

    def fields(self) -> Mapping[str, Any]:
        """Return the cells besides text and images."""
        return other_fields(self.cells, self.text)

    def read(self) -> Content:
        """Return the record in the row.

        Raises:
            ValueError: The row is malformed, or an image cannot be read.
        """
        if self.problem:
            raise ValueError(self.problem)
        if self.cells.get(self.text) is None and self.cells.get(IMAGE) is None:
            raise ValueError("the text is empty")
        found = self.cells.get(self.text)
        if not isinstance(found, str | None):
            raise ValueError(f"the text should be a string, not {short_repr(found)}")
        return read_value(dict(self.cells), self.text, self.directory)


class TableInputs:
    """Iterates over the rows of a table.

    Args:
        columns: The columns.
        rows: The rows: cells, and why they cannot be read.
        count: The number of rows, if it is known.
        text: The column with the text.
        directory: The directory that paths of images are relative to.

    Raises:
        CommandLineError: There is no column with texts or images, or there are two of a name.
    """

    unit = "row"

    def __init__(
        self,
        columns: list[str],
        rows: Iterator[tuple[dict[str, Any], str]],
        count: int | None,
        text: str,
        directory: Path,
    ) -> None:
        shown = ", ".join(map(repr, columns)) or "none"
        # A table with images may have no texts, unless `--text` names a column.
        if text not in columns and (IMAGE not in columns or text != TEXT):
            raise CommandLineError(
                f"the table has no column {text!r}; its columns: {shown}",
                hint="Name the column of the texts with --text.",
            )
        if len(set(columns)) < len(columns):
            raise CommandLineError(f"the table has several columns of one name: {shown}")
        self.columns = tuple(other_fields(dict.fromkeys(columns), text))
        self.types: Mapping[str, Any] = {}
        self._rows = (
            TableRow(number, cells, problem, text, directory)
            for number, (cells, problem) in enumerate(rows, start=1)
        )
        self._count = count
        self._next: TableRow | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> TableRow:
        row = self.peek()
        if row is None:
            raise StopIteration
        self._next = None
        return row

    def peek(self) -> TableRow | None:
        """Return the next row, without taking it; ``None`` at the end."""
        if self._next is None:
            self._next = next(self._rows, None)
        return self._next

    def is_ready(self, seconds: float) -> bool:
        """Return ``True``: a table is read without delay."""
        return True

    def count(self) -> int | None:
        """Return the number of rows; ``None`` if they cannot be read twice."""
        return self._count


def read_csv(source: IO[bytes], directory: Path, text: str, *, is_counted: bool) -> TableInputs:
    """Return the rows of a CSV file in UTF-8, with or without a byte order mark.

    The delimiter is a comma, a semicolon, a tab or a vertical bar: the one at which the header has
    a column of texts or images.

    Args:
        source: The file.
        directory: The directory that paths of images are relative to.
        text: The column with the text.
        is_counted: Whether to count the rows of a regular file.

    Raises:
        CommandLineError: The header has no such column.
    """
    # A setting of the process, which belongs to the command. The default refuses long texts.
    csv.field_size_limit(sys.maxsize)
    count = _count_rows(source) if is_counted else None
    # Bytes that are no UTF-8 become surrogates, so that only their rows fail.
    lines = io.TextIOWrapper(source, "utf-8-sig", errors="surrogateescape", newline="")
    header = lines.readline()
    delimiter = next((one for one in _DELIMITERS if _has_content(_cells(header, one), text)), ",")
    columns = _cells(header, delimiter)
    rows = _csv_rows(csv.reader(lines, delimiter=delimiter), columns)
    return TableInputs(columns, rows, count, text, directory)


def read_parquet(path: str, text: str) -> TableInputs:
    """Return the rows of a Parquet file.

    Raises:
        CommandLineError: The file cannot be read, or has no column with texts or images.
        MissingExtraError: pyarrow is not installed.
    """
    arrow = import_library("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    try:
        file = parquet.ParquetFile(path)
    except (OSError, arrow.ArrowException) as error:
        raise CommandLineError(f"cannot read {path!r}: {error}") from error
    names = list(file.schema_arrow.names)
    batches = file.iter_batches(batch_size=_BATCH_ROWS)
    rows = ((row, "") for batch in batches for row in batch.to_pylist())
    table = TableInputs(names, rows, file.metadata.num_rows, text, Path(path).parent)
    table.types = {
        field.name: field.type for field in file.schema_arrow if field.name in table.columns
    }
    return table


def _csv_rows(rows: Any, columns: list[str]) -> Iterator[tuple[dict[str, Any], str]]:
    for cells in rows:
        # A blank line.
        if not cells:
            continue
        problem = ""
        if len(cells) != len(columns):
            problem = f"the row has {len(cells)} cells, and the header {len(columns)}"
        elif any(map(has_surrogate, cells)):
            problem = "the row is not UTF-8"
        # Shorter rows lack the last cells.
        given = [cell or None for cell in cells[: len(columns)]]
        given += [None] * (len(columns) - len(given))
        yield dict(zip(columns, given, strict=True)), problem


def _cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter), [])


def _has_content(columns: list[str], text: str) -> bool:
    return text in columns or IMAGE in columns


def _count_rows(source: IO[bytes]) -> int | None:
    try:
        if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
            return None
    except OSError:
        return None
    begin = source.tell()
    with open(
        source.fileno(), encoding="utf-8", errors="replace", newline="", closefd=False
    ) as text:
        # Quotes are the same in all delimiters; one line is the header.
        count = sum(1 for row in csv.reader(text) if row) - 1
    source.seek(begin)
    return max(count, 0)
