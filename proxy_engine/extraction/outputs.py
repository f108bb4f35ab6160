"""Output files of an extraction, which an interrupted run can continue."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeAlias

from ..errors import InvalidOptionError, OutputFileRefusedError
from .answer_format import AnswerFormat
from .csv_rows import Csv
from .frames import import_library
from .inputs import Inputs, Item
from .outcomes import Outcome
from .output_file import OutputFile, existing, open_output
from .parquet import ParquetWriter, csv_lines, has_contents
from .rows import Failure, JsonLines, Read, RowFormat

FileFormat: TypeAlias = Literal["jsonl", "csv", "parquet"]

SUFFIXES: dict[str, FileFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}


def format_of(path: str) -> FileFormat | None:
    """Return the format that a file's suffix names; ``None`` for other suffixes."""
    return SUFFIXES.get(Path(path).suffix.lower())


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """An output file.

    Attributes:
        path: Its name.
        format: Its format.
        is_resumed: Whether rows of an earlier run are kept.
        is_replaced: Whether other contents are dropped.
        inputs: The files that it must not be.
    """

    path: str
    format: FileFormat
    is_resumed: bool = False
    is_replaced: bool = False
    inputs: tuple[IO[bytes] | str, ...] = ()

    @classmethod
    def of(cls, path: str, *, is_resumed: bool) -> OutputOptions:
        """Return the options of a file whose suffix names its format.

        Raises:
            InvalidOptionError: The suffix names no format.
        """
        found = format_of(path)
        if found is None:
            raise InvalidOptionError(
                f"the suffix of {path!r} names no format of an output file",
                option="output",
                hint=f"Use one of {', '.join(SUFFIXES)}.",
            )
        return cls(path, found, is_resumed)

    @contextlib.contextmanager
    def opened(
        self,
        answers: AnswerFormat,
        fields: Iterable[str] = (),
        types: Callable[[], Mapping[str, Any]] = dict,
    ) -> Iterator[Output]:
        """Open the file.

        Args:
            answers: The format of the answers.
            fields: The fields of the records, if they are known.
            types: Returns the types of fields in pyarrow, where they are known.

        Raises:
            OutputFileRefusedError: It has contents, cannot be written, or is an input.
            MissingExtraError: pyarrow, which writes Parquet, is not installed.
        """
        path = self.path
        if self.format == "parquet":
            import_library("pyarrow")
            path = f"{self.path}.partial.jsonl"
            if has_contents(self.path) and not self.is_resumed and not self.is_replaced:
                raise existing(self.path)
        with open_output(
            path, inputs=self.inputs, is_resumed=self.is_resumed, is_replaced=self.is_replaced
        ) as file:
            if self.format == "parquet":
                if has_contents(self.path):
                    # Raises if it cannot be written, or is an input.
                    with open_output(
                        self.path, inputs=self.inputs, is_resumed=True, is_replaced=False
                    ):
                        pass
                is_complete = self.is_resumed and not file.size and has_contents(self.path)
                yield ParquetOutput(self.path, file, answers, fields, types, is_complete)
            elif self.format == "csv":
                yield Output(file, Csv(answers, fields))
            else:
                yield Output(file, JsonLines(answers))


class Output:
    """An open output file.

    Args:
        file: The file.
        rows: The format of its rows.

    Attributes:
        path: The name of the file.
        rows: The format of its rows.
    """

    def __init__(self, file: OutputFile, rows: RowFormat) -> None:
        self.path = file.path
        self.rows = rows
        self._file = file

    def earlier(self, inputs: Inputs) -> EarlierRows:
        """Return the rows of an earlier run; iterating skips their records."""
        return EarlierRows(self.path, self._file.lines(), self.rows, inputs)

    def check_continuable(self, done: Done, inputs: Inputs) -> None:
        """Raise ``OutputFileRefusedError`` if there are records left and no rows can be added."""

    def begin(self, done: Done) -> None:
        """Drop all but the rows of an earlier run; the file is unchanged until then."""
        self._file.begin(done.size)

    def write(self, outcome: Outcome) -> None:
        """Append the row of a record.

        Raises:
            OutputFileError: The row cannot be written.
        """
        self._file.write(self.rows.row(outcome))

    def finish(self) -> None:
        """Complete the file after the last row.

        Raises:
            OutputFileError: The file cannot be written.
        """
        header = self.rows.missing_header()
        if header is not None:
            self._file.write(header)


