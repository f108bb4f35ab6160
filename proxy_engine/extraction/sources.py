"""Inputs of Python objects, of JSON Lines, CSV and Parquet, and of files with one record each.

:func:`opened_inputs` chooses the reader by suffix.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import json
import os
import select
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import replace
from functools import cache, partial
from itertools import chain, repeat
from pathlib import Path
from typing import IO, Any, Literal, NoReturn, TypeAlias

from state_machines.errors import has_surrogate

from ..conversation.content import ImageContent
from ..errors import InvalidOptionError, RecordError
from ..media.image_formats import READABLE, image_format, other_format
from .column_types import import_arrow
from .inputs import Inputs, Item, RecordContent
from .paths import (
    as_path,
    expanded,
    is_directory,
    is_remote,
    is_stream,
    located,
    opened_file,
    unreadable,
)
from .records import CHECKED_RECORDS, RecordReader
from .rows import FileFormat, format_of, suffix_of
from .tables import Frame, rows_of

FILE = "file"
"""The field of paths."""
_CHUNK = 1 << 16
_DELIMITERS = (",", ";", "\t", "|")
_BATCH_ROWS = 256
# A row behind the last one. Inside of a cell, it shows that the cell is not closed.
_END = "\0end"


def record_inputs(records: Iterable[Any], frame: Frame | None, reader: RecordReader) -> Inputs:
    """Return Python objects as inputs.

    Args:
        records: The objects; an iterator is read as items are taken.
        frame: The same records as a frame, if they are rows of one.
        reader: Reads their content.
    """
    if frame is not None:
        columns, tables = frame.columns, cache(frame.tables)
        items = _items(_valid(frame), reader, "record")
        return Inputs(items, "record", count=frame.count(), columns=columns, tables=tables)
    count = len(records) if isinstance(records, Sized) else None
    return Inputs(_items(_valid(records), reader, "record"), "record", count=count)


def _items(records: Iterable[tuple[Any, str]], reader: RecordReader, unit: str) -> Iterator[Item]:
    """Yield records as items; each is given with the reason why it cannot be read, if any."""
    for index, (record, problem) in enumerate(records):
        # Python counts from 0, the rows of a file are counted from 1.
        number = index + (unit == "row")
        key = {"row": number} if unit == "row" else {}
        read = partial(_refuse, problem) if problem else partial(reader.read, record)
        fields = reader.repeated(record)
        yield Item(index, record, f"{unit} {number}", key, fields, read, reader.fields(record))


def _valid(records: Iterable[Any]) -> Iterator[tuple[Any, str]]:
    return zip(records, repeat(""))


def _refuse(problem: str) -> NoReturn:
    raise RecordError(problem)


def _conversion(content: bytes) -> str:
    """Return the hint for a text that is not UTF-8; empty for bytes that are no text."""
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if b"\0" in content and not is_utf16:
        return ""
    encoding = "UTF-16" if is_utf16 else "LATIN1"
    return f"Convert the file, for instance with iconv -f {encoding} -t UTF-8."


class _Lines:
    """The lines of an input of any size, read as they arrive.

    Args:
        source: The input, at the beginning of a line. Nothing else may read it.
    """

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._descriptor = _descriptor(source)
        self._lines: deque[bytes] = deque()
        self._partial: list[bytes] = []
        self._at_end = False

    def __iter__(self) -> Iterator[bytes]:
        while self._lines or not self._at_end:
            if self._lines:
                yield self._lines.popleft()
            else:
                self._read()

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for a line that is not blank, or the end."""
        while not any(map(bytes.strip, self._lines)) and not self._at_end:
            if self._descriptor is not None:
                readable, _, _ = select.select([self._descriptor], [], [], seconds)
                if not readable:
                    return False
            self._read()
        return True

    def _read(self) -> None:
        # `read1` leaves nothing in the source's buffer, which `select` does not see.
        chunk: bytes = self._source.read1(_CHUNK)  # type: ignore[attr-defined]
        first, *more = chunk.split(b"\n")
        self._partial.append(first)
        for part in more:
            self._lines.append(b"".join(self._partial))
            self._partial = [part]
        if not chunk:
            self._at_end = True
            self._lines.append(b"".join(self._partial))


def line_inputs(source: IO[bytes], reader: RecordReader, *, is_counted: bool = False) -> Inputs:
    """Return the lines of JSON Lines that are not blank, read as they arrive.

    Args:
        source: The input, at the beginning of a line. Nothing else may read it.
        reader: Reads the content of records.
        is_counted: Whether to count the lines of a file.
    """
    lines = _Lines(source)
    is_file = _is_file(source)
    count = None
    if is_file and is_counted:
        begin = source.tell()
        with open(source.fileno(), "rb", closefd=False) as content:
            count = sum(1 for line in content if line.strip())
        source.seek(begin)
    items = _line_items(lines, reader)
    return Inputs(items, "line", count=count, wait=lines.wait, is_stored=is_file)


