"""Caches as files: mlx-lm's own format, with what must be equal for a cache to be of use.

The file is what ``mlx_lm.models.cache.save_prompt_cache`` writes, and its ``load_prompt_cache``
reads it. Among the metadata stands a digest of the whole file, taken with zeros in its place: MLX
reads arrays when they are needed, on threads where an error ends the process, so a file that was
cut short must be found out before.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from mlx_lm.models import cache as mlx_caches
from mlx_lm.models.cache import load_prompt_cache, save_prompt_cache

from ..errors import InvalidOptionError, PromptCacheFileError, PromptCacheMismatchError
from .layers import evaluate
from .store import TokenIds, token_array

__all__ = ["SUFFIX", "read_cache", "write_cache"]

SUFFIX = ".safetensors"
"""Ends the names of cache files; MLX tells the format by it."""

_FORMAT = "proxy_engine.prompt_cache 1"
# mlx-lm numbers its lists; the caller's metadata is the first of them.
_PREFIX = "0."
_NO_DIGEST = "0" * 64
_MAX_HEADER = 100_000_000
_BLOCK = 1 << 20


def write_cache(
    path: str | os.PathLike[str],
    layers: Sequence[Any],
    token_ids: TokenIds,
    facts: Mapping[str, str],
) -> None:
    """Write the caches of a text's layers. The file takes its name in one step.

    ``facts`` are what a model must agree in to use it. Raises ``InvalidOptionError`` for a name
    that does not end in ``.safetensors``, ``PromptCacheFileError`` for caches that mlx-lm cannot
    write, :class:`OSError` where there is no place for the file.
    """
    target = _checked(path)
    for layer in layers:
        # Read by their names out of that module.
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
        save_prompt_cache(partial, list(layers), metadata)
        with open(partial, "r+b") as file:
            place, digest = _digest(file)
            file.seek(place)
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
    """Return the layers of a file, evaluated, and the text that they have read.

    To be called on the thread that will use them. Raises ``PromptCacheFileError`` for a file that
    :func:`write_cache` has not written or that is damaged, ``PromptCacheMismatchError`` for one
    whose facts differ from ``facts``, :class:`OSError` where there is none.
    """
    target = _checked(path)
    with target.open("rb") as file:
        try:
            metadata = _metadata(file)
            if metadata.get("format") != _FORMAT:
                raise ValueError(f"its format is not {_FORMAT!r}")
            if _digest(file)[1] != metadata["sha256"]:
                raise ValueError("it is damaged")
            saved = dict(json.loads(metadata["facts"]))
            token_ids = token_array([int(text) for text in metadata["token_ids"].split()])
        except (ValueError, LookupError, ArithmeticError, TypeError, AttributeError) as error:
            raise PromptCacheFileError(
                f"{target} is no prompt cache: {error}", path=str(target)
            ) from error
    differs = {
        name: (str(saved.get(name)), own) for name, own in facts.items() if saved.get(name) != own
    }
    if differs:
        raise PromptCacheMismatchError(
            f"{target} is the cache of another model or of other options: "
            + "; ".join(f"{name} {theirs}, here {own}" for name, (theirs, own) in differs.items()),
            path=str(target),
            differs=differs,
        )
    try:
        layers = load_prompt_cache(str(target))
        evaluate(layers)
    except Exception as error:
        # Whatever a reader can make of a foreign file.
        raise PromptCacheFileError(f"{target} cannot be read: {error}", path=str(target)) from error
    return layers, token_ids


def _checked(path: str | os.PathLike[str]) -> Path:
    target = Path(path)
    if target.suffix != SUFFIX:
        raise InvalidOptionError(
            f"the name of a prompt cache ends in {SUFFIX}, that of {str(target)!r} does not",
            option="path",
        )
    return target


def _header(file: BinaryIO) -> bytes:
    """The header's length in eight bytes, and the header."""
    room = os.fstat(file.fileno()).st_size - 8
    file.seek(0)
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if not 0 < length <= min(room, _MAX_HEADER):
        raise ValueError("it has no header")
    return start + file.read(length)


def _metadata(file: BinaryIO) -> dict[str, str]:
    try:
        found = dict(json.loads(_header(file)[8:]).get("__metadata__", {})).items()
    except RecursionError as error:
        raise ValueError("its header is nested too deeply") from error
    return {key.removeprefix(_PREFIX): value for key, value in found if key.startswith(_PREFIX)}


def _digest(file: BinaryIO) -> tuple[int, str]:
    """Where the digest stands, and what it should be."""
    header = _header(file)
    place = header.index(b'"', header.index(f'"{_PREFIX}sha256":'.encode()) + 11) + 1
    digest = hashlib.sha256(header[:place] + _NO_DIGEST.encode() + header[place + 64 :])
    while block := file.read(_BLOCK):
        digest.update(block)
    return place, digest.hexdigest()