class ParquetOutput(Output):
    """A Parquet file. Until the last row, the rows are in a file of JSON Lines beside it.

    Args:
        path: The name of the Parquet file.
        file: The file of JSON Lines.
        answers: The format of the answers.
        fields: The fields of the records, if they are known.
        types: Returns the types of fields in pyarrow, where they are known.
        is_complete: Whether an earlier run has completed the Parquet file.
    """

    def __init__(
        self,
        path: str,
        file: OutputFile,
        answers: AnswerFormat,
        fields: Iterable[str],
        types: Callable[[], Mapping[str, Any]],
        is_complete: bool,
    ) -> None:
        super().__init__(file, JsonLines(answers, is_bare=False))
        self._parquet = path
        self._is_complete = is_complete
        self._types = types
        if is_complete:
            self.path = path
            self.rows = Csv(answers, fields)
            os.unlink(file.path)

    def earlier(self, inputs: Inputs) -> EarlierRows:
        if not self._is_complete:
            return super().earlier(inputs)
        return EarlierRows(self.path, csv_lines(self.path), self.rows, inputs)

    def begin(self, done: Done) -> None:
        if not self._is_complete:
            super().begin(done)

    def check_continuable(self, done: Done, inputs: Inputs) -> None:
        if self._is_complete and inputs.peek() is not None:
            raise OutputFileRefusedError(
                f"{self.path!r} is complete and has {done.rows} rows; the input has more records",
                path=self.path,
                hint="Rows cannot be added to a Parquet file. Write another file.",
            )

    def finish(self) -> None:
        if self._is_complete:
            return
        writer = ParquetWriter(self.rows.answers, self._types())
        writer.write(partial(_lines_of, self._file.path), self._parquet)
        os.unlink(self._file.path)


def _lines_of(path: str) -> Iterator[bytes]:
    with Path(path).open("rb") as lines:
        yield from lines


class Done(NamedTuple):
    """The rows of an earlier run.

    Attributes:
        rows: Their number.
        failures: The number of errors among them.
        size: Their size in bytes.
    """

    rows: int = 0
    failures: int = 0
    size: int = 0


class EarlierRows:
    """Iterates over the records that a file has rows of, and validates the rows.

    Attributes:
        done: Counts of the rows so far.
    """

    def __init__(self, path: str, lines: Iterable[bytes], rows: RowFormat, inputs: Inputs) -> None:
        self.done = Done()
        self._path = path
        self._lines = lines
        self._rows = rows
        self._inputs = inputs

    def __iter__(self) -> Iterator[tuple[Item, Read]]:
        """Yield each record and its row. A row that is cut off at the end does not count.

        Raises:
            OutputFileRefusedError: A row is not that of its record, or there are more rows than
                records.
        """
        found = self._rows.split(self._lines)
        header = self._rows.read_header(found, self._inputs.peek())
        if header is None:
            raise self._refusal("its columns are not those of the output")
        self.done = Done(size=header)
        for position, row in enumerate(found, start=1):
            is_whole = row.endswith(b"\n")
            item = next(self._inputs, None) if is_whole else self._inputs.peek()
            if item is None:
                raise self._refusal(f"it has more rows than the input, which has {self.done.rows}")
            if not is_whole:
                if not self._rows.is_beginning(row, item):
                    raise self._refusal(f"row {position} is cut off and not part of a result")
                return
            read = self._rows.read(row, item)
            if read is None:
                raise self._refusal(
                    f"row {position} is neither valid for the schema nor the error of the "
                    f"input's {item.label}"
                )
            rows, failures, size = self.done
            failures += isinstance(read, Failure)
            self.done = Done(rows + 1, failures, size + len(row))
            yield item, read

    def _refusal(self, reason: str) -> OutputFileRefusedError:
        path = self._path
        return OutputFileRefusedError(
            f"{path!r} was not written by this extraction from this input: {reason}",
            path=path,
            hint="The file was not changed.",
        )
