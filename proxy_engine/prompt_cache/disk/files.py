"""A bounded directory of cache files that several processes share.

::

    DIRECTORY/                        mode 0700
        .lock                         held while space is reserved and files are evicted
        .size                         bytes that all files take, an upper bound
        IDENTITY/                     the files of one model, mode 0700
            NAME.safetensors          mode 0600
            .NAME.safetensors.partial-…

A writer reserves the space of a file under the lock, writes the file under a temporary name without
the lock, and renames it. Readers take no lock: a file is complete or absent, and may vanish. The
operating system releases the lock of a process that ends. A process that ends while it writes
leaves a temporary file, which counts until an eviction removes it after an hour.

Files are not flushed to the device: they are checked by their digest when they are read. A digest
does not prove the origin of a file. So nothing is written to a directory to which other users can
write, and files of other users are not read.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from filelock import FileLock, Timeout

from ...checks import privacy_problem

Piece: TypeAlias = bytes | memoryview
"""A part of a file's content, in bytes."""

SUFFIX = ".safetensors"
"""Suffix of cache files."""

_LOCK_SECONDS = 10.0
_POLL_SECONDS = 0.005
_ABANDONED_SECONDS = 3600.0
_EVICT_TO = 0.9
"""Share of the bound that is left after an eviction, so that the next writes need none."""
_IDENTITY = re.compile(r"[0-9a-f]{32}")
_NAME = re.compile(r"[a-z](\d+)-[0-9a-f]{64}")
_PARTIAL = re.compile(rf"\.{_NAME.pattern}{re.escape(SUFFIX)}\.partial-.*")


@dataclass(frozen=True, slots=True)
class _Found:
    path: str
    nbytes: int
    used: int
    length: int
    is_partial: bool


