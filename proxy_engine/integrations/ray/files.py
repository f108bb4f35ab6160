"""Extraction from files to files on Ray. An actor extracts each part of the input in one run.

Free of Ray; :mod:`.run` makes actors of the class.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from state_machines.errors import ProxyError

from ...errors import InvalidOptionError, OutputFileError, OutputFileRefusedError
from ...extraction.answer_format import AnswerFormat
from ...extraction.inputs import Inputs
from ...extraction.outputs import FileFormat, OutputOptions, format_of
from ...extraction.records import RecordReader
from ...extraction.run import Run
from ...extraction.sources import csv_inputs, file_inputs, files_in, line_inputs
from ...extraction.tables import import_arrow
from .actors import ActorSettings, Extractor, check_columns

SETTINGS = "_settings.json"
_UNFINISHED = "_unfinished"
_TEXTS = 256
"""Files with one record each that are one part."""
_BATCH_ROWS = 1_000
_THREADS = 32


class Location(NamedTuple):
    """A file or directory in a file system.

    Attributes:
        filesystem: The file system, a ``pyarrow.fs.FileSystem``.
        path: The path in it, without a slash at the end.
        shown: The name in messages.
    """

    filesystem: Any
    path: str
    shown: str

    @classmethod
    def of(cls, name: str, option: str) -> Location:
        """Return the location of a path, or of a URI such as ``s3://bucket/directory``.

        Raises:
            InvalidOptionError: The URI is not that of a file system.
            MissingExtraError: pyarrow is not installed.
        """
        arrow = import_arrow()
        fs = importlib.import_module("pyarrow.fs")
        if "://" not in name:
            return cls(fs.LocalFileSystem(), str(Path(name).expanduser().absolute()), name)
        try:
            filesystem, path = fs.FileSystem.from_uri(name)
        except (OSError, arrow.ArrowException) as error:
            raise InvalidOptionError(f"cannot use {name!r}: {error}", option=option) from error
        return cls(filesystem, path.rstrip("/"), name)

    @property
    def is_local(self) -> bool:
        """Whether the file system is that of each machine, or one that all of them mount."""
        return bool(self.filesystem.type_name == "local")

    def files(self) -> dict[str, tuple[int, int]]:
        """Return the sizes and times of the files by name; of a file that of itself alone.

        Names are relative to the directory. Names that begin with ``.`` or ``_`` are left out.

        Raises:
            OSError: It cannot be read.
        """
        fs = importlib.import_module("pyarrow.fs")
        (info,) = self.filesystem.get_file_info([self.path])
        found = [info]
        if info.type == fs.FileType.Directory and self.is_local:
            # The selector would follow links to a directory that contains them.
            found = self.filesystem.get_file_info([*map(str, files_in(Path(self.path)))])
        elif info.type != fs.FileType.File:
            selector = fs.FileSelector(self.path, recursive=True, allow_not_found=True)
            found = self.filesystem.get_file_info(selector)
        root = self.directory
        facts = {
            str(PurePosixPath(one.path).relative_to(root)): (one.size or 0, one.mtime_ns or 0)
            for one in found
            if one.type == fs.FileType.File
        }
        hidden = (".", "_")
        return {
            name: facts[name]
            for name in sorted(facts)
            if not any(part.startswith(hidden) for part in PurePosixPath(name).parts)
        }

    @property
    def directory(self) -> str:
        """The directory that names of files are relative to."""
        is_file = self.filesystem.get_file_info([self.path])[0].is_file
        return str(PurePosixPath(self.path).parent) if is_file else self.path


class Part(NamedTuple):
    """Files of the input that have one output file.

    Attributes:
        number: Its position among all parts, in the order of the input.
        files: The files, relative to the input: a table, or files with one record each.
        format: The format of the table; ``None`` for texts and images.
    """

    number: int
    files: tuple[str, ...]
    format: FileFormat | None

    @property
    def name(self) -> str:
        """The name of the output file. Names sort in the order of the input."""
        table = "" if self.format is None else f"-{PurePosixPath(self.files[0]).stem}"
        return f"part-{self.number:08d}{table}.{self.format or 'jsonl'}"


def parts_of(files: Mapping[str, Any]) -> list[Part]:
    """Return the parts of an input: each table, and texts and images in groups."""
    groups: list[tuple[tuple[str, ...], FileFormat | None]] = []
    texts = [name for name in files if format_of(name) is None]
    groups += [(tuple(texts[at : at + _TEXTS]), None) for at in range(0, len(texts), _TEXTS)]
    groups += [((name,), kind) for name in files if (kind := format_of(name)) is not None]
    groups.sort()
    return [Part(number, *group) for number, group in enumerate(groups)]


def check_tables(
    source: Location, parts: Sequence[Part], reader: RecordReader, answers: AnswerFormat
) -> None:
    """Check the columns of the Parquet files.

    Raises:
        InvalidOptionError: A file cannot be read, lacks the column of the texts, or has a column of
            the name of one of the result's.
    """
    arrow = import_arrow()
    parquet = importlib.import_module("pyarrow.parquet")

    def check(part: Part) -> None:
        path = f"{source.directory}/{part.files[0]}"
        try:
            check_columns(reader, answers, parquet.read_schema(path, source.filesystem).names)
        except (OSError, arrow.ArrowException) as error:
            what = f"cannot read {part.files[0]!r}: {error}"
            raise InvalidOptionError(what, option="input") from error

    # Each is a request if the files are in an object store.
    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(check, (part for part in parts if part.format == "parquet")))


@dataclass(frozen=True, slots=True)
class OutputDirectory:
    """An output directory: a file for each part, and the settings of the run.

    A file is moved there when it is complete.

    Attributes:
        location: Its location.
    """

    location: Location

    def open(self, settings: Mapping[str, Any], *, is_resumed: bool) -> set[str]:
        """Create the directory, or continue an earlier run; return the names of its files.

        Raises:
            OutputFileRefusedError: It has files and ``is_resumed`` is false, or they belong to a
                run with other settings.
            OutputFileError: It cannot be written.
        """
        expected = json.loads(json.dumps(settings, default=str))
        filesystem, path, shown = self.location
        try:
            with contextlib.suppress(FileNotFoundError):
                with filesystem.open_input_stream(f"{path}/{SETTINGS}") as file:
                    found = json.loads(file.read())
                if not is_resumed:
                    hint = "--resume continues an interrupted run."
                    raise OutputFileRefusedError(f"{shown!r} is not empty", path=shown, hint=hint)
                names = [name for name in expected if found.get(name) != expected[name]]
                if names:
                    what = f"{shown!r} belongs to a run with another {', another '.join(names)}"
                    raise OutputFileRefusedError(what, path=shown)
                return {*self.location.files()}
            if self.location.files():
                what = f"{shown!r} was not written by an extraction on Ray"
                raise OutputFileRefusedError(what, path=shown)
            filesystem.create_dir(f"{path}/{_UNFINISHED}", recursive=True)
            with filesystem.open_output_stream(f"{path}/{SETTINGS}") as file:
                file.write(json.dumps(expected, indent=1).encode())
        except (OSError, ValueError) as error:
            raise OutputFileError(f"cannot write {shown!r}: {error}", path=shown) from error
        return set()

    def finish(self) -> None:
        """Remove the directory of unfinished files."""
        with contextlib.suppress(OSError):
            self.location.filesystem.delete_dir(f"{self.location.path}/{_UNFINISHED}")


class Counts(NamedTuple):
    """The rows of parts, those with errors, and the tokens of the answers."""

    rows: int = 0
    failed: int = 0
    completion_tokens: int = 0


class FileActor:
    """An actor that extracts from parts to their output files.

    Rows of JSON Lines and CSV are appended to a file that an actor after it continues.

    Args:
        settings: The settings of the run.
        source: The input.
        output: The output.
    """

    def __init__(self, settings: ActorSettings, source: Location, output: Location) -> None:
        self._source = source
        self._output = output
        self._error: ProxyError | None = None
        try:
            self._extractor = Extractor(settings)
        except ProxyError as error:
            self._error = error

    def extract(self, part: Part) -> Counts | ProxyError:
        """Return the outcome of a part. An error of the run is returned: Ray would repeat it."""
        if self._error is not None:
            return self._error
        try:
            with tempfile.TemporaryDirectory() as local:
                return self._extract(part, Path(local))
        except ProxyError as error:
            return error
        except OSError as error:
            return OutputFileError(f"cannot extract {part.name!r}: {error}", path=part.name)

    def _extract(self, part: Part, local: Path) -> Counts:
        source, output, fs = self._source, self._output, importlib.import_module("pyarrow.fs")
        directory, unfinished = Path(source.directory), Path(output.path, _UNFINISHED, part.name)
        if not source.is_local:
            for name in part.files:
                (local / name).parent.mkdir(parents=True, exist_ok=True)
                fs.copy_files(f"{source.directory}/{name}", str(local / name), source.filesystem)
            directory = local
        if not output.is_local:
            unfinished = local / part.name
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        before = self._extractor.completion_tokens
        write = self._write_table if part.format == "parquet" else self._write_rows
        rows, failed = write(part, directory, unfinished)
        if output.is_local:
            unfinished.replace(Path(output.path, part.name))
            Path(f"{unfinished}.manifest").unlink(missing_ok=True)
        else:
            target = f"{output.path}/{part.name}"
            fs.copy_files(str(unfinished), target, destination_filesystem=output.filesystem)
        return Counts(rows, failed, self._extractor.completion_tokens - before)

    def _write_rows(self, part: Part, directory: Path, path: Path) -> tuple[int, int]:
        extractor = self._extractor
        options = OutputOptions(str(path), part.format or "jsonl", is_resumed=True)
        with self._inputs(part, directory) as inputs:
            fields = inputs.fields()
            extractor.extraction.answers.check_columns(fields)
            engine = extractor.engine
            run = Run(
                extractor.extraction,
                inputs,
                fields,
                options,
                lambda: contextlib.nullcontext(engine),
            )
            outcomes = extractor.counted(run.outcomes())
            errors = [outcome.error is not None for outcome in outcomes]
        return len(errors), sum(errors)

    @contextmanager
    def _inputs(self, part: Part, directory: Path) -> Iterator[Inputs]:
        if part.format is None:
            yield file_inputs(part.files, directory=directory, are_named=True)
            return
        path = directory / part.files[0]
        reader = replace(self._extractor.reader, directory=path.parent)
        with path.open("rb") as file:
            yield (csv_inputs if part.format == "csv" else line_inputs)(file, reader)

    def _write_table(self, part: Part, directory: Path, path: Path) -> tuple[int, int]:
        arrow = import_arrow()
        parquet = importlib.import_module("pyarrow.parquet")
        rows = failed = 0
        try:
            with contextlib.ExitStack() as stack:
                file = stack.enter_context(parquet.ParquetFile(directory / part.files[0]))
                batches = file.iter_batches(batch_size=_BATCH_ROWS)
                # The first table has no rows, and so the types that all tables have.
                empty = file.schema_arrow.empty_table()
                tables = (arrow.Table.from_batches([batch]) for batch in batches)
                extended = self._extractor.extend(table for t in ((empty,), tables) for table in t)
                schema = next(extended).schema
                writer = stack.enter_context(parquet.ParquetWriter(path, schema))
                for table in extended:
                    writer.write_table(table)
                    rows += table.num_rows
                    failed += table.num_rows - table.column(schema.names[-1]).null_count
        except arrow.ArrowException as error:
            raise InvalidOptionError(
                f"cannot read {part.files[0]!r}: {error}", option="input"
            ) from error
        return rows, failed
