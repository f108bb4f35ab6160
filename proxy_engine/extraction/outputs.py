"""Output files of an extraction, which an interrupted run can continue."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, NamedTuple, TypeAlias

from ..errors import InvalidOptionError, OutputFileRefusedError
from .answer_format import AnswerFormat
from .csv_rows import Csv
from .inputs import Inputs, Item
from .output_file import OutputFile, open_output
from .rows import Failure, JsonLines, Read, RowFormat

FileFormat: TypeAlias = Literal["jsonl", "csv", "parquet"]

SUFFIXES: dict[str, FileFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
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

    def rows(self, answers: AnswerFormat, fields: Iterable[str]) -> RowFormat:
        """Return the format of rows.

        Args:
            answers: The format of the answers.
            fields: The fields of the records, if they are known.
        """
        return Csv(answers, fields) if self.format == "csv" else JsonLines(answers)

    @contextlib.contextmanager
    def opened(self) -> Iterator[OutputFile]:
        """Open the file.

        Raises:
            OutputFileRefusedError: It has contents, cannot be written, or is an input.
        """
        with open_output(
            self.path,
            inputs=self.inputs,
            is_resumed=self.is_resumed,
            is_replaced=self.is_replaced,
        ) as file:
            yield file


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

    def __init__(self, file: OutputFile, rows: RowFormat, inputs: Inputs) -> None:
        self.done = Done()
        self._file = file
        self._rows = rows
        self._inputs = inputs

    def __iter__(self) -> Iterator[tuple[Item, Read]]:
        """Yield each record and its row. A row that is cut off at the end does not count.

        Raises:
            OutputFileRefusedError: A row is not that of its record, or there are more rows than
                records.
        """
        found = self._rows.split(self._file.lines())
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
        path = self._file.path
        return OutputFileRefusedError(
            f"{path!r} was not written by this command from this input: {reason}",
            path=path,
            hint="The file was not changed.",
        )
