"""Arrays in one file, in the safetensors format, with a digest of all of it.

The format (https://github.com/huggingface/safetensors#format) is eight bytes for the length of a
header in JSON, the header, and the arrays one after another. Any reader of it can look inside.
The digest stands among the header's metadata and is taken with zeros in its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from state_machines.errors import VocabularyError
from state_machines.limits import LIMITS
from state_machines.vocabulary.tables import Array, Arrays

__all__ = ["PARTIAL_SUFFIX", "read_arrays", "write_arrays"]

PARTIAL_SUFFIX = ".partial"
"""Ends the names of files that are being written."""

_DTYPES: dict[str, np.dtype[Any]] = {"I32": np.dtype("<i4"), "U8": np.dtype("u1")}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_FORMAT = "state_machines.Vocabulary"
_NO_DIGEST = "0" * 64
_ALIGNMENT = 64


def write_arrays(path: Path, arrays: Arrays, metadata: Mapping[str, str]) -> None:
    """Write one-dimensional arrays of int32 and uint8, and strings by name.

    The file takes its name in one step: readers see the old one or the new one, whole. Raises
    :class:`OSError` where it cannot be written.
    """
    little = {
        name: array.astype(array.dtype.newbyteorder("<"), copy=False)
        for name, array in arrays.items()
    }
    # Bytes come last, so that numbers stand at multiples of their size.
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
    """Return the arrays of a file, read-only, and its strings.

    Raises :class:`VocabularyError` for a file that :func:`write_arrays` has not written, or that
    is damaged; :class:`OSError` where there is none or it cannot be read.
    """
    with path.open("rb") as file:
        room = os.fstat(file.fileno()).st_size - 8
        length = int.from_bytes(file.read(8), "little")
        # Not all of a large file before it is known to be one of ours.
        encoded = file.read(length) if length <= min(room, LIMITS.vocabulary_header_bytes) else b""
        try:
            header = json.loads(encoded)
            metadata = dict(header.pop("__metadata__"))
            digest = metadata.pop("sha256") if metadata.pop("format") == _FORMAT else ""
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise VocabularyError(f"{path} is no file of a vocabulary") from error
        data = file.read()
    blank = encoded.replace(str(digest).encode(), _NO_DIGEST.encode(), 1)
    if not digest or _digest(blank, data) != digest:
        raise VocabularyError(f"{path} is damaged, or no file of a vocabulary")
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
