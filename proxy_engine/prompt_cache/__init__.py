"""Prompt caching: the caches of earlier prompts, reused by later requests.

Reading order: :class:`CacheOptions`, ``layers`` (operations on mlx-lm's caches), ``store`` (LRU by
prefix), ``prompt_caches`` (the cache of each request), ``format`` (caches as bytes), ``files``
(caches that a caller saves), ``disk`` (caches that processes share).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from ..checks import OptionModel, directory_path, privacy_problem
from ..errors import InvalidOptionError


class CacheOptions(OptionModel):
    """How keys and values are cached. The first four names are mlx-lm's. Immutable.

    Raises:
        InvalidOptionError: An option is unknown or its value is invalid.
    """

    # A rotating cache keeps the first four tokens and needs room for one more.
    max_kv_size: int | None = Field(default=None, ge=5)
    """Maximum number of tokens that a layer remembers: the first four of a text and the latest.
    Default: all tokens. Only for models without sliding windows and recurrent states, and not
    together with `kv_bits`."""
    # Supported by mlx.core.quantize.
    kv_bits: Literal[2, 3, 4, 5, 6, 8] | None = None
    """Bits of quantized keys and values. Default: no quantization."""
    kv_group_size: Literal[32, 64, 128] = 64
    """Number of quantized values that share a scale."""
    quantized_kv_start: int = Field(default=5000, ge=0)
    """Length of a text, in tokens, from which on it is quantized."""
    max_bytes: int = Field(default=2 << 30, ge=0)
    """Maximum size of the cached texts of earlier requests, in bytes. Running requests are not
    counted. 0 disables prompt caching."""
    max_checkpoints: int = Field(default=4, ge=0)
    """Maximum number of copies per prompt, if the model's cache cannot be trimmed (a sliding
    window, a recurrent state)."""
    directory: Path | None = None
    """Directory in which reused prefixes are kept for other processes and later ones. Processes
    of one user, with any models, can share it. It is refused if other users can write to it, since
    the files determine answers. Default: prompts are cached in memory only. The files hold data
    from which the texts of users can be derived."""
    max_disk_bytes: int = Field(default=16 << 30, ge=0)
    """Maximum size of all files in `directory`, of every model. The least recently used are
    removed."""

    @field_validator("kv_bits")
    @classmethod
    def _check_kv_bits(cls, kv_bits: int | None, info: ValidationInfo) -> int | None:
        if kv_bits is not None and info.data.get("max_kv_size") is not None:
            raise ValueError("should be None if max_kv_size is given")
        return kv_bits

    _as_path = field_validator("directory", mode="before")(directory_path)

    @field_validator("directory")
    @classmethod
    def _check_directory(cls, directory: Path | None, info: ValidationInfo) -> Path | None:
        if directory is not None and info.data.get("max_bytes") == 0:
            raise ValueError("requires prompt caching; raise max_bytes above 0")
        if directory is not None and (problem := privacy_problem(directory)):
            raise ValueError(problem)
        return directory

    def check_distributed(self) -> None:
        """Raise for options that a model on several machines does not support.

        Raises:
            InvalidOptionError: ``directory`` is given. Each rank has a shard of the cache.
        """
        if self.directory is not None:
            raise InvalidOptionError(
                "prompt caches on disk cannot be combined with a distributed model",
                option="directory",
            )
