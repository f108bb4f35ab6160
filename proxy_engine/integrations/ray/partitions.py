"""Input files as partitions: ranges of rows, each with its own output file.

Partitions depend on the files alone, not on the cluster, so a second run has the same ones. Those
of a Parquet file are ranges of rows. Those of JSON Lines are ranges of bytes, since lines can only
be counted by reading the files; a line belongs to the range that it begins in.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from ...errors import InvalidOptionError
from ...extraction.frames import import_library
from ...extraction.inputs import Content
from ...extraction.records import RecordReader

FileFormat: TypeAlias = Literal["jsonl", "parquet"]

_SUFFIXES: dict[str, FileFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
_SAMPLE_BYTES = 1 << 20
_BATCH_ROWS = 256
_THREADS = 32
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


class InputFile(NamedTuple):
    """A file of the input.

    Attributes:
        path: Its path in the file system.
        name: Its path relative to the input.
        size: Its size in bytes.
        modified: The time of its last change in nanoseconds; 0 if unknown.
    """

    path: str
    name: str
    size: int
    modified: int

    @property
    def format(self) -> FileFormat:
        """Its format, by its suffix."""
        return _SUFFIXES[Path(self.name).suffix.lower()]


@dataclass(frozen=True, slots=True)
class Partition:
    """A range of a file.

    Attributes:
        number: Its position among all partitions, in the order of the input.
        path: The file.
        file: The file's name relative to the input.
        format: The format of the file, and of the output.
        begin: The first row of the range; of JSON Lines the first byte.
        end: The row or byte after the range.
    """

    number: int
    path: str
    file: str
    format: FileFormat
    begin: int
    end: int

    @property
    def name(self) -> str:
        """The name of the output file. Names sort in the order of the input."""
        return f"part-{self.number:08d}.{self.format}"


class Location(NamedTuple):
    """A file or directory in a file system.

    Attributes:
        filesystem: The file system, a ``pyarrow.fs.FileSystem``.
        path: The path in it, without a slash at the end.
    """

    filesystem: Any
    path: str

    @classmethod
    def of(cls, name: str, option: str) -> Location:
        """Return the location of a path, or of a URI such as ``s3://bucket/directory``.

        Raises:
            InvalidOptionError: The URI is not that of a file system.
            MissingExtraError: pyarrow is not installed.
        """
        arrow = import_library("pyarrow")
        fs = importlib.import_module("pyarrow.fs")
        if not _URI.match(name):
            return cls(fs.LocalFileSystem(), str(Path(name).expanduser().absolute()))
        try:
            filesystem, path = fs.FileSystem.from_uri(name)
        except (OSError, arrow.ArrowException) as error:
            raise InvalidOptionError(f"cannot use {name!r}: {error}", option=option) from error
        return cls(filesystem, path.rstrip("/"))


def list_files(source: Location, shown: str) -> list[InputFile]:
    """Return the files of a directory and its subdirectories, or a single file, by name.

    Files and directories whose names begin with ``.`` or ``_`` are left out.

    Raises:
        InvalidOptionError: There are no files, they cannot be listed, or one has another format.
    """
    fs = importlib.import_module("pyarrow.fs")
    try:
        info = source.filesystem.get_file_info(source.path)
        if info.type == fs.FileType.File:
            found = [info]
        else:
            found = source.filesystem.get_file_info(fs.FileSelector(source.path, recursive=True))
    except OSError as error:
        raise InvalidOptionError(f"cannot read {shown!r}: {error}", option="input") from error
    files = []
    for one in found:
        name = Path(one.path).name if one is info else one.path[len(source.path) :].lstrip("/")
        if one.type == fs.FileType.File and not any(p[:1] in "._" for p in name.split("/")):
            files.append(InputFile(one.path, name, one.size or 0, one.mtime_ns or 0))
    for file in files:
        if Path(file.name).suffix.lower() not in _SUFFIXES:
            raise InvalidOptionError(
                f"{shown!r} has a file {file.name!r}, whose suffix names no format of rows",
                option="input",
                hint=f"The files should be {', '.join(_SUFFIXES)}.",
            )
    if not files:
        raise InvalidOptionError(f"{shown!r} has no files", option="input")
    return sorted(files, key=lambda file: file.name)


def plan_partitions(
    source: Location,
    files: Sequence[InputFile],
    rows: int,
    check: Callable[[InputFile, Sequence[str]], None],
) -> list[Partition]:
    """Return the partitions of files.

    Args:
        source: The input.
        files: Its files.
        rows: The number of rows of a partition. The size of a row of JSON Lines is estimated from
            the first lines of the first file.
        check: Called with each Parquet file and the names of its columns.

    Raises:
        InvalidOptionError: A file cannot be read.
    """
    first = next((file for file in files if file.format == "jsonl"), None)
    line_bytes = 1 if first is None else _mean_line(source, first)
    sizes: Iterable[int]
    # The footers of Parquet files are read, each by a request if the files are in an object store.
    with ThreadPoolExecutor(_THREADS) as threads:
        sizes = list(threads.map(lambda file: _size(source, file, check), files))
    partitions: list[Partition] = []
    for file, size in zip(files, sizes, strict=True):
        step = rows if file.format == "parquet" else rows * line_bytes
        for begin in range(0, size, step):
            number, end = len(partitions), min(begin + step, size)
            partitions.append(Partition(number, file.path, file.name, file.format, begin, end))
    return partitions


def digest_of(files: list[InputFile]) -> str:
    """Return a digest of the names, sizes and times of files."""
    facts = [(file.name, file.size, file.modified) for file in files]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def read_tables(filesystem: Any, partition: Partition) -> Iterator[Any]:
    """Yield the rows of a partition of a Parquet file as tables."""
    arrow = import_library("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    with (
        reading(partition.file),
        parquet.ParquetFile(partition.path, filesystem=filesystem) as file,
    ):
        groups: list[int] = []
        first = offset = 0
        for group in range(file.metadata.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if first + rows > partition.begin and first < partition.end:
                offset = offset if groups else first
                groups.append(group)
            first += rows
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, row_groups=groups):
            begin = max(partition.begin - offset, 0)
            end = min(partition.end - offset, batch.num_rows)
            offset += batch.num_rows
            if begin < end:
                yield arrow.Table.from_batches([batch.slice(begin, end - begin)])
            if offset >= partition.end:
                return


def empty_table(filesystem: Any, partition: Partition) -> Any:
    """Return a table without rows, with the columns of a Parquet file."""
    parquet = importlib.import_module("pyarrow.parquet")
    with reading(partition.file):
        return parquet.read_schema(partition.path, filesystem=filesystem).empty_table()


class JsonLine(NamedTuple):
    """A line of JSON Lines as an item of an input.

    Attributes:
        file: The name of its file.
        offset: The position of its first byte in the file.
        content: The line.
        reader: Reads its content.
    """

    file: str
    offset: int
    content: bytes
    reader: RecordReader

    @property
    def record(self) -> Any:
        """The value of the line."""
        return json.loads(self.content)

    @property
    def label(self) -> str:
        """Names the line in messages."""
        return f"the line at byte {self.offset} of {self.file!r}"

    @property
    def key(self) -> Mapping[str, Any]:
        """Identifies the line in the error of its output row."""
        return {"file": self.file, "offset": self.offset}

    def fields(self) -> Mapping[str, Any]:
        """Return all fields of the record."""
        try:
            return self.reader.fields(self._value())
        except ValueError:
            return {}

    def read(self) -> Content:
        """Return the content of the record.

        Raises:
            ValueError: The line is malformed, or has no text or image that can be read.
        """
        return self.reader.read(self._value())

    def _value(self) -> Any:
        try:
            return json.loads(self.content.decode("utf-8"))
        except RecursionError as error:
            raise ValueError("the line is nested too deeply") from error


class PartitionLines:
    """Iterates over the lines of a partition of JSON Lines that are not blank.

    Args:
        filesystem: The file system.
        partition: The partition.
        reader: Reads the content of records.
    """

    unit = "line"

    def __init__(self, filesystem: Any, partition: Partition, reader: RecordReader) -> None:
        self._lines = _lines(filesystem, partition, reader)
        self._next: JsonLine | None = None

    def __iter__(self) -> PartitionLines:
        return self

    def __next__(self) -> JsonLine:
        line = self.peek()
        if line is None:
            raise StopIteration
        self._next = None
        return line

    def peek(self) -> JsonLine | None:
        """Return the next line, without taking it; ``None`` at the end."""
        if self._next is None:
            self._next = next(self._lines, None)
        return self._next

    def is_ready(self, seconds: float) -> bool:
        """Return ``True``: a file is read without delay."""
        return True

    def count(self) -> int | None:
        """Return ``None``: the number of lines is not known."""
        return None


def _lines(filesystem: Any, partition: Partition, reader: RecordReader) -> Iterator[JsonLine]:
    with reading(partition.file), filesystem.open_input_file(partition.path) as source:
        lines = io.BufferedReader(source, _SAMPLE_BYTES)
        position = partition.begin
        if position:
            # The line that the byte before belongs to is that of the range before.
            lines.seek(position - 1)
            position += len(lines.readline()) - 1
        while position < partition.end and (line := lines.readline()):
            content = line.removeprefix(b"\xef\xbb\xbf") if position == 0 else line
            if content.strip():
                yield JsonLine(partition.file, position, content, reader)
            position += len(line)


def _mean_line(source: Location, file: InputFile) -> int:
    """Return the mean size of the first lines of a file in bytes, at least 1."""
    with reading(file.name), source.filesystem.open_input_file(file.path) as lines:
        sample: bytes = lines.read(_SAMPLE_BYTES)
    return max(len(sample) // max(sample.count(b"\n"), 1), 1)


def _size(
    source: Location, file: InputFile, check: Callable[[InputFile, Sequence[str]], None]
) -> int:
    """Return the number of rows of a file; of JSON Lines that of bytes."""
    if file.format == "jsonl":
        return file.size
    parquet = importlib.import_module("pyarrow.parquet")
    with (
        reading(file.name),
        parquet.ParquetFile(file.path, filesystem=source.filesystem) as opened,
    ):
        check(file, opened.schema_arrow.names)
        return cast(int, opened.metadata.num_rows)


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Convert errors of reading a file to ``InvalidOptionError``."""
    arrow = import_library("pyarrow")
    try:
        yield
    except (OSError, arrow.ArrowException) as error:
        raise InvalidOptionError(f"cannot read {name!r}: {error}", option="input") from error
