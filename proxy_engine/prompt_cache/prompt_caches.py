"""Prompt caching: each request starts from the cache of the longest known prefix of its prompt."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import KVCache, QuantizedKVCache, RotatingKVCache, make_prompt_cache

from ..errors import InvalidOptionError, PromptCacheFileError
from . import CacheOptions
from .files import model_identity, read_cache, write_cache
from .format import is_by_token
from .layers import (
    copy_cache,
    evaluate,
    is_trimmable,
    max_scorable_length,
    max_trimmable_length,
    quantize_cache,
    token_counts,
    trim_to,
)
from .store import Store, StoredPrompt, TokenIds, token_array

if TYPE_CHECKING:
    from .disk.disk_cache import DiskCache

_log = logging.getLogger(__name__)

# A checkpoint of a recurrent state has the same size for a few tokens as for thousands.
_MIN_CHECKPOINT_TOKENS = 16

# As in mlx-lm: the first tokens of a text, which receive much attention.
_ROTATING_KEEP = 4

_SECONDS_TO_CLOSE = 3.0
"""How long closing waits until the texts in memory are on disk."""


@dataclass(frozen=True, slots=True)
class FetchedCache:
    """A cache to start a request with.

    Attributes:
        cache: The request's own cache, one entry per layer.
        cached_tokens: How many tokens of the prompt it holds.
    """

    cache: list[Any]
    cached_tokens: int


class PromptCaches:
    """The prompt caches of one model, reused by requests that start with the same text.

    The text of a request is its prompt and the generated tokens. If its cache can be trimmed, one
    entry per conversation serves all prefixes. Full sliding windows and recurrent states cannot be
    trimmed: their entries serve the whole text only, and copies are inserted at checkpoints.

    Results differ from those of a fresh prefill in the last bits, as for another prefill step size.
    With ``kv_bits`` they differ more, since a fresh prefill is quantized later.

    All methods belong to the thread that runs the model, except ``checkpoint_lengths`` and
    ``needs_checkpoints``. After a change of the weights or the adapter, call ``clear``.

    Args:
        model: The model.
        options: Bounds and quantization.

    Attributes:
        options: The options.

    Raises:
        InvalidOptionError: The model's cache does not support the options.
    """

    def __init__(self, model: Module, options: CacheOptions | None = None) -> None:
        self._model = model
        self.options = options or CacheOptions()
        self._store = Store(self.options.max_bytes)
        self._disk: DiskCache | None = None
        fresh = self.fresh()
        self._max_trimmable_length = max_trimmable_length(fresh)
        self._max_scorable_length = max_scorable_length(fresh)
        if self.options.kv_bits is not None:
            _check_quantization(model, self.options)
            quantized = self.options.quantized_kv_start
            self._max_scorable_length = min(quantized, self._max_scorable_length)

    @property
    def nbytes(self) -> int:
        """Size of all cached texts in bytes, at most ``options.max_bytes``."""
        return self._store.nbytes

    def __len__(self) -> int:
        """Return the number of cached texts."""
        return len(self._store)

    def fetch(self, prompt_ids: Sequence[int] | TokenIds) -> FetchedCache:
        """Return a copy of the cache that holds the longest known prefix of a prompt.

        The prompt's last token is left out: it is processed for its logits. A longer prefix on disk
        is read, and becomes an entry.
        """
        ids = token_array(prompt_ids)[:-1]
        disk = self.open_disk()
        found = self._store.find(ids)
        stored = None if disk is None else self._read(disk, ids, 0 if found is None else found[1])
        found = stored or found
        if found is None:
            return FetchedCache(self.fresh(), 0)
        entry, length = found
        cache = entry.copy_prefix(length)
        if disk is not None and stored is None:
            disk.keep(ids[:length], cache)
        return FetchedCache(cache, length)

    def cached_tokens(self, prompt_ids: Sequence[int] | TokenIds) -> int:
        """Return how many tokens of a prompt :meth:`fetch` would provide."""
        found = self._store.find(token_array(prompt_ids)[:-1])
        return 0 if found is None else found[1]

    def check_scoring(self, length: int) -> None:
        """Raise if no finite choice behind a prompt can be scored. For any thread.

        Args:
            length: Tokens of the prompt.

        Raises:
            InvalidOptionError: The cache keeps no keys and values that options can share.
        """
        limit = self._max_scorable_length
        if length < limit:
            return
        hint = "Leave exact_choices out: choices are sampled token by token then."
        reason = "a layer of the model, or of its quantized cache, does not keep them"
        if limit:
            name = "max_kv_size" if self.options.kv_bits is None else "quantized_kv_start"
            reason = f"the prompt has {length} tokens, and {name} is {limit}"
            hint = f"{hint} Or increase {name}."
        raise InvalidOptionError(
            f"exact_choices needs the keys and values of all tokens, and {reason}",
            option="exact_choices",
            hint=hint,
        )

    def needs_checkpoints(self, length: int) -> bool:
        """Whether a text of ``length`` tokens is too long to be trimmed. For any thread."""
        return self.options.max_bytes > 0 and length > self._max_trimmable_length

    def checkpoint_lengths(
        self,
        prompt_ids: Sequence[int] | TokenIds,
        boundaries: Iterable[int],
        *,
        max_tokens: int = 0,
    ) -> tuple[int, ...]:
        """Return at which lengths of a prompt to insert a copy of its cache. For any thread.

        Args:
            prompt_ids: The prompt.
            boundaries: Lengths at which other prompts may diverge from it, see
                ``message_boundaries``. If there are too many, the first and the last are chosen. If
                there are none, it is the whole prompt but its last token, which serves a repeated
                prompt.
            max_tokens: Longest possible answer.

        Returns:
            Lengths in ascending order; none if the cache stays trimmable.
        """
        max_count = self.options.max_checkpoints
        if not max_count or not self.needs_checkpoints(len(prompt_ids) + max_tokens):
            return ()
        last = len(prompt_ids) - 1
        lengths = sorted({b for b in boundaries if _MIN_CHECKPOINT_TOKENS <= b <= last})
        if not lengths:
            return (last,) if last >= _MIN_CHECKPOINT_TOKENS else ()
        if len(lengths) > max_count > 1:
            return (lengths[0], *lengths[1 - max_count :])
        return tuple(lengths[-max_count:])

    def quantize(self, cache: list[Any]) -> None:
        """Quantize the layers that are long enough, in place, if ``kv_bits`` is set.

        To be called after every forward pass, as mlx-lm does. It may replace layers.
        """
        options = self.options
        _quantize(cache, options.quantized_kv_start, options.kv_group_size, options.kv_bits)

    def insert_copy(self, token_ids: Sequence[int] | TokenIds, cache: Sequence[Any]) -> None:
        """Insert a copy of a cache that stays in use. It holds exactly ``token_ids``."""
        ids = token_array(token_ids)
        if not self._store.covers(ids):
            self._insert(ids, copy_cache(cache))

    def share(self, token_ids: Sequence[int] | TokenIds, cache: Sequence[Any]) -> None:
        """Insert a copy of a running request's cache, for requests that start with the same text.

        Only trimmable caches are shared; the others have checkpoints.
        """
        if self.options.max_bytes and is_trimmable(cache):
            self.insert_copy(token_ids, cache)

    def insert(
        self, token_ids: Sequence[int] | TokenIds, cache: list[Any], *, processed: int | None = None
    ) -> int:
        """Insert the cache of a request that has ended or was cancelled. Raises nothing.

        The store takes over the cache. If the model has processed more tokens than are known, or if
        layers disagree, the cache is trimmed to the common part, or dropped if it cannot be
        trimmed. Do not call this after a forward pass that raised: the states of recurrent layers
        may then be inconsistent.

        Args:
            token_ids: Prompt and answer.
            cache: The request's cache.
            processed: Tokens that the model has processed, often all but the last. ``None``: as
                many as the layers count; recurrent layers are assumed to hold all of ``token_ids``.

        Returns:
            How many tokens are cached; 0 also if they exceed the bound.
        """
        if not self.options.max_bytes:
            return 0
        ids = token_array(token_ids)
        counts = token_counts(cache)
        if processed is not None:
            counts.add(processed)
        ids = ids[: min(counts, default=len(ids))]
        if any(count > len(ids) for count in counts):
            if not is_trimmable(cache):
                return 0
            trim_to(cache, len(ids))
        return self._insert(ids, cache)

    def clear(self) -> None:
        """Remove all cached texts of the model, also from the directory of ``options``."""
        self._store.clear()
        disk = self.open_disk()
        if disk is not None:
            disk.clear()
            disk.close()
        # The weights may have changed.
        self._disk = None

    def open_disk(self) -> DiskCache | None:
        """Return the caches on disk; ``None`` without a directory. Reads all weights once."""
        options = self.options
        if options.directory is not None and self._disk is None:
            # Deferred: few engines keep caches on disk.
            from .disk.disk_cache import DiskCache  # noqa: PLC0415

            self._disk = DiskCache(
                options.directory,
                self._facts(),
                options.max_disk_bytes,
                by_token=is_by_token(self.fresh()),
                fits=self._fits,
            )
        return self._disk

    def observe_prefill(self, tokens: int, seconds: float) -> None:
        """Take note of how long a pass over a prompt took, to compare it with reading files."""
        if self._disk is not None:
            self._disk.cost.observe_prefill(tokens, seconds)

    def close(self) -> None:
        """Write the texts in memory to disk, if there is a directory. Takes a few seconds."""
        if self._disk is not None:
            texts = [(entry.token_ids, entry.cache) for entry in self._store]
            self._disk.keep_all(texts, _SECONDS_TO_CLOSE)
            self._disk.close()

    def save(self, path: str | os.PathLike[str], token_ids: Sequence[int] | TokenIds) -> int:
        """Write the cache of the longest known prefix of a text to a file.

        Returns:
            The length of that prefix in tokens.

        Raises:
            PromptCacheFileError: No prefix is cached, or mlx-lm cannot save the cache's type.
            InvalidOptionError: The name does not end in ``.safetensors``.
            OSError: The file cannot be written.
        """
        found = self._store.find(token_array(token_ids))
        if found is None:
            raise PromptCacheFileError(
                "no prefix of this prompt is cached",
                path=os.fspath(path),
                hint="Generate with it first; the cache is bounded by max_bytes.",
            )
        entry, length = found
        cache = entry.copy_prefix(length)
        evaluate(cache)
        write_cache(path, cache, entry.token_ids[:length], self._facts())
        return length

    def load(self, path: str | os.PathLike[str]) -> int:
        """Insert the cache of a file that :meth:`save` has written.

        Returns:
            The length of its text in tokens.

        Raises:
            PromptCacheFileError: The file has another format, is damaged, or exceeds ``max_bytes``.
            PromptCacheMismatchError: It was saved with another model, adapter, quantization,
                version of mlx-lm or other options.
            OSError: The file cannot be read.
        """
        cache, ids = read_cache(path, self._facts())
        if not self._fits(cache, len(ids)):
            raise PromptCacheFileError(
                f"{os.fspath(path)} does not fit the model's cache", path=os.fspath(path)
            )
        entry = StoredPrompt.of(ids, cache)
        if entry.nbytes > self.options.max_bytes:
            raise PromptCacheFileError(
                f"{os.fspath(path)} takes {entry.nbytes} bytes, more than max_bytes",
                path=os.fspath(path),
                hint="Raise max_bytes.",
            )
        self._store.add(entry)
        return len(ids)

    def fresh(self) -> list[Any]:
        """Return an empty cache."""
        return _fresh_cache(self._model, self.options.max_kv_size)

    def _fits(self, cache: Sequence[Any], length: int) -> bool:
        """Whether a cache that was read fits the model, and has ``length`` tokens."""
        known = [type(layer) for layer in self.fresh()]
        types = [type(layer) for layer in cache if not isinstance(layer, QuantizedKVCache)]
        fits = len(cache) == len(known) and all(kind in known for kind in types)
        return fits and length > 0 and not token_counts(cache) - {length}

    def _read(self, disk: DiskCache, ids: TokenIds, above: int) -> tuple[StoredPrompt, int] | None:
        """Return the entry of a prefix longer than ``above`` on disk, and the prefix's length."""
        read = disk.find(ids, above=above, max_bytes=self.options.max_bytes)
        if read is None:
            return None
        cache, length = read
        entry = StoredPrompt.of(ids[:length], cache)
        self._store.add(entry)
        return entry, length

    def _insert(self, ids: TokenIds, cache: list[Any]) -> int:
        try:
            # Without waiting: the request's last forward pass may still run.
            evaluate(cache, False)
            added = len(ids) > 0 and self._store.add(StoredPrompt.of(ids, cache))
        except (RuntimeError, ValueError, MemoryError) as error:
            # The arrays of a request that failed raise again when they are evaluated.
            _log.warning("the cache of a request is dropped: %s", error)
            return 0
        return len(ids) if added else 0

    def _facts(self) -> dict[str, str]:
        """Return the properties of the model and the options that a cache's file states."""
        options = self.options
        quantized = f"{options.kv_bits} bits in groups of {options.kv_group_size}"
        return {
            **model_identity(self._model),
            "max_kv_size": str(options.max_kv_size),
            "kv": "as computed" if options.kv_bits is None else quantized,
        }


