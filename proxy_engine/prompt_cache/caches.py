"""The caches of one engine's model: begun with for every request, kept at its end."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.generate import maybe_quantize_kv_cache
from mlx_lm.models.cache import KVCache, QuantizedKVCache, RotatingKVCache, make_prompt_cache

from ..errors import InvalidOptionError, PromptCacheFileError
from .files import read_cache, write_cache
from .identity import ModelIdentity
from .layers import can_be_cut, copied, cut, evaluate, lengths, longest_to_cut
from .options import CacheOptions
from .store import Entry, Store, TokenIds, token_array

__all__ = ["PromptCaches", "Started"]

_log = logging.getLogger(__name__)

# A checkpoint of a recurrent state takes the same memory for a few tokens as for thousands.
_LEAST_CHECKPOINT = 16

# As in mlx-lm: the first tokens of a text, which much attention goes to.
_KEPT_OF_ROTATING = 4


@dataclass(frozen=True, slots=True)
class Started:
    """The cache that a request goes on with, its own, and how many tokens of its prompt it has."""

    cache: list[Any]
    cached_tokens: int


class PromptCaches:
    """What a model has read, for requests that begin with the same.

    The text of a request is its prompt and what was generated. Where layers can be shortened, one
    entry a conversation serves for all of its prefixes; where they cannot (sliding windows that
    are full, recurrent states), an entry serves for the whole of its text only, and copies are
    kept on the way, at ``checkpoints``.

    Results differ from those of a prompt that is read anew as much as if it were read in other
    chunks: in the last bits. With ``kv_bits`` by more, for what is read anew is quantized later.

    A model whose weights or adapter are changed has to be told apart by ``clear``. All methods
    are for the thread that runs the model, but for ``checkpoints`` and ``cannot_be_cut_at``, which
    any thread may call.

    Raises ``InvalidOptionError`` for options that the model cannot follow.
    """

    def __init__(self, model: Module, options: CacheOptions | None = None) -> None:
        self._model = model
        self._options = options or CacheOptions()
        if self._options.kv_bits is not None:
            _check_quantization(model, self._options)
        self._store = Store(self._options.max_bytes)
        self._longest_to_cut = longest_to_cut(self._fresh())

    @property
    def options(self) -> CacheOptions:
        """The options it was made with."""
        return self._options

    @property
    def nbytes(self) -> int:
        """Bytes that are kept for later requests, ``options.max_bytes`` at most."""
        return self._store.nbytes

    def __len__(self) -> int:
        """How many texts are kept."""
        return len(self._store)

    def begin(self, prompt_ids: Sequence[int]) -> Started:
        """Return a cache that has read as much of a prompt as is known, but for its last token.

        That one has to be run, for its logits. The cache is the caller's.
        """
        found = self._store.find(token_array(prompt_ids)[:-1])
        if found is None:
            return Started(self._fresh(), 0)
        entry, length = found
        layers = copied(entry.layers)
        if entry.can_be_cut:
            cut(layers, length)
        return Started(layers, length)

    def known(self, prompt_ids: Sequence[int]) -> int:
        """Return how many tokens of a prompt :meth:`begin` would not have to read."""
        found = self._store.find(token_array(prompt_ids)[:-1])
        return 0 if found is None else found[1]

    def cannot_be_cut_at(self, length: int) -> bool:
        """Whether a text of that many tokens needs checkpoints. For any thread."""
        return self._options.max_bytes > 0 and length > self._longest_to_cut

    def checkpoints(
        self, prompt_ids: Sequence[int], boundaries: Iterable[int], *, max_tokens: int = 0
    ) -> tuple[int, ...]:
        """At which lengths of a prompt to call :meth:`checkpoint`, in ascending order.

        ``boundaries`` are lengths at which other prompts may part from it (see
        ``message_boundaries``); without any, it is all of the prompt but its last token, so that
        the same prompt need not be read twice. Of many, the first and the last are chosen.
        ``max_tokens`` is how long the answer may become. None, where the cache can still be
        shortened after the longest answer. For any thread.
        """
        most = self._options.max_checkpoints
        if not most or not self.cannot_be_cut_at(len(prompt_ids) + max_tokens):
            return ()
        last = len(prompt_ids) - 1
        worth = sorted({b for b in boundaries if _LEAST_CHECKPOINT <= b <= last})
        if not worth:
            return (last,) if last >= _LEAST_CHECKPOINT else ()
        if len(worth) > most > 1:
            return (worth[0], *worth[1 - most :])
        return tuple(worth[-most:])

    def quantize(self, cache: list[Any]) -> None:
        """Quantize the layers that are long enough, in place, where ``kv_bits`` asks for it.

        To be called after every forward pass, as mlx-lm does; it may replace layers.
        """
        maybe_quantize_kv_cache(
            cache,
            quantized_kv_start=self._options.quantized_kv_start,
            kv_group_size=self._options.kv_group_size,
            kv_bits=self._options.kv_bits,
        )

    def checkpoint(self, token_ids: Sequence[int], cache: Sequence[Any]) -> None:
        """Keep a copy of a cache that goes on to be used; it has read exactly ``token_ids``."""
        ids = token_array(token_ids)
        if not self._store.covers(ids):
            self._keep(ids, copied(cache))

    def share(self, token_ids: Sequence[int], cache: Sequence[Any]) -> None:
        """``checkpoint`` of a text that goes on, for others that begin like it.

        Only where the layers serve for every prefix of it; elsewhere there are checkpoints.
        """
        if self._options.max_bytes and can_be_cut(cache):
            self.checkpoint(token_ids, cache)

    def keep(self, token_ids: Sequence[int], cache: list[Any], *, run: int | None = None) -> int:
        """Keep the cache of a request that has ended, or was cancelled at any token.

        ``token_ids`` are prompt and answer as far as they are known, ``run`` how many tokens were
        fed to the model: often all but the last, which was only chosen. Where more were fed than
        are known, or fewer than that by what the layers count, the cache is cut to what is
        certain; it is given up where that cannot be done. ``None``: as many as the layers count;
        recurrent layers do not, and are taken to have read all of ``token_ids``. After a forward
        pass that raised, recurrent layers may be at odds without anyone knowing: do not call it.

        The cache is not the caller's any more. Returns how many tokens are kept; 0 also where they
        exceed the bound. Raises nothing.
        """
        if not self._options.max_bytes:
            return 0
        ids = token_array(token_ids)
        read = lengths(cache)
        if run is not None:
            read.add(run)
        ids = ids[: min(read, default=len(ids))]
        if any(length > len(ids) for length in read):
            if not can_be_cut(cache):
                return 0
            cut(cache, len(ids))
        return self._keep(ids, cache)

    def clear(self) -> None:
        """Forget everything."""
        self._store.clear()

    def save(self, path: str | os.PathLike[str], token_ids: Sequence[int]) -> int:
        """Write what is kept of a text's beginning to a file; return how many tokens that is.

        Raises ``PromptCacheFileError`` where nothing of it is kept, or mlx-lm cannot save such
        caches; ``InvalidOptionError`` for a name that does not end in ``.safetensors``;
        :class:`OSError`.
        """
        found = self._store.find(token_array(token_ids))
        if found is None:
            raise PromptCacheFileError(
                "nothing of this prompt is kept",
                path=os.fspath(path),
                hint="Generate with it first; what is kept is bounded by max_bytes.",
            )
        entry, length = found
        layers = copied(entry.layers)
        if entry.can_be_cut:
            cut(layers, length)
        evaluate(layers)
        write_cache(path, layers, entry.token_ids[:length], self._facts())
        return length

    def load(self, path: str | os.PathLike[str]) -> int:
        """Keep what a file holds, for the requests that begin with it; return its tokens' number.

        Raises ``PromptCacheFileError`` for a file that is none of ours or is damaged, and where
        it exceeds ``max_bytes``; ``PromptCacheMismatchError`` where it was saved with another
        model, adapter, quantization, version of mlx-lm or other options; :class:`OSError`.
        """
        layers, ids = read_cache(path, self._facts())
        own = [type(layer) for layer in self._fresh()]
        fits = [type(layer) for layer in layers if not isinstance(layer, QuantizedKVCache)]
        is_whole = len(layers) == len(own) and all(kind in own for kind in fits)
        if not is_whole or lengths(layers) - {len(ids)} or not len(ids):
            raise PromptCacheFileError(
                f"{os.fspath(path)} is no cache of such a model", path=os.fspath(path)
            )
        entry = Entry.of(ids, layers)
        if entry.nbytes > self._options.max_bytes:
            raise PromptCacheFileError(
                f"{os.fspath(path)} takes {entry.nbytes} bytes, more than may be kept",
                path=os.fspath(path),
                hint="Raise max_bytes.",
            )
        self._store.add(entry)
        return len(ids)

    def _fresh(self) -> list[Any]:
        return _fresh_layers(self._model, self._options.max_kv_size)

    def _keep(self, ids: TokenIds, layers: list[Any]) -> int:
        try:
            # A request's last forward pass may still be running, and its answer is ready.
            evaluate(layers, wait=False)
            kept = len(ids) > 0 and self._store.add(Entry.of(ids, layers))
        except (RuntimeError, ValueError, MemoryError) as error:
            # A request that failed leaves arrays that fail again when they are computed.
            _log.warning("the cache of a request is given up: %s", error)
            return 0
        return len(ids) if kept else 0

    def _facts(self) -> dict[str, str]:
        options = self._options
        kept_as = "as computed"
        if options.kv_bits is not None:
            kept_as = f"{options.kv_bits} bits in groups of {options.kv_group_size}"
        return {
            **ModelIdentity.of(self._model).to_dict(),
            "max_kv_size": str(options.max_kv_size),
            "kv": kept_as,
        }


def _fresh_layers(model: Module, max_kv_size: int | None) -> list[Any]:
    """Caches that have read nothing.

    Of a model that makes its own, mlx-lm would ignore ``max_kv_size``; where these remember
    everything, it means the same as for the others. Raises ``InvalidOptionError``.
    """
    layers = list(make_prompt_cache(model))
    if max_kv_size is None:
        return layers
    if not all(type(layer) is KVCache for layer in layers):
        raise InvalidOptionError(
            "the model decides itself how much it remembers", option="max_kv_size"
        )
    return [RotatingKVCache(max_size=max_kv_size, keep=_KEPT_OF_ROTATING) for _ in layers]


def _check_quantization(model: Module, options: CacheOptions) -> None:
    """Raise for what mlx-lm would ignore, or fail with in the middle of a request."""
    layers = list(make_prompt_cache(model))
    token = mx.zeros((1, 1), dtype=mx.int32)
    try:
        # Only described, never evaluated.
        model(token, cache=layers)
        maybe_quantize_kv_cache(layers, 0, options.kv_group_size, options.kv_bits)
        model(token, cache=layers)
    except Exception as error:
        raise InvalidOptionError(
            f"the model's cache cannot be quantized so: {error}", option="kv_bits"
        ) from error
    if not any(isinstance(layer, QuantizedKVCache) for layer in layers):
        raise InvalidOptionError("the model's cache cannot be quantized", option="kv_bits")
