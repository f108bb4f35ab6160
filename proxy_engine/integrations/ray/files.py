"""Extraction from files to files on Ray. An actor extracts each part of the input in one run.

Free of Ray; :mod:`.datasets` makes actors of the class.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Self

from state_machines.errors import ProxyError

from ...errors import InvalidOptionError, OutputFileError, OutputFileRefusedError
from ...extraction.answer_format import AnswerFormat
from ...extraction.column_types import import_arrow
from ...extraction.inputs import Inputs
from ...extraction.outcomes import Outcome
from ...extraction.outputs import OutputOptions
from ...extraction.paths import file_system, files_in
from ...extraction.records import RecordReader
from ...extraction.rows import FileFormat, format_of
from ...extraction.run import Run
from ...extraction.sources import file_inputs, opened_inputs
from .actors import ActorSettings, Extractor, check_columns

SETTINGS = "_settings.json"
_UNFINISHED = "_unfinished"
_TEXTS = 256
"""Files with one record each that are one part."""
_THREADS = 32


class Location(NamedTuple):
    """A file or directory in a file system.

    Attributes:
        system: The file system, of fsspec.
        path: The path in it, without a slash at the end.
        shown: The name in messages.
    """

    system: Any
    path: str
    shown: str

    @classmethod
    def of(cls, name: str) -> Location:
        """Return the location of a path, or of a URL such as ``s3://bucket/directory``.

        Raises:
            InvalidOptionError: The URL is not that of a file system.
        """
        system, path = file_system(str(Path(name).expanduser()) if "://" not in name else name)
        return cls(system, path.rstrip("/"), name)

    @property
    def is_local(self) -> bool:
        """Whether the file system is local to each machine, or mounted by all machines."""
        return "file" in self.system.protocol

    def url(self, name: str) -> str:
        """Return the path or URL of a file."""
        path = f"{self.directory}/{name}"
        return path if self.is_local else str(self.system.unstrip_protocol(path))

    def files(self) -> dict[str, str]:
        """Return digests of the sizes and times of the files by name.

        Names are relative to the directory. Names that begin with ``.`` or ``_`` are left out.

        Raises:
            OSError: It cannot be read.
        """
        root = self.directory
        if root != self.path:
            paths = [self.path]
        elif self.is_local and Path(root).is_dir():
            # `find` would follow links to a directory that contains them.
            paths = list(map(str, files_in(Path(root))))
        else:
            paths = self.system.find(root)
        names = {str(PurePosixPath(path).relative_to(root)): path for path in sorted(paths)}
        return {
            name: str(self.system.ukey(path))
            for name, path in names.items()
            if not any(part.startswith((".", "_")) for part in PurePosixPath(name).parts)
        }

    @property
    def directory(self) -> str:
        """The directory that names of files are relative to."""
        return self.path.rpartition("/")[0] if self.system.isfile(self.path) else self.path


class OutputGroup(NamedTuple):
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


def parts_of(files: Mapping[str, Any]) -> list[OutputGroup]:
    """Return the parts of an input: each table, and texts and images in groups."""
    groups: list[tuple[tuple[str, ...], FileFormat | None]] = []
    texts = [name for name in files if format_of(name) is None]
    groups += [(tuple(texts[at : at + _TEXTS]), None) for at in range(0, len(texts), _TEXTS)]
    groups += [((name,), kind) for name in files if (kind := format_of(name)) is not None]
    groups.sort()
    return [OutputGroup(number, *group) for number, group in enumerate(groups)]


def check_tables(
    source: Location, parts: Sequence[OutputGroup], reader: RecordReader, answers: AnswerFormat
) -> None:
    """Check the columns of the Parquet files.

    Raises:
        InvalidOptionError: A file cannot be read, lacks the column of the texts, or has a column of
            the name of one of the result's.
    """
    arrow, parquet = import_arrow(), import_arrow("pyarrow.parquet")

    def check(part: OutputGroup) -> None:
        try:
            with source.system.open(f"{source.directory}/{part.files[0]}", "rb") as file:
                check_columns(reader, answers, parquet.read_schema(file).names)
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
        system, path, shown = self.location
        try:
            with contextlib.suppress(FileNotFoundError):
                found = json.loads(system.cat_file(f"{path}/{SETTINGS}"))
                if not is_resumed:
                    hint = "resume=True continues an interrupted run."
                    raise OutputFileRefusedError(f"{shown!r} is not empty", path=shown, hint=hint)
                names = [name for name in expected if found.get(name) != expected[name]]
                if names:
                    what = f"{shown!r} belongs to a run with another {', another '.join(names)}"
                    raise OutputFileRefusedError(what, path=shown)
                return {*self.location.files()}
            if self.location.files():
                what = f"{shown!r} was not written by an extraction on Ray"
                raise OutputFileRefusedError(what, path=shown)
            system.makedirs(f"{path}/{_UNFINISHED}", exist_ok=True)
            system.pipe_file(f"{path}/{SETTINGS}", json.dumps(expected, indent=1).encode())
        except (OSError, ValueError) as error:
            raise OutputFileError(f"cannot write {shown!r}: {error}", path=shown) from error
        return set()

    def unfinished(self, part: OutputGroup) -> str:
        """Return the path or URL of the file of a part until it is complete."""
        return self.location.url(f"{_UNFINISHED}/{part.name}")

    def publish(self, part: OutputGroup) -> None:
        """Move a complete file to the directory."""
        system, path, _ = self.location
        unfinished = f"{path}/{_UNFINISHED}/{part.name}"
        system.mv(unfinished, f"{path}/{part.name}")
        with contextlib.suppress(FileNotFoundError):
            system.rm_file(f"{unfinished}.manifest")

    def finish(self) -> None:
        """Remove the directory of unfinished files."""
        with contextlib.suppress(OSError):
            self.location.system.rm(f"{self.location.path}/{_UNFINISHED}", recursive=True)


class Counts(NamedTuple):
    """Counts of parts: rows, rows with errors, rows that a limit cut short, and tokens."""

    rows: int = 0
    failed: int = 0
    cut_short: int = 0
    completion_tokens: int = 0

    @classmethod
    def of(cls, outcome: Outcome) -> Self:
        """Return the counts of one row."""
        tokens = 0 if outcome.result is None else outcome.result.usage.completion_tokens
        return cls(1, outcome.error is not None, outcome.is_limited, tokens)

    def plus(self, other: Counts) -> Counts:
        """Return the counts of the rows of both."""
        return Counts(*map(sum, zip(self, other, strict=True)))


class FileActor:
    """An actor that extracts from parts to their output files.

    Each part is a run, whose rows an actor after it continues.

    Args:
        settings: The settings of the run.
        source: The input.
        output: The output.
    """

    def __init__(self, settings: ActorSettings, source: Location, output: Location) -> None:
        self._source = source
        self._output = OutputDirectory(output)
        self._error: ProxyError | None = None
        try:
            self._extractor = Extractor(settings)
        except ProxyError as error:
            self._error = error

    def extract(self, part: OutputGroup) -> Counts | ProxyError:
        """Return the outcome of a part. An error of the run is returned: Ray would repeat it."""
        if self._error is not None:
            return self._error
        try:
            return self._extract(part)
        except ProxyError as error:
            return error
        except OSError as error:
            return OutputFileError(f"cannot extract {part.name!r}: {error}", path=part.name)

    def _extract(self, part: OutputGroup) -> Counts:
        extractor, path = self._extractor, self._output.unfinished(part)
        if self._output.location.is_local:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        options = OutputOptions(path, is_resumed=True, is_typed=True)
        counts = Counts()
        with self._inputs(part) as inputs:
            engine = contextlib.nullcontext(extractor.engine)
            run = Run(extractor.extraction, inputs, options, lambda: engine)
            run.check_columns()
            with contextlib.closing(run.outcomes()) as outcomes:
                for outcome in outcomes:
                    counts = counts.plus(Counts.of(outcome))
        self._output.publish(part)
        return counts

    def _inputs(self, part: OutputGroup) -> AbstractContextManager[Inputs]:
        source, reader = self._source, self._extractor.reader
        if part.format is not None:
            return opened_inputs([source.url(part.files[0])], reader, given=part.format)
        root = Path(source.directory) if source.is_local else source.url("").rstrip("/")
        return contextlib.nullcontext(file_inputs(part.files, directory=root, are_named=True))