class DiskFiles:
    """The files of one model in a shared directory. For any thread.

    The least recently used files of all models are evicted. Of files that were used together, the
    longer prefixes are evicted first.

    Args:
        root: The shared directory. It is created by the first write.
        identity: Digest of the model's identity.
        max_bytes: Bound on the size of all files in the shared directory.
    """

    def __init__(self, root: Path, identity: str, max_bytes: int) -> None:
        self._root = root
        self._directory = root / identity
        self._max_bytes = max_bytes
        self._lock = FileLock(root / ".lock", timeout=_LOCK_SECONDS, mode=0o600)
        self._publishing = threading.Lock()
        self._generation = 0

    @property
    def directory(self) -> Path:
        """The directory of the model's files."""
        return self._directory

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return f"{self._directory}{os.sep}{name}{SUFFIX}"

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return os.path.exists(self.path(name))

    def names(self) -> frozenset[str]:
        """Return the names of all files, also of foreign files."""
        try:
            found = os.listdir(self._directory)
        except OSError:
            return frozenset()
        return frozenset(file[: -len(SUFFIX)] for file in found if file.endswith(SUFFIX))

    def nbytes(self, name: str) -> int | None:
        """Return the size of a file; ``None`` if there is none."""
        try:
            return os.stat(self.path(name)).st_size
        except OSError:
            return None

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; ``None`` if it cannot be read."""
        try:
            with open(self.path(name), "rb", buffering=0) as file:
                is_trusted = os.fstat(file.fileno()).st_uid in (0, os.geteuid())
                return file.readall() if is_trusted else None
        except OSError:
            return None

    def touch(self, names: Iterable[str]) -> None:
        """Mark files as used. Errors are ignored: the directory may be read-only."""
        now = time.time_ns()
        for name in names:
            with suppress(OSError):
                os.utime(self.path(name), ns=(now, now))

    def remove(self, name: str) -> None:
        """Remove a file. Errors are ignored."""
        with suppress(OSError):
            os.unlink(self.path(name))

    def write(self, name: str, pieces: Sequence[Piece]) -> bool:
        """Write a file, unless it exists.

        Returns:
            Whether it exists now: it does not if it exceeds the bound, if the lock was not
            released in time, or if the files were cleared meanwhile.

        Raises:
            OSError: The file cannot be written.
        """
        generation = self._generation
        nbytes = sum(map(len, pieces))
        try:
            partial = self._reserve(name, nbytes)
        except (Timeout, FileNotFoundError):
            # The directory was removed after it had been created.
            return False
        if partial is None:
            return False
        try:
            with open(partial, "r+b") as file:
                file.writelines(pieces)
            with self._publishing:
                if self._generation == generation and not self.exists(name):
                    os.replace(partial, self.path(name))
                    return True
            self._discard(partial, nbytes)
            return self._generation == generation
        except FileNotFoundError:
            return False
        except BaseException:
            self._discard(partial, nbytes)
            raise

    def clear(self) -> None:
        """Remove the model's files. Running writes are dropped. Errors are ignored."""
        with self._publishing:
            self._generation += 1
        with suppress(OSError, Timeout), self._locked():
            for found in self._scan(self._directory):
                with suppress(OSError):
                    os.unlink(found.path)
            self._set_total(sum(found.nbytes for found in self._scan_all()))

    def _locked(self) -> AbstractContextManager[Any]:
        return self._lock.acquire(poll_interval=_POLL_SECONDS)

    def _reserve(self, name: str, nbytes: int) -> str | None:
        """Return a temporary file of ``nbytes``; ``None`` if there is no space within the bound."""
        if nbytes > self._max_bytes:
            return None
        for directory in (self._root, self._directory):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if problem := privacy_problem(directory):
                raise PermissionError(f"{str(directory)!r} {problem}")
        with self._locked():
            total = self._total()
            if total is None or total + nbytes > self._max_bytes:
                total = self._evict(nbytes)
            if total + nbytes > self._max_bytes:
                return None
            # Readable by the owner only.
            handle, partial = tempfile.mkstemp("", f".{name}{SUFFIX}.partial-", self._directory)
            try:
                # Other processes that count files see the final size.
                os.truncate(handle, nbytes)
            finally:
                os.close(handle)
            self._set_total(total + nbytes)
        return partial

    def _discard(self, partial: str, nbytes: int) -> None:
        with suppress(OSError, Timeout):
            os.unlink(partial)
            with self._locked():
                total = self._total()
                if total is not None:
                    self._set_total(max(0, total - nbytes))

    def _evict(self, room: int) -> int:
        """Remove files until there is room, and return the size of the rest. With the lock."""
        files = sorted(self._scan_all(), key=lambda found: (found.used, -found.length))
        total = sum(found.nbytes for found in files)
        if total + room <= self._max_bytes:
            return total
        for found in files:
            if total <= min(self._max_bytes - room, _EVICT_TO * self._max_bytes):
                break
            if found.is_partial:
                continue
            try:
                os.unlink(found.path)
            except FileNotFoundError:
                pass
            except OSError:
                continue
            total -= found.nbytes
        return total

    def _scan_all(self) -> Iterator[_Found]:
        with suppress(OSError), os.scandir(self._root) as entries:
            for entry in entries:
                if _IDENTITY.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                    yield from self._scan(entry.path)

    def _scan(self, directory: str | Path) -> Iterator[_Found]:
        """Find the files of a model. Temporary files of processes that were killed are removed."""
        with suppress(OSError), os.scandir(directory) as entries:
            for entry in entries:
                is_partial = _PARTIAL.fullmatch(entry.name)
                match = is_partial or _NAME.fullmatch(entry.name.removesuffix(SUFFIX))
                if match is None:
                    continue
                try:
                    stat = entry.stat(follow_symlinks=False)
                    if is_partial and time.time() - stat.st_mtime > _ABANDONED_SECONDS:
                        os.unlink(entry.path)
                        continue
                except OSError:
                    continue
                yield _Found(
                    entry.path, stat.st_size, stat.st_mtime_ns, int(match[1]), bool(is_partial)
                )

    def _total(self) -> int | None:
        try:
            total = int((self._root / ".size").read_text())
        except (OSError, ValueError):
            return None
        return total if total >= 0 else None

    def _set_total(self, nbytes: int) -> None:
        with open(self._root / ".size", "w", opener=_private) as file:
            file.write(str(nbytes))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
