"""Inputs and outputs by path or URL, such as ``s3://bucket/in.csv``, through fsspec.

Inputs by URL are copied to a temporary file. Object stores cannot append, so the rows of an output
are written to a temporary directory, and stored as parts: objects with the bytes that were added
since the last one, named by the position of their first byte. A resumed run puts the parts
together. When the last row is there, the output and its manifest are stored as a whole, and the
parts are deleted.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

from ..errors import InvalidOptionError, OutputFileError, OutputFileRefusedError
from ..runtime.extras import import_extra

STANDARD_INPUT = "-"
"""The path of standard input."""
_URL = re.compile(r"[A-Za-z][\w+.:-]+://")
_SECONDS_BETWEEN_PARTS = 15.0
_LOCAL = "file://"
_READ_ONLY = ("http", "https")


def is_url(path: str) -> bool:
    """Whether an input or output is named by a URL."""
    return _URL.match(path) is not None


def is_remote(path: str) -> bool:
    """Whether an input or output is named by a URL, except for URLs of local files."""
    return is_url(path) and not path.startswith(_LOCAL)


def as_path(path: str) -> str:
    """Return the path of a local file's URL; another path or URL as it is."""
    return unquote(path.removeprefix(_LOCAL)) if path.startswith(_LOCAL) else path


