"""Arrays that are derived from a vocabulary once, and saved with it in one file.

A file consists of a mark, the digest of all that follows, a line of JSON with the metadata and the
names of the arrays, and the arrays in NumPy's format, one after the other.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from state_machines.errors import VocabularyError

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
"""One-dimensional arrays of int32 or uint8 by name."""


class ArrayGroups:
    """Groups of read-only arrays by name. Thread-safe.

    Tries and other structures look here before they derive arrays from a vocabulary, so those of a
    vocabulary that is loaded from a file are not derived again.
    """

    __slots__ = ("_groups",)

    def __init__(self, groups: Mapping[str, Arrays] | None = None) -> None:
        self._groups: dict[str, Arrays] = dict(groups or {})

    def group(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """Return the arrays of a group, from ``make`` if there are none.

        Threads that ask at the same time may both make them; all get the same arrays.
        """
        found = self._groups.get(name)
        if found is None:
            made = make()
            for array in made.values():
                array.flags.writeable = False
            found = self._groups.setdefault(name, made)
        return found

    def groups(self) -> dict[str, Arrays]:
        """Return all groups so far."""
        return dict(self._groups)


def pack(texts: Collection[bytes]) -> tuple[Array, Array]:
    """Return the lengths of byte strings (int32) and their joined bytes (uint8)."""
    lengths = np.array([*map(len, texts)], np.int32)
    return lengths, np.frombuffer(b"".join(texts), np.uint8)


def unpack(lengths: Array, text: Array) -> list[bytes]:
    """Return the byte strings of :func:`pack`."""
    whole = text.tobytes()
    ends = [0, *np.cumsum(lengths, dtype=np.int64).tolist()]
    return [whole[first:last] for first, last in pairwise(ends)]


PARTIAL_SUFFIX = ".partial"
"""Suffix of files that are being written."""

_MARK = b"state_machines.Vocabulary\n"
_DIGEST_BYTES = 32


def write_arrays(path: Path, arrays: Arrays, metadata: Mapping[str, Any]) -> None:
    """Write a file atomically: readers see the old file or the whole new one.

    Args:
        path: The file.
        arrays: The arrays by name.
        metadata: JSON values by name.

    Raises:
        OSError: The file cannot be written.
    """
    file = BytesIO()
    file.write(json.dumps([metadata, list(arrays)]).encode() + b"\n")
    for array in arrays.values():
        np.save(file, array, allow_pickle=False)
    content = file.getvalue()
    _replace(path, _MARK + hashlib.sha256(content).digest() + content)


def read_arrays(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the arrays of a file, read-only, and its metadata.

    Raises:
        VocabularyError: The file is damaged, or not written by :func:`write_arrays`.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        # A large foreign file is not read as a whole.
        is_marked = file.read(len(_MARK)) == _MARK
        digest = file.read(_DIGEST_BYTES)
        content = file.read() if is_marked else b""
    if not is_marked or hashlib.sha256(content).digest() != digest:
        raise VocabularyError(
            f"{path} is damaged, or not a vocabulary file", hint="Save the vocabulary again"
        )
    rest = BytesIO(content)
    metadata, names = json.loads(rest.readline())
    arrays: dict[str, Array] = {name: np.load(rest, allow_pickle=False) for name in names}
    for array in arrays.values():
        array.flags.writeable = False
    return arrays, metadata


def _replace(path: Path, content: bytes) -> None:
    handle, partial = tempfile.mkstemp(PARTIAL_SUFFIX, f".{path.name}.", path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(content)
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)
        raise
