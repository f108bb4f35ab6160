"""Files of prompt caches: safetensors, encoded and decoded without MLX's own input/output.

Encoding has two stages, so that only the first one needs the model thread: :func:`snapshot` returns
NumPy views of a cache's arrays, :func:`encode` turns them into a file's content on any thread. A
file holds the state of every layer, or, if each layer has one entry per token, a range of tokens.

The metadata has a digest of everything else in the file. A damaged file is detected before MLX sees
its arrays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx_lm.models import cache as mlx_caches
from mlx_lm.models.cache import CacheList, ConcatenateKVCache, KVCache, QuantizedKVCache

from .disk.files import Piece
from .layers import flat

FORMAT = "proxy_engine.prompt_cache 2"

Array: TypeAlias = npt.NDArray[Any]

_BY_TOKEN = (KVCache, QuantizedKVCache, ConcatenateKVCache)
"""Layers whose arrays have the shape (1, heads, tokens, width)."""
_ALIGNMENT = 8

# By the name of safetensors: MLX's dtype, and the NumPy dtype with the same bits.
_DTYPES: dict[str, tuple[mx.Dtype, npt.DTypeLike]] = {
    "BOOL": (mx.bool_, np.bool_),
    "U8": (mx.uint8, np.uint8),
    "I8": (mx.int8, np.int8),
    "U16": (mx.uint16, np.uint16),
    "I16": (mx.int16, np.int16),
    "F16": (mx.float16, np.float16),
    "BF16": (mx.bfloat16, np.uint16),
    "U32": (mx.uint32, np.uint32),
    "I32": (mx.int32, np.int32),
    "F32": (mx.float32, np.float32),
    "U64": (mx.uint64, np.uint64),
    "I64": (mx.int64, np.int64),
}
_NAMES = {dtype: name for name, (dtype, _) in _DTYPES.items()}
_CARRIERS = {mx.bfloat16: mx.uint16}


class DamagedFileError(ValueError):
    """A file that :func:`encode` has not written, or whose content has changed."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cache whose arrays are readable on every thread.

    Attributes:
        layers: The layers in JSON, with references to arrays.
        arrays: The names of dtypes, and views of the arrays.
    """

    layers: str
    arrays: list[tuple[str, Array]]


@dataclass(frozen=True, slots=True)
class CacheContent:
    """The content of a file.

    Attributes:
        metadata: The caller's metadata.
        layers: The layers in JSON, with references to arrays.
        arrays: The names of dtypes, and the arrays.
    """

    metadata: dict[str, str]
    layers: str
    arrays: list[tuple[str, Array]]


def is_by_token(cache: Sequence[Any]) -> bool:
    """Whether every layer has one entry per token, so that the cache can be cut into ranges."""
    return all(type(layer) in _BY_TOKEN for layer in flat(cache))


def is_supported(cache: Sequence[Any]) -> bool:
    """Whether all layers are mlx-lm's: they are read by the names of their classes."""
    kinds = {type(layer) for layer in flat(cache)}
    return all(getattr(mlx_caches, kind.__name__, None) is kind for kind in kinds)


def snapshot(cache: Sequence[Any]) -> Snapshot:
    """Return views of a cache. To be called on the model thread.

    On devices whose memory the processor shares, nothing is copied. MLX does not write to arrays
    while the views exist: an update of a cache that shares them creates new ones.
    """
    arrays: list[mx.array] = []
    layers = [_description(layer, arrays) for layer in cache]
    names = [_NAMES[array.dtype] for array in arrays]
    # NumPy has no bfloat16. Each view is an object of its own: an assignment to a part of an array
    # replaces the buffer of that object, which a NumPy array would not notice.
    views = [array.view(_CARRIERS.get(array.dtype, array.dtype)) for array in arrays]
    mx.eval(views)
    return Snapshot(json.dumps(layers), list(zip(names, map(np.asarray, views), strict=True)))


def encode(
    cache: Snapshot, metadata: Mapping[str, str], tokens: slice | None = None
) -> list[Piece]:
    """Return the content of a file, in pieces.

    Args:
        cache: The cache.
        metadata: Texts by name, which :func:`decode` returns.
        tokens: The range of tokens; ``None`` for the whole state.
    """
    arrays = [
        (dtype, array if tokens is None else array[..., tokens, :]) for dtype, array in cache.arrays
    ]
    header: dict[str, Any] = {}
    end = 0
    for index, (dtype, array) in enumerate(arrays):
        start, end = end, end + array.nbytes
        header[str(index)] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [start, end],
        }
    metadata = {**metadata, "format": FORMAT, "layers": cache.layers}
    data = [np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for _, array in arrays]
    metadata["sha256"] = _digest(header, metadata, data)
    text = json.dumps({"__metadata__": metadata, **header}).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return [len(text).to_bytes(8, "little") + text, *data]