def file_system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it.

    Raises:
        InvalidOptionError: There is no such file system, or its package is missing.
        MissingExtraError: fsspec is not installed.
    """
    core = import_extra("remote", "fsspec.core", purpose=f"{url.partition(':')[0]}://")
    try:
        system, path = core.url_to_fs(url)
    except (ImportError, OSError, ValueError) as error:
        # fsspec names the package that is missing.
        raise InvalidOptionError(f"cannot use {url!r}: {error}", option="records") from error
    return system, path


@contextlib.contextmanager
def reading(url: str) -> Iterator[tuple[Any, str]]:
    """Yield :func:`file_system`, and convert its errors.

    Raises:
        InvalidOptionError: The URL cannot be read.
    """
    system, path = file_system(url)
    try:
        yield system, path
    except InvalidOptionError:
        raise
    except Exception as error:
        # File systems raise the errors of their clients.
        reason = "no such file" if isinstance(error, FileNotFoundError) else error
        raise InvalidOptionError(f"cannot read {url!r}: {reason}", option="records") from error


def files_of(url: str) -> list[str]:
    """Return the URLs of the files of a directory, without hidden files; or the URL of a file.

    Raises:
        InvalidOptionError: The URL cannot be read, or the directory has no files.
    """
    with reading(url) as (system, path):
        # The pages of a web server are no directories.
        if url.lower().startswith(_READ_ONLY) or not system.isdir(path):
            return [url]
        root = path.rstrip("/") + "/"
        names = [name.removeprefix(root) for name in system.find(path)]
        shown = [name for name in sorted(names) if not re.search(r"(^|/)\.", name)]
        if not shown:
            raise InvalidOptionError(f"the directory {url!r} has no files", option="records")
        return [f"{url.rstrip('/')}/{name}" for name in shown]


def read_bytes(url: str) -> bytes:
    """Return the content of a URL. Raises ``InvalidOptionError``."""
    with reading(url) as (system, path):
        content: bytes = system.cat_file(path)
        return content


@contextlib.contextmanager
def local_copy(url: str) -> Iterator[str]:
    """Yield the path of a temporary copy of a URL. Raises ``InvalidOptionError``."""
    with tempfile.TemporaryDirectory(prefix="proxy-engine-") as directory:
        copy = str(Path(directory, "copy"))
        with reading(url) as (system, path):
            system.get_file(path, copy)
        yield copy


def is_stream(name: str) -> bool:
    """Whether a name stands for standard input or a URL, rather than a local file."""
    return name == STANDARD_INPUT or is_remote(name)


def is_directory(path: str) -> bool:
    """Whether there is a directory of that name."""
    try:
        return Path(path).is_dir()
    except ValueError:
        # A name with a null byte.
        return False


def located(directory: Path | str, name: str) -> Path | str:
    """Return the path or URL of a file in a directory."""
    return directory / name if isinstance(directory, Path) else f"{directory}/{name}"


def files_in(directory: Path, parents: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """Yield the files of a directory and its subdirectories, without hidden files.

    Symbolic links are followed, except to a directory that contains the link.

    Args:
        directory: The directory.
        parents: The directories above it that are being read, without symbolic links.
    """
    resolved = directory.resolve()
    if resolved in parents:
        return
    for path in directory.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from files_in(path, parents | {resolved})
        else:
            yield path


def expanded(path: str) -> list[str]:
    """Return the files of a directory, in the order of names, or of a URL; another path as it is.

    Raises:
        InvalidOptionError: It cannot be read, or the directory has no files.
    """
    if is_remote(path):
        return files_of(path)
    if path == STANDARD_INPUT:
        return [path]
    try:
        if not is_directory(path):
            # Raises if it is missing, or cannot be read.
            with Path(path).open("rb"):
                return [path]
        found = sorted(map(str, files_in(Path(path))))
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if not found:
        raise InvalidOptionError(f"the directory {path!r} has no files", option="records")
    return found


@contextlib.contextmanager
def opened_file(path: str) -> Iterator[IO[bytes]]:
    """Open a file, a copy of a URL, or standard input.

    Raises:
        InvalidOptionError: It cannot be read.
    """
    if path == STANDARD_INPUT:
        # `None` if it was closed at the start.
        if sys.stdin is None:
            raise InvalidOptionError("standard input is closed; give a file", option="records")
        yield sys.stdin.buffer
        return
    with contextlib.ExitStack() as stack:
        local = stack.enter_context(local_copy(path)) if is_remote(path) else path
        try:
            source = stack.enter_context(Path(local).open("rb"))
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from error
        yield source


def unreadable(path: str, error: Exception) -> InvalidOptionError:
    # A name with a null byte is a ValueError.
    reason = (isinstance(error, OSError) and error.strerror) or error
    return InvalidOptionError(f"cannot read {path!r}: {reason}", option="records")


class RemoteOutput:
    """An output in an object store, and the local files that are stored there as parts.

    Args:
        url: The output.
        beside: The suffix of the file with the rows until the last one.

    Attributes:
        path: The path of the local output; its manifest is beside it.

    Raises:
        OutputFileRefusedError: It cannot be written.
    """

    def __init__(self, url: str, beside: str) -> None:
        self._url = url
        self._system, self._target = file_system(url)
        if url.lower().startswith(_READ_ONLY):
            raise OutputFileRefusedError(f"cannot write {url!r}: HTTP is read-only", path=url)
        self._parts = f"{self._target}.parts"
        self._directory = tempfile.TemporaryDirectory(prefix="proxy-engine-")
        self.path = str(Path(self._directory.name, Path(self._target).name))
        self._files = {"rows": f"{self.path}{beside}", "manifest": f"{self.path}.manifest"}
        self._stored = dict.fromkeys(self._files, 0)
        self._last = time.monotonic()

    def __enter__(self) -> RemoteOutput:
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.cleanup()

    def exists(self) -> bool:
        """Whether there is an output, or parts of one."""
        with self._writing():
            return bool(self._system.exists(self._target) or self._names())

    def fetch(self) -> None:
        """Copy the output of an earlier run, or its parts, to the local files."""
        with self._writing():
            for source, target in ((self._target, self.path), *self._manifest()):
                if self._system.exists(source):
                    self._system.get_file(source, target)
            for kind, position, name in self._names():
                with open(self._files[kind], "ab") as file:
                    # A later part replaces what follows its position. Nothing follows a gap.
                    if position <= file.tell():
                        file.truncate(position)
                        file.write(self._system.cat_file(name))
            self._stored = {kind: _size(file) for kind, file in self._files.items()}

    def begin(self) -> None:
        """Keep what the local files have, and drop the rest of the parts."""
        with self._writing():
            for kind, file in self._files.items():
                self._stored[kind] = min(self._stored[kind], _size(file))
            for kind, position, name in self._names():
                if position >= self._stored[kind]:
                    self._system.rm_file(name)

    def store(self, *, is_due: bool = True) -> None:
        """Store what was added to the local files.

        Args:
            is_due: Whether to store it now. Otherwise if some seconds have passed since the last
                part.

        Raises:
            OutputFileError: It cannot be stored.
        """
        if not is_due and time.monotonic() - self._last < _SECONDS_BETWEEN_PARTS:
            return
        with self._writing():
            # The rows are first: a manifest needs the rows that it describes.
            for kind, path in self._files.items():
                position, size = self._stored[kind], _size(path)
                if size > position:
                    with open(path, "rb") as file:
                        file.seek(position)
                        content = file.read(size - position)
                    self._system.pipe_file(f"{self._parts}/{kind}-{position:016d}", content)
                    self._stored[kind] = size
        self._last = time.monotonic()

    def finish(self) -> None:
        """Store the local output and its manifest as a whole, and delete the parts.

        Raises:
            OutputFileError: It cannot be stored.
        """
        with self._writing():
            self._system.put_file(self.path, self._target)
            for target, source in self._manifest():
                self._system.put_file(source, target)
            for *_, name in self._names():
                self._system.rm_file(name)

    def _manifest(self) -> list[tuple[str, str]]:
        return [(f"{self._target}.manifest", self._files["manifest"])]

    def _names(self) -> list[tuple[str, int, str]]:
        """Return the parts by kind and position."""
        self._system.invalidate_cache()
        found = []
        with contextlib.suppress(FileNotFoundError):
            for name in sorted(self._system.find(self._parts)):
                kind, _, position = name.rpartition("/")[2].partition("-")
                if kind in self._files and position.isdigit():
                    found.append((kind, int(position), name))
        return found

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            # File systems raise the errors of their clients.
            what = f"cannot write {self._url!r}: {error}"
            raise OutputFileError(what, path=self._url) from error


def _size(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0
