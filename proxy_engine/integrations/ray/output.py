"""The output directory of a run: one file for each partition, and a manifest.

A file is written under a temporary name and moved when it is complete, so that every file of a
partition is whole. The manifest has the settings; a run with others is refused.
"""

from __future__ import annotations

import importlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...errors import OutputFileError, OutputFileRefusedError
from ...extraction.frames import import_library
from .partitions import Location, Partition

MANIFEST = "_manifest.json"
_TEMPORARY = "_temporary-"
_ATTEMPTS = "_attempts"
_ROW_GROUP_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class OutputDirectory:
    """An output directory.

    Attributes:
        location: Its location.
        shown: Its name in messages.
    """

    location: Location
    shown: str

    def open(self, settings: Mapping[str, Any], *, is_resumed: bool) -> set[str]:
        """Create the directory, or continue an earlier run.

        Args:
            settings: The settings that determine the contents of the files, as JSON.
            is_resumed: Whether there may be files of an earlier run.

        Returns:
            The names of the files that are there.

        Raises:
            OutputFileRefusedError: The directory has files and ``is_resumed`` is false, or they
                belong to a run with other settings.
            OutputFileError: It cannot be written.
        """
        try:
            if self._has_directories:
                self.location.filesystem.create_dir(self.location.path, recursive=True)
            names = self.names()
            if not names:
                self._write(MANIFEST, lambda file: file.write(_json(settings)))
                return set()
            if not is_resumed:
                raise OutputFileRefusedError(
                    f"{self.shown!r} is not empty",
                    path=self.shown,
                    hint="--resume continues an interrupted run.",
                )
            self._check(names, settings)
            return names
        except OSError as error:
            raise self._error(error) from error

    def names(self) -> set[str]:
        """Return the names of the files, without temporary ones."""
        fs = importlib.import_module("pyarrow.fs")
        found = self.location.filesystem.get_file_info(
            fs.FileSelector(self.location.path, allow_not_found=True)
        )
        # Stores of objects can have a marker of the directory in it.
        names = {info.base_name for info in found if info.path.rstrip("/") != self.location.path}
        return {name for name in names if name != _ATTEMPTS and not name.startswith(_TEMPORARY)}

    def begin(self, partition: Partition) -> int:
        """Record an attempt to write a partition, and return the number of attempts so far.

        Attempts that ended with the death of their actors count as well.

        Raises:
            OutputFileError: It cannot be recorded.
        """
        fs = importlib.import_module("pyarrow.fs")
        filesystem = self.location.filesystem
        attempts = f"{self.location.path}/{_ATTEMPTS}/{partition.name}"
        try:
            if self._has_directories:
                filesystem.create_dir(attempts, recursive=True)
            with filesystem.open_output_stream(f"{attempts}/{uuid.uuid4().hex}"):
                pass
            found = filesystem.get_file_info(fs.FileSelector(attempts))
        except OSError as error:
            raise self._error(error) from error
        return sum(info.type == fs.FileType.File for info in found)

    def forget_attempts(self) -> None:
        """Remove the records of attempts."""
        with suppress(OSError):
            self.location.filesystem.delete_dir(f"{self.location.path}/{_ATTEMPTS}")

    def remove_temporary(self) -> None:
        """Remove records of attempts, and files that actors were writing when they died."""
        fs = importlib.import_module("pyarrow.fs")
        self.forget_attempts()
        with suppress(OSError):
            for info in self.location.filesystem.get_file_info(
                fs.FileSelector(self.location.path, allow_not_found=True)
            ):
                if info.base_name.startswith(_TEMPORARY):
                    self.location.filesystem.delete_file(info.path)

    def write_lines(self, partition: Partition, lines: Iterable[str]) -> None:
        """Write the file of a partition of JSON Lines, whole or not at all.

        Raises:
            OutputFileError: It cannot be written.
        """

        def write(file: Any) -> None:
            for line in lines:
                file.write(line.encode() + b"\n")

        self._write(partition.name, write)

    def write_tables(self, partition: Partition, tables: Iterable[Any], schema: Any) -> None:
        """Write the file of a partition of Parquet, whole or not at all.

        Args:
            partition: The partition.
            tables: Its rows, as ``pyarrow.Table``.
            schema: The schema of all tables.

        Raises:
            OutputFileError: It cannot be written.
        """
        parquet = importlib.import_module("pyarrow.parquet")

        def write(file: Any) -> None:
            with parquet.ParquetWriter(file, schema) as writer:
                for table in _row_groups(tables):
                    writer.write_table(table)

        self._write(partition.name, write)

    def _write(self, name: str, write: Callable[[Any], Any]) -> None:
        arrow = import_library("pyarrow")
        filesystem, path = self.location
        # Two actors can write a partition at a time, if one is believed to be dead.
        temporary = f"{path}/{_TEMPORARY}{uuid.uuid4().hex}-{name}"
        try:
            with filesystem.open_output_stream(temporary) as file:
                write(file)
            filesystem.move(temporary, f"{path}/{name}")
        except BaseException as error:
            with suppress(OSError):
                filesystem.delete_file(temporary)
            if isinstance(error, OSError | arrow.ArrowException):
                raise self._error(error) from error
            raise

    @property
    def _has_directories(self) -> bool:
        """Whether directories must be created. Stores of objects have none."""
        return self.location.filesystem.type_name in ("local", "hdfs")

    def _check(self, names: set[str], settings: Mapping[str, Any]) -> None:
        """Raise ``OutputFileRefusedError`` unless the manifest has these settings."""
        what = f"{self.shown!r} was not written by an extraction on Ray"
        if MANIFEST not in names:
            raise OutputFileRefusedError(what, path=self.shown)
        with self.location.filesystem.open_input_file(f"{self.location.path}/{MANIFEST}") as file:
            content = file.read()
        try:
            found = json.loads(content)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise OutputFileRefusedError(f"{what}: its manifest is malformed", path=self.shown)
        expected = json.loads(_json(settings))
        differing = [
            name
            for name in dict.fromkeys((*expected, *found))
            if found.get(name) != expected.get(name)
        ]
        if differing:
            raise OutputFileRefusedError(
                f"{self.shown!r} belongs to a run with another {', another '.join(differing)}",
                path=self.shown,
                hint="Repeat that run's settings, or write another directory.",
            )

    def _error(self, error: Exception) -> OutputFileError:
        return OutputFileError(f"cannot write {self.shown!r}: {error}", path=self.shown)


def _row_groups(tables: Iterable[Any]) -> Iterator[Any]:
    """Yield tables joined to larger ones, each a row group of the file."""
    arrow = import_library("pyarrow")
    joined: list[Any] = []
    for table in tables:
        joined.append(table)
        if sum(one.nbytes for one in joined) >= _ROW_GROUP_BYTES:
            yield arrow.concat_tables(joined)
            joined = []
    if joined:
        yield arrow.concat_tables(joined)


def _json(settings: Mapping[str, Any]) -> bytes:
    return json.dumps(settings, indent=1, default=str).encode() + b"\n"