def _line_items(lines: Iterable[bytes], reader: RecordReader) -> Iterator[Item]:
    given = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
    for index, (number, line) in enumerate(given):
        label, key = f"line {number}", {"line": number}
        try:
            record = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except RecursionError:
            yield Item(index, None, label, key, {}, partial(_refuse, "it is nested too deeply"))
        except UnicodeDecodeError:
            problem = f"the line is not UTF-8. {_conversion(line)}".rstrip()
            yield Item(index, None, label, key, {}, partial(_refuse, problem))
        except json.JSONDecodeError as error:
            # Python's message names a line, which is not that of the file.
            reason = f"{error.msg[:1].lower()}{error.msg[1:]}"
            problem = f"the line is not JSON: {reason} at column {error.colno}"
            yield Item(index, None, label, key, {}, partial(_refuse, problem))
        except ValueError:
            # Python's limit on conversions.
            problem = "the line has an integer of more than 4,300 digits"
            yield Item(index, None, label, key, {}, partial(_refuse, problem))
        else:
            read = partial(reader.read, record)
            yield Item(index, record, label, key, reader.repeated(record), read, record)


def csv_inputs(source: IO[bytes], reader: RecordReader, *, is_counted: bool = False) -> Inputs:
    """Return the rows of a CSV file in UTF-8, with or without a byte order mark.

    The delimiter is a comma, a semicolon, a tab or a vertical bar: the one at which the header has
    a column of texts or images.

    Args:
        source: The file, at its beginning.
        reader: Reads the content of records.
        is_counted: Whether to count the rows of a file.

    Raises:
        InvalidOptionError: There is no column with texts or images, or there are two of a name.
    """
    # Cells of any size: rows have long texts.
    csv.field_size_limit(sys.maxsize)
    count = _count_rows(source) if is_counted and _is_file(source) else None
    # Bytes that are no UTF-8 become surrogates, so that only their rows fail.
    lines = io.TextIOWrapper(source, "utf-8-sig", errors="surrogateescape", newline="")
    header = lines.readline()
    if has_surrogate(header):
        raise InvalidOptionError(
            "the header of the table is not UTF-8",
            option="records",
            hint=_conversion(header.encode("utf-8", "surrogateescape")),
        )
    headers = {
        delimiter: next(csv.reader([header], delimiter=delimiter), []) for delimiter in _DELIMITERS
    }
    content = {reader.text, reader.image}
    delimiter = next((known for known in headers if content & {*headers[known]}), ",")
    names = headers[delimiter]
    items = _items(
        _csv_rows(csv.reader(chain(lines, [_END]), delimiter=delimiter), names), reader, "row"
    )
    return Inputs(items, "row", count=count, columns=_columns(names, reader))


