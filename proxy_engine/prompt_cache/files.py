"""Prompt caches that a caller saves in files, and the identity of the model that they belong to."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx_lm
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten

from ..errors import InvalidOptionError, PromptCacheFileError, PromptCacheMismatchError
from .disk.files import SUFFIX
from .format import DamagedFileError, decode, encode, is_supported, restore, snapshot
from .store import TokenIds, token_array

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
        PromptCacheFileError: The cache has layers that are not mlx-lm's.
        OSError: The file cannot be written.
    """
    target = _checked(path)
    if not is_supported(cache):
        kinds = ", ".join({type(layer).__name__ for layer in cache})
        raise PromptCacheFileError(f"caches of type {kinds} cannot be saved", path=str(target))
    metadata = {
        "token_ids": " ".join(map(str, token_ids.tolist())),
        "facts": json.dumps(dict(facts), sort_keys=True),
    }
    handle, partial = tempfile.mkstemp(SUFFIX, f".{target.stem}.partial-", target.parent)
    try:
        with open(handle, "wb") as file:
            file.writelines(encode(snapshot(cache), metadata))
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
        The cache, one entry per layer, and the text that it holds.

    Raises:
        PromptCacheFileError: :func:`write_cache` has not written the file, or it is damaged.
        PromptCacheMismatchError: The file's facts differ from ``facts``.
        OSError: The file cannot be read.
    """
    target = _checked(path)
    try:
        content = decode(target.read_bytes())
        saved = json.loads(content.metadata["facts"])
        token_ids = token_array([int(text) for text in content.metadata["token_ids"].split()])
    except (DamagedFileError, KeyError) as error:
        what = f"{target} is not a prompt cache: {error}"
        raise PromptCacheFileError(what, path=str(target)) from error
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
    return restore([content], len(token_ids)), token_ids


def model_identity(model: Module) -> dict[str, str]:
    """Return the properties that two models must share for one to use the other's cache.

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
        "architecture": _digest([type(model).__module__, getattr(model, "args", None)]),
        "quantization": "; ".join(kinds) or _NOTHING,
        "adapter": _digest(adapters) if adapters else _NOTHING,
        "weights": _digest(_checksums(model)),
        "mlx_lm": mlx_lm.__version__,
    }


def _checked(path: str | os.PathLike[str]) -> Path:
    target = Path(path)
    if target.suffix != SUFFIX:
        raise InvalidOptionError(
            f"the name of a prompt cache must end in {SUFFIX}, not {target.name!r}",
            option="path",
        )
    return target


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


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _plain(value: Any) -> Any:
    """Represent an object by its type and attributes, without its address."""
    attributes = getattr(value, "__dict__", None)
    return {"": type(value).__qualname__, **(attributes or {})}