def _quantize(cache: list[Any], start: int, group_size: int, bits: int | None) -> None:
    quantize_cache(cache, start, group_size, bits)


def _fresh_cache(model: Module, max_kv_size: int | None) -> list[Any]:
    """Return an empty cache.

    mlx-lm ignores ``max_kv_size`` for models that make their own caches. If these are plain, it is
    applied here as well; otherwise ``InvalidOptionError`` is raised.
    """
    cache = list(make_prompt_cache(model))
    if max_kv_size is None:
        return cache
    if not all(type(layer) is KVCache for layer in cache):
        raise InvalidOptionError(
            "the model's architecture determines the size of its cache", option="max_kv_size"
        )
    return [RotatingKVCache(max_size=max_kv_size, keep=_ROTATING_KEEP) for _ in cache]


def _check_quantization(model: Module, options: CacheOptions) -> None:
    """Raise for options that mlx-lm would ignore, or fail with in the middle of a request."""
    cache = list(make_prompt_cache(model))
    token = mx.zeros((1, 1), dtype=mx.int32)
    try:
        # Lazy: the passes are never evaluated.
        model(token, cache=cache)
        quantize_cache(cache, 0, options.kv_group_size, options.kv_bits)
        model(token, cache=cache)
    except Exception as error:
        raise InvalidOptionError(
            f"the model's cache cannot be quantized with these options: {error}", option="kv_bits"
        ) from error
    if not any(isinstance(layer, QuantizedKVCache) for layer in cache):
        raise InvalidOptionError("the model's cache cannot be quantized", option="kv_bits")