def _csv_rows(
    rows: Iterator[list[str]], columns: list[str]
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the rows, each with the reason why it cannot be read, if any."""
    # Blank lines are no rows.
    for cells in filter(None, rows):
        if cells == [_END]:
            return
        problem = ""
        if _END in cells[-1]:
            cells[-1], _, _ = cells[-1].partition(_END)
            problem = (
                "its last cell is not closed by a quotation mark, and has the rest of the file"
            )
        elif len(cells) != len(columns):
            problem = f"the row has {len(cells)} cells, and the header {len(columns)}"
        elif any(map(has_surrogate, cells)):
            row = "".join(cells).encode("utf-8", "surrogateescape")
            problem = f"the row is not UTF-8. {_conversion(row)}".rstrip()
        # Shorter rows lack the last cells.
        given = [cell or None for cell in cells[: len(columns)]]
        given += [None] * (len(columns) - len(given))
        yield dict(zip(columns, given, strict=True)), problem


def _count_rows(source: IO[bytes]) -> int:
    begin = source.tell()
    descriptor = source.fileno()
    with open(descriptor, encoding="utf-8", errors="replace", newline="", closefd=False) as text:
        # Quotes are the same in all delimiters; one line is the header.
        count = sum(1 for row in csv.reader(text) if row) - 1
    source.seek(begin)
    return max(count, 0)


def parquet_inputs(source: IO[bytes], reader: RecordReader, *, is_counted: bool = False) -> Inputs:
    """Return the rows of a Parquet file, whose number is known.

    Raises:
        InvalidOptionError: The file cannot be read, or has no column with texts or images.
        MissingExtraError: pyarrow is not installed.
    """
    arrow, parquet = import_arrow(), import_arrow("pyarrow.parquet")
    try:
        # The footer is at the end.
        file = parquet.ParquetFile(source if _is_file(source) else io.BytesIO(source.read()))
    except (OSError, arrow.ArrowException) as error:
        raise unreadable(getattr(source, "name", "-"), error) from error
    columns = _columns(list(file.schema_arrow.names), reader)

    def tables() -> Iterator[Any]:
        # The first table has no rows, and so the columns that all tables have.
        yield file.schema_arrow.empty_table().select(columns)
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=columns):
            yield arrow.Table.from_batches([batch]).select(columns)

    rows = (row for batch in file.iter_batches(batch_size=_BATCH_ROWS) for row in rows_of(batch))
    count = file.metadata.num_rows
    return Inputs(
        _items(_valid(rows), reader, "row"), "row", count=count, columns=columns, tables=tables
    )


InputFormat: TypeAlias = Literal["text"] | FileFormat
_READERS: dict[str, Callable[..., Inputs]] = {
    "jsonl": line_inputs,
    "csv": csv_inputs,
    "parquet": parquet_inputs,
}


def input_format(paths: Sequence[str], given: InputFormat | None = None) -> InputFormat:
    """Return the format of inputs: ``given``, or else the format of the only file's suffix."""
    if given is not None or len(paths) != 1 or is_directory(paths[0]):
        return given or "text"
    return format_of(paths[0]) or ("csv" if suffix_of(paths[0]) == ".tsv" else "text")


@contextlib.contextmanager
def opened_inputs(
    paths: Sequence[str],
    reader: RecordReader,
    *,
    given: InputFormat | None = None,
    are_named: bool = False,
    is_counted: bool = False,
) -> Iterator[Inputs]:
    """Open files as inputs: the rows of a table, or texts and images with one record each.

    Args:
        paths: Paths, URLs, and ``-`` for standard input. Directories stand for their files.
        reader: Reads the content of the rows.
        given: The format; ``None``: by the suffix of the only file, else texts and images.
        are_named: Whether the names of texts and images are fields of output rows. Those in a
            directory are.
        is_counted: Whether to count the rows of a file.

    Raises:
        InvalidOptionError: A file cannot be read, or its columns are refused.
    """
    paths = list(map(as_path, paths))
    kind = input_format(paths, given)
    if kind == "text":
        are_named = are_named or any(map(is_directory, paths))
        yield file_inputs([file for path in paths for file in expanded(path)], are_named=are_named)
        return
    if len(paths) > 1 or is_directory(paths[0]):
        what = f"the format {kind} is that of a single file, not of {len(paths)} files"
        hint = "Join them, or run the command for each."
        raise InvalidOptionError(what, option="format", hint=hint)
    directory = paths[0].rpartition("/")[0] if is_remote(paths[0]) else Path(paths[0]).parent
    with opened_file(paths[0]) as source:
        inputs = _READERS[kind](source, replace(reader, directory=directory), is_counted=is_counted)
        if inputs.columns is None and inputs.is_stored:
            reader.check_records(item.record for item in inputs.first(CHECKED_RECORDS))
        yield inputs


def _columns(names: Sequence[str], reader: RecordReader) -> tuple[str, ...]:
    """Check the columns of a table; return the columns that output rows repeat."""
    reader.check_columns(names)
    if len(set(names)) < len(names):
        raise InvalidOptionError(
            f"the table has several columns of one name: {', '.join(map(repr, names))}",
            option="records",
            hint="Rename them.",
        )
    return tuple(reader.repeated(dict.fromkeys(names)))


def file_inputs(
    names: Sequence[str], *, directory: Path | str = Path(), are_named: bool = False
) -> Inputs:
    """Return files, each a text or an image. A file is read when its record is.

    Args:
        names: The files.
        directory: The directory that they are relative to, or its URL.
        are_named: Whether names are fields of output rows.
    """
    columns = (FILE,) if are_named else ()
    items = (
        Item(
            index,
            {FILE: name} if are_named else name,
            repr(name),
            {FILE: name},
            dict.fromkeys(columns, name),
            partial(_read_file, name if is_stream(name) else located(directory, name)),
        )
        for index, name in enumerate(names)
    )
    return Inputs(items, "file", count=len(names), columns=columns)


def _read_file(path: Path | str) -> RecordContent:
    try:
        if isinstance(path, Path):
            return content_of(path.read_bytes())
        with opened_file(path) as source:
            return content_of(source.read())
    except InvalidOptionError as error:
        raise RecordError(error.what) from error
    except OSError as error:
        raise RecordError(f"cannot be read: {error.strerror}") from error


def content_of(content: bytes) -> RecordContent:
    """Return the record in the content of a file: an image, recognised by its content, or text.

    Raises:
        RecordError: The content is neither an image nor UTF-8, or is empty.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    # Some formats begin with letters, and so can a text. Only the formats have null bytes.
    is_text = bool(text) and "\0" not in text
    if not is_text and image_format(content) is not None:
        return RecordContent(images=(ImageContent(data=content),))
    if content and not text:
        other = other_format(content)
        if other is not None:
            raise RecordError(f"{other} is not supported; an input is UTF-8, {READABLE}")
        raise RecordError("neither an image nor UTF-8", hint=_conversion(content))
    if not text.strip():
        raise RecordError("the text is empty")
    return RecordContent(text)


def _descriptor(source: IO[bytes]) -> int | None:
    try:
        return source.fileno()
    except OSError:
        # An in-memory stream.
        return None


def _is_file(source: IO[bytes]) -> bool:
    descriptor = _descriptor(source)
    return descriptor is not None and stat.S_ISREG(os.fstat(descriptor).st_mode)
