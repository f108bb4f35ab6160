"""Output files of an extraction, which an interrupted run continues by their manifests.

A manifest has a line for each row of the output: a digest of the record, the size of the output,
and the answer or the error. The line is appended after the row, so a run that is killed between
them writes that row again. Answers are read from the manifest, whatever the format of the output.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import IO, Any, NamedTuple

from ..errors import EarlierRunError, InvalidOptionError, OutputFileRefusedError
from .answer_format import AnswerFormat
from .inputs import Inputs, Item
from .json_values import encode
from .options import ExtractionOptions
from .outcomes import Outcome
from .output_file import OutputFile, existing, has_contents, open_output
from .paths import RemoteOutput, as_path, is_remote
from .rows import FORMATS, JsonLines, RowFormat, error_type, suffix_of

_VERSION = 1


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """An output file.

    Attributes:
        path: Its name, or its URL.
        is_resumed: Whether rows of an earlier run are kept.
        is_replaced: Whether other contents are dropped.
        inputs: The files that it must not be.
        is_typed: Whether the types of columns follow from the schema alone, as they must if several
            processes write a file each, and none of them has all values.

    Raises:
        InvalidOptionError: The suffix names no format.
    """

    path: str
    is_resumed: bool = False
    is_replaced: bool = False
    inputs: tuple[IO[bytes] | str, ...] = ()
    is_typed: bool = False

    def __post_init__(self) -> None:
        if suffix_of(self.path) not in ("", *FORMATS):
            raise InvalidOptionError(
                f"the suffix of {self.path!r} names no format of an output file",
                option="output",
                hint=f"Use one of {', '.join(FORMATS)}.",
            )

    @classmethod
    def of(
        cls, options: ExtractionOptions, inputs: Iterable[IO[bytes] | str] = ()
    ) -> OutputOptions | None:
        """Return the output file of an extraction, if it has one.

        Args:
            options: The options of the extraction.
            inputs: The files that it must not be.
        """
        if options.output is None:
            return None
        path = os.fspath(options.output)
        return cls(path, options.resume, options.overwrite, tuple(inputs))

    @contextlib.contextmanager
    def opened(
        self, answers: AnswerFormat, inputs: Inputs, fields: Iterable[str] = ()
    ) -> Iterator[Output]:
        """Open the file.

        Args:
            answers: The format of the answers.
            inputs: The records.
            fields: The fields of the records, if they are known.

        Raises:
            OutputFileRefusedError: It has contents, cannot be written, or is an input.
            MissingExtraError: pyarrow, which writes Parquet, is not installed.
        """
        rows = FORMATS.get(suffix_of(self.path), JsonLines)(answers, fields, inputs.tables)
        if self.is_typed:
            rows.type_by_schema()
        with contextlib.ExitStack() as stack:
            remote = None
            path = as_path(self.path)
            if is_remote(path):
                remote = stack.enter_context(RemoteOutput(path, rows.beside))
                if not self.is_replaced and remote.exists():
                    if not self.is_resumed:
                        raise existing(path)
                    remote.fetch()
                path = remote.path
            if rows.beside and has_contents(path):
                if not self.is_resumed and not self.is_replaced:
                    raise existing(path)
                # Raises if it cannot be written, or is an input.
                stack.enter_context(open_output(path, inputs=self.inputs, is_resumed=True))
            file = stack.enter_context(
                open_output(
                    path + rows.beside,
                    inputs=self.inputs,
                    is_resumed=self.is_resumed,
                    is_replaced=self.is_replaced,
                )
            )
            manifest = None
            if file.is_regular:
                manifest = self._opened_manifest(stack, file, path, rows)
            yield Output(self, path, file, manifest, rows, inputs, remote)

    def _opened_manifest(
        self, stack: contextlib.ExitStack, file: OutputFile, path: str, rows: RowFormat
    ) -> Manifest:
        name = f"{path}.manifest"
        is_resumed = self.is_resumed and (file.size > 0 or has_contents(path))
        if is_resumed and not has_contents(name):
            raise OutputFileRefusedError(
                f"{self.path!r} was not written by this extraction: it has no manifest "
                f"{self.path + '.manifest'!r}",
                path=self.path,
                hint="The file was not changed.",
            )
        opened = open_output(name, inputs=self.inputs, is_resumed=is_resumed, is_replaced=True)
        return Manifest(stack.enter_context(opened), rows, is_resumed=is_resumed)


class Entry(NamedTuple):
    """A line of a manifest.

    Attributes:
        record: The digest of the record.
        size: The size of the output after its row.
        text: The answer of the model as JSON; empty for an error.
        details: The columns about the generation of the answer.
        error: The type and the message of the error.
    """

    record: str
    size: int
    text: str
    details: Mapping[str, Any]
    error: tuple[str, str] | None

    def outcome(self, item: Item, answers: AnswerFormat) -> Outcome:
        """Return the outcome of the entry's record."""
        if self.error is None:
            return Outcome(item, answers, earlier=(self.text, self.details))
        kind, message = self.error
        return Outcome(item, answers, error=EarlierRunError(message, type=kind))


