"""Prompt caches on disk, in mlx-lm's own format.

``mlx_lm.models.cache.save_prompt_cache`` writes the file and ``load_prompt_cache`` reads it. The
metadata states the model and a digest of the whole file, computed with zeros in the digest's place.
The digest is checked first: MLX reads arrays lazily, on threads where an error aborts the process,
so a truncated file has to be detected before.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO, cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten
from mlx_lm.models import cache as mlx_caches
from mlx_lm.models.cache import load_prompt_cache, save_prompt_cache

from ..errors import InvalidOptionError, PromptCacheFileError, PromptCacheMismatchError
from .disk.files import SUFFIX
from .layers import evaluate
from .store import TokenIds, token_array

_FORMAT = "proxy_engine.prompt_cache 1"
# mlx-lm prefixes metadata with an index; the caller's metadata has index 0.
_PREFIX = "0."
_NO_DIGEST = "0" * 64
_MAX_HEADER_BYTES = 100_000_000
_BLOCK_BYTES = 1 << 20
_NOTHING = "none"
_UNSIGNED = {1: mx.uint8, 2: mx.uint16, 4: mx.uint32, 8: mx.uint32}


def write_cache(
    path: str | os.PathLike[str],
    cache: Sequence[Any],
    token_ids: TokenIds,
    facts: Mapping[str, str],
) -> None:
    """Write a cache to a file, atomically.

    Args:
        path: The file; its name ends in ``.safetensors``.
        cache: The cache, one entry per layer.
        token_ids: The text that the cache holds.
        facts: Properties that a model must share to use the cache.

    Raises:
        InvalidOptionError: The name does not end in ``.safetensors``.
        PromptCacheFileError: mlx-lm cannot save caches of this type.
        OSError: The file cannot be written.
    """
    target = _checked(path)
    for layer in cache:
        # mlx-lm looks up the class by its name in that module.
        if getattr(mlx_caches, type(layer).__name__, None) is not type(layer):
            raise PromptCacheFileError(
                f"mlx-lm cannot save caches of type {type(layer).__name__}", path=str(target)
            )
    metadata = {
        "format": _FORMAT,
        "sha256": _NO_DIGEST,
        "token_ids": " ".join(map(str, token_ids.tolist())),
        "facts": json.dumps(dict(facts), sort_keys=True),
    }
    handle, partial = tempfile.mkstemp(SUFFIX, f".{target.stem}.partial-", target.parent)
    os.close(handle)
    try:
        save_prompt_cache(partial, list(cache), metadata)
        with open(partial, "r+b") as file:
            header = _header(file)
            digest = _digest(file, header, _NO_DIGEST)
            file.seek(header.index(_NO_DIGEST.encode()))
            file.write(digest.encode())
        os.chmod(partial, 0o644)
        os.replace(partial, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)
        raise


def read_cache(
    path: str | os.PathLike[str], facts: Mapping[str, str]
) -> tuple[list[Any], TokenIds]:
    """Read a cache from a file. To be called on the thread that will use it.

    Args:
        path: The file.
        facts: Properties of the model in memory.

    Returns:
        The evaluated cache, one entry per layer, and the text that it holds.

    Raises:
        PromptCacheFileError: :func:`write_cache` has not written the file, or it is damaged.
        PromptCacheMismatchError: The file's facts differ from ``facts``.
        OSError: The file cannot be read.
    """
    target = _checked(path)
    with target.open("rb") as file:
        try:
            header = _header(file)
            entries = json.loads(header[8:]).get("__metadata__", {})
            metadata = {key.removeprefix(_PREFIX): value for key, value in entries.items()}
            if metadata.get("format") != _FORMAT:
                raise ValueError(f"the format is not {_FORMAT!r}")
            if _digest(file, header, metadata["sha256"]) != metadata["sha256"]:
                raise ValueError("the digest does not match; the file is damaged")
            saved = json.loads(metadata["facts"])
            token_ids = token_array([int(text) for text in metadata["token_ids"].split()])
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise PromptCacheFileError(
                f"{target} is not a prompt cache: {error}", path=str(target)
            ) from error
    differs = {
        name: (str(saved.get(name)), here)
        for name, here in facts.items()
        if saved.get(name) != here
    }
    if differs:
        shown = (f"{name} {there}, here {here}" for name, (there, here) in differs.items())
        raise PromptCacheMismatchError(
            f"{target} was saved with another model or other options: {'; '.join(shown)}",
            path=str(target),
            differs=differs,
        )
    try:
        cache = load_prompt_cache(str(target))
        evaluate(cache)
    except Exception as error:
        # mlx-lm's reader raises errors of any type for an invalid file.
        raise PromptCacheFileError(f"{target} cannot be read: {error}", path=str(target)) from error
    return cache, token_ids


def _checked(path: str | os.PathLike[str]) -> Path:
    target = Path(path)
    if target.suffix != SUFFIX:
        raise InvalidOptionError(
            f"the name of a prompt cache must end in {SUFFIX}, not {target.name!r}",
            option="path",
        )
    return target


def _header(file: BinaryIO) -> bytes:
    """Return the header of a safetensors file, with the eight bytes of its length."""
    start = file.read(8)
    return start + file.read(min(int.from_bytes(start, "little"), _MAX_HEADER_BYTES))


def _digest(file: BinaryIO, header: bytes, digest: str) -> str:
    """Return the correct digest of a file whose ``header`` has been read.

    Args:
        file: The file.
        header: Its header.
        digest: The digest that the header states.
    """
    result = hashlib.sha256(header.replace(digest.encode(), _NO_DIGEST.encode(), 1))
    while block := file.read(_BLOCK_BYTES):
        result.update(block)
    return result.hexdigest()


def model_identity(model: Module) -> dict[str, str]:
    """Return the properties of a model on which its caches depend.

    Reads all weights once. To be called on the thread that runs the model.

    Returns:
        ``architecture``, a digest of the model type and its arguments; ``quantization``, the number
        of quantized modules by bits, group size and mode; ``adapter``, a digest of the low-rank
        adapters and their scales; ``weights``, a checksum of all weights, which detects
        fine-tuning, not forgery; ``mlx_lm``, the version that defines the format of a saved cache.
    """
    adapters = {}
    packings: Counter[str] = Counter()
    for name, module in model.named_modules():
        if any(key.startswith("lora_") for key in module):
            adapters[name] = [type(module).__qualname__, getattr(module, "scale", None)]
        if hasattr(module, "bits"):
            mode = getattr(module, "mode", "affine")
            packings[f"{module.bits} bits in groups of {module.group_size}, {mode}"] += 1
    kinds = (f"{kind}: {count} modules" for kind, count in sorted(packings.items()))
    return {
        "architecture": _digest_of([type(model).__module__, getattr(model, "args", None)]),
        "quantization": "; ".join(kinds) or _NOTHING,
        "adapter": _digest_of(adapters) if adapters else _NOTHING,
        "weights": _digest_of(_checksums(model)),
        "mlx_lm": metadata.version("mlx-lm"),
    }


def _checksums(model: Module) -> dict[str, Any]:
    """Return shape, dtype and two sums of each array's bits, the second weighted by column."""
    found: dict[str, Any] = {}
    for name, array in cast("list[tuple[str, Any]]", tree_flatten(model)):
        if not isinstance(array, mx.array):
            continue
        facts: list[Any] = [list(array.shape), str(array.dtype)]
        if array.size:
            rows = array.reshape(-1, array.shape[-1] if array.ndim else 1)
            bits = rows if rows.dtype == mx.bool_ else rows.view(_UNSIGNED[rows.itemsize])
            columns = mx.sum(bits, axis=0).astype(mx.uint32)
            weights = mx.arange(1, columns.size + 1, dtype=mx.uint32)
            # tolist() evaluates here, so that one array at a time is in use.
            facts.append(mx.stack([mx.sum(columns), mx.sum(columns * weights)]).tolist())
        found[name] = facts
    return found


def _digest_of(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _plain(value: Any) -> Any:
    """Represent an object by its type and attributes, without its address."""
    attributes = getattr(value, "__dict__", None)
    return {"": type(value).__qualname__, **(attributes or {})}
