"""Arrays that are derived from a vocabulary once, and saved with it in one file.

The file has the safetensors format and a digest of the whole file.

The format (https://github.com/huggingface/safetensors#format) is eight bytes for the length of a
header in JSON, the header, and the joined arrays. The digest is part of the header's metadata,
and is computed with zeros in its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from state_machines.errors import VocabularyError

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
"""One-dimensional arrays of int32 or uint8 by name."""


class Tables:
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


_VOCABULARY_HEADER_BYTES = 32 << 20
"""Bytes of the header of a vocabulary file."""

PARTIAL_SUFFIX = ".partial"
"""Suffix of files that are being written."""

_DTYPES: dict[str, np.dtype[Any]] = {"I32": np.dtype("<i4"), "U8": np.dtype("u1")}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_FORMAT = "state_machines.Vocabulary"
_NO_DIGEST = "0" * 64
_ALIGNMENT = 64


def write_arrays(path: Path, arrays: Arrays, metadata: Mapping[str, str]) -> None:
    """Write a file atomically: readers see the old file or the whole new one.

    Args:
        path: The file.
        arrays: One-dimensional arrays of int32 or uint8 by name.
        metadata: Strings by name.

    Raises:
        OSError: The file cannot be written.
    """
    little = {
        name: array.astype(array.dtype.newbyteorder("<"), copy=False)
        for name, array in arrays.items()
    }
    # Bytes come last, so that integers are aligned.
    ordered = dict(sorted(little.items(), key=lambda item: -item[1].itemsize))
    header: dict[str, Any] = {
        "__metadata__": {"format": _FORMAT, "sha256": _NO_DIGEST, **metadata},
    }
    offset = 0
    for name, array in ordered.items():
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": [len(array)],
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-(8 + len(encoded)) % _ALIGNMENT)
    data = b"".join(array.tobytes() for array in ordered.values())
    encoded = encoded.replace(_NO_DIGEST.encode(), _digest(encoded, data).encode(), 1)
    _replace(path, len(encoded).to_bytes(8, "little") + encoded + data)


def read_arrays(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the arrays of a file, read-only, and its metadata.

    Raises:
        VocabularyError: The file is damaged, or not written by :func:`write_arrays`.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        room = os.fstat(file.fileno()).st_size - 8
        length = int.from_bytes(file.read(8), "little")
        # The header is checked before the rest of a large foreign file is read. The digest does not
        # cover its length: with another one that is aligned, the header is no JSON.
        is_header = length <= min(room, _VOCABULARY_HEADER_BYTES)
        encoded = file.read(length) if is_header and not (8 + length) % _ALIGNMENT else b""
        try:
            header = json.loads(encoded)
            metadata = dict(header.pop("__metadata__"))
            digest = metadata.pop("sha256") if metadata.pop("format") == _FORMAT else ""
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise VocabularyError(
                f"{path} is not a vocabulary file", hint="Save the vocabulary again"
            ) from error
        data = file.read()
    blank = encoded.replace(str(digest).encode(), _NO_DIGEST.encode(), 1)
    if not digest or _digest(blank, data) != digest:
        raise VocabularyError(
            f"{path} is damaged, or not a vocabulary file", hint="Save the vocabulary again"
        )
    arrays = {name: _array(entry, data) for name, entry in header.items()}
    return arrays, metadata


def _array(entry: Mapping[str, Any], data: bytes) -> Array:
    dtype = _DTYPES[entry["dtype"]]
    (count,), (offset, _) = entry["shape"], entry["data_offsets"]
    found: Array = np.frombuffer(data, dtype, count, offset)
    return found.astype(dtype.newbyteorder("="), copy=False)


def _digest(header: bytes, data: bytes) -> str:
    digest = hashlib.sha256(header)
    digest.update(data)
    return digest.hexdigest()


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