class Manifest:
    """The manifest of an output file.

    Args:
        file: The file.
        rows: The format of the output.
        is_resumed: Whether the entries of an earlier run are kept.
    """

    def __init__(self, file: OutputFile, rows: RowFormat, *, is_resumed: bool) -> None:
        self._file = file
        self._is_resumed = is_resumed
        answers = rows.answers
        facts = encode([rows.name, answers.schema, answers.added_columns])
        digest = hashlib.blake2b(facts.encode(), digest_size=16).hexdigest()
        self._header = encode({"version": _VERSION, "output": digest})
        self._end = 0

    def entries(self) -> Iterator[Entry]:
        """Yield the entries. A line that is cut off, and those after it, do not count.

        Raises:
            ValueError: The manifest belongs to other answers.
        """
        if not self._is_resumed:
            return
        lines = self._file.lines()
        header = next(lines)
        if not header.endswith(b"\n"):
            return
        if header.rstrip() != self._header.encode():
            raise ValueError("its manifest has another schema, other columns or another format")
        self._end = len(header)
        for line in lines:
            if not line.endswith(b"\n"):
                return
            yield Entry(*json.loads(line))
            self._end += len(line)

    def has_entries(self) -> bool:
        """Whether it has an entry of an earlier run."""
        return self._is_resumed and any(islice(self._file.lines(), 1, None))

    def begin(self) -> None:
        """Drop all lines behind the entries that were read."""
        self._file.begin(self._end)
        if not self._end:
            self._file.write(self._header)

    def add(self, size: int, outcome: Outcome) -> None:
        """Append the entry of a row."""
        error = outcome.error
        reason = None if error is None else (error_type(error), str(error))
        entry = Entry(outcome.item.digest(), size, outcome.answer, outcome.details, reason)
        self._file.write(encode(entry))


class Output:
    """An open output file.

    Args:
        options: The options of the file.
        path: The path of the local file.
        file: The file with the rows.
        manifest: Its manifest; ``None`` for a device.
        rows: The format of its rows.
        inputs: The records.
        remote: Where the file is stored; ``None`` for a local one.

    Attributes:
        rows: The format of its rows.
        done: The number of records that have rows.
    """

    def __init__(
        self,
        options: OutputOptions,
        path: str,
        file: OutputFile,
        manifest: Manifest | None,
        rows: RowFormat,
        inputs: Inputs,
        remote: RemoteOutput | None = None,
    ) -> None:
        self.rows = rows
        self.done = 0
        self._remote = remote
        self._name = options.path
        self._path = path
        self._file = file
        self._manifest = manifest
        self._inputs = inputs
        self._size = 0
        # Without entries, the file is one that a run was about to replace.
        self._is_complete = (
            bool(rows.beside)
            and options.is_resumed
            and not file.size
            and has_contents(path)
            and manifest is not None
            and manifest.has_entries()
        )
        if self._is_complete:
            os.unlink(file.path)

    def earlier(self) -> Iterator[Outcome]:
        """Yield the outcomes of the records that the file has rows of, and take these records.

        Raises:
            OutputFileRefusedError: The file was written by another extraction, or from another
                input.
        """
        if self._manifest is None:
            raise self._refusal("it is not a regular file")
        try:
            # After a crash of the computer, the file can lack rows that the manifest has.
            for entry in takewhile(self._has, self._manifest.entries()):
                item = self._inputs.peek()
                if item is None:
                    raise self._refusal(f"the input has only {self.done} records")
                if item.digest() != entry.record:
                    raise self._refusal(f"row {self.done + 1} is not that of {item.label}")
                next(self._inputs)
                self.done += 1
                self._size = entry.size
                yield entry.outcome(item, self.rows.answers)
        except (ValueError, TypeError) as error:
            raise self._refusal(str(error)) from error
        if not self._is_complete and not self._file.has_line_end(self._size):
            raise self._refusal("its rows have been changed")

    def _has(self, entry: Entry) -> bool:
        return self._is_complete or entry.size <= self._file.size

    def _refusal(self, reason: str) -> OutputFileRefusedError:
        return OutputFileRefusedError(
            f"{self._name!r} cannot be resumed with this input and schema: {reason}",
            path=self._name,
            hint="The file was not changed.",
        )

    def check_continuable(self) -> None:
        """Raise ``OutputFileRefusedError`` if no rows can be added."""
        if self._is_complete:
            raise OutputFileRefusedError(
                f"{self._name!r} is complete and has {self.done} rows; the input has more records",
                path=self._name,
                hint="Rows cannot be added to it. Write another file.",
            )

    def begin(self) -> None:
        """Drop all but the rows of an earlier run; the files are unchanged until then."""
        if self._is_complete:
            return
        if self._size:
            self.rows.continue_after(_text_of(self._file.lines()))
        self._file.begin(self._size)
        if self._manifest is not None:
            self._manifest.begin()
        if self._remote is not None:
            self._remote.begin()
            # Raises if nothing can be stored.
            self._remote.store()

    def write(self, outcome: Outcome) -> Outcome:
        """Append the row of a record, and return its outcome.

        That is an error if a serializer of the type raises one.

        Raises:
            OutputFileError: The row cannot be written.
        """
        row, outcome = self.rows.encoded(outcome)
        self._size = self._file.write(row)
        if self._manifest is not None:
            self._manifest.add(self._size, outcome)
        self.done += 1
        if self._remote is not None:
            self._remote.store(is_due=False)
        return outcome

    def interrupt(self) -> None:
        """Store the rows of a run that ends before the last one."""
        if self._remote is not None:
            self._remote.store()

    def finish(self) -> None:
        """Complete the file after the last row.

        Raises:
            OutputFileError: The file cannot be written.
        """
        header = self.rows.missing_header()
        if header is not None:
            self._file.write(header)
        if self.rows.beside and not self._is_complete:
            self.rows.complete(self._file.path, self._path)
            os.unlink(self._file.path)
        if self._remote is not None and not self._is_complete:
            self._remote.finish()
            self._remote = None


def _text_of(lines: Iterator[bytes]) -> Iterator[str]:
    return (line.decode("utf-8", "replace") for line in lines)