def decode(content: bytes) -> CacheContent:
    """Return the content of a file that :func:`encode` has written.

    Raises:
        DamagedFileError: It has not, or the content has changed since.
    """
    try:
        length = int.from_bytes(content[:8], "little")
        if not 0 < length <= len(content) - 8:
            raise ValueError("the header is missing")
        header = dict(json.loads(bytes(content[8 : 8 + length])))
        metadata = dict(header.pop("__metadata__", {}))
        if metadata.get("format") != FORMAT:
            raise ValueError(f"the format is not {FORMAT!r}")
        data = memoryview(content)[8 + length :]
        if metadata.pop("sha256") != _digest(header, metadata, [data]):
            raise ValueError("the digest does not match; the file is damaged")
        arrays = [_array(header[key], data) for key in header]
        return CacheContent(metadata, metadata["layers"], arrays)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedFileError(str(error)) from error


def restore(contents: Sequence[CacheContent], length: int) -> list[Any]:
    """Return the cache that files hold. To be called on the model thread.

    Args:
        contents: One file with a whole state, or files with consecutive ranges from the first token
            on.
        length: The number of tokens.

    Raises:
        ValueError: The files do not fit together.
    """
    first = contents[0]
    columns = list(zip(*(content.arrays for content in contents), strict=True))
    arrays: list[mx.array] = []
    for column in columns:
        joined = column[0][1]
        if len(column) > 1:
            joined = np.concatenate([array for _, array in column], axis=-2)
        dtype, _ = _DTYPES[column[0][0]]
        array = mx.array(joined)
        arrays.append(array if array.dtype == dtype else array.view(dtype))
    cache = [_layer(layer, arrays) for layer in json.loads(first.layers)]
    if is_by_token(cache):
        for layer in flat(cache):
            if layer.keys is not None:
                layer.offset = length
    return cache


def _description(layer: Any, arrays: list[mx.array]) -> dict[str, Any]:
    name = type(layer).__name__
    if isinstance(layer, CacheList):
        return {"class": name, "caches": [_description(inner, arrays) for inner in layer.caches]}
    state = layer.state
    if type(layer) in _BY_TOKEN and layer.keys is not None:
        # Without the buffer's unused end.
        state = _cut(state, layer.offset)
    return {"class": name, "state": _without_arrays(state, arrays)}


def _layer(description: dict[str, Any], arrays: Sequence[mx.array]) -> Any:
    if "caches" in description:
        return CacheList(*(_layer(inner, arrays) for inner in description["caches"]))
    kind = getattr(mlx_caches, description["class"])
    return kind.from_state(_with_arrays(description["state"], arrays))


def _cut(state: Any, length: int) -> Any:
    if isinstance(state, mx.array):
        return state if state.shape[-2] == length else state[..., :length, :]
    return [_cut(part, length) for part in state] if isinstance(state, list | tuple) else state


def _without_arrays(state: Any, arrays: list[mx.array]) -> Any:
    """Replace the arrays of a tree by references, and append them to ``arrays``."""
    if isinstance(state, mx.array):
        arrays.append(state)
        return {"array": len(arrays) - 1}
    if isinstance(state, list | tuple):
        return [_without_arrays(part, arrays) for part in state]
    return state


def _with_arrays(state: Any, arrays: Sequence[mx.array]) -> Any:
    if isinstance(state, dict):
        return arrays[state["array"]]
    return [_with_arrays(part, arrays) for part in state] if isinstance(state, list) else state


def _array(entry: dict[str, Any], data: memoryview) -> tuple[str, Array]:
    start, end = entry["data_offsets"]
    dtype = np.dtype(_DTYPES[entry["dtype"]][1])
    return entry["dtype"], np.frombuffer(data[start:end], dtype).reshape(entry["shape"])


def _digest(header: dict[str, Any], metadata: dict[str, str], data: Sequence[memoryview]) -> str:
    digest = hashlib.sha256(json.dumps([metadata, header], sort_keys=True).encode())
    for piece in data:
        digest.update(piece)
    return digest.hexdigest()
