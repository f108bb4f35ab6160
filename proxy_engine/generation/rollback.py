"""Going back to an earlier position of a prompt cache, for the tokens of a draft that are refused.

Most caches drop their last tokens. A rotating cache has lost older entries by then, but not if the
tokens came in one pass: such a pass keeps the entries that its first token attends to. A recurrent
state cannot be undone, so it is kept from before the pass, and the accepted tokens are processed
again together with the next ones. Arrays are immutable: keeping them costs a reference.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import RotatingKVCache

from ..prompt_cache.layers import flat
from ..replication import replicated
from .cache_layers import trim


class Rollback:
    """The state of the cache of one sequence before a pass.

    Use :meth:`before` to create it, run the pass, then call :meth:`keep` once.
    """

    def __init__(self, cache: list[Any], token_count: int) -> None:
        self._cache = cache
        self.token_count = token_count
        """The tokens of the pass."""
        self._states = {
            index: _state(layer)
            for index, layer in enumerate(flat(cache))
            if not _is_trimmable(layer, token_count)
        }

    @staticmethod
    @replicated(creates=True)
    def before(cache: list[Any], token_count: int) -> Rollback:
        """Return to the state of a cache before a pass with this.

        Args:
            cache: The cache of a single sequence. The pass may replace its layers by quantized
                ones.
            token_count: The tokens of the pass.
        """
        return Rollback(cache, token_count)

    @replicated()
    def keep(self, accepted: int) -> int:
        """Remove the tokens behind the accepted ones from the cache. The device is not waited for.

        Args:
            accepted: How many of the pass's tokens are kept, from the first one on.

        Returns:
            How many of them the cache holds now: ``accepted``, or 0 if it could only be restored to
            the state before the pass. The accepted tokens are to be processed again then.
        """
        count = self.token_count
        layers = list(flat(self._cache))
        if accepted == count:
            return accepted
        if not all(_keeps_pass(layers[index]) for index in self._states):
            accepted = 0
        for index, layer in enumerate(layers):
            if index not in self._states:
                trim([layer], count - accepted)
            elif accepted:
                _drop_last(layer, count - accepted)
            else:
                vars(layer).update(self._states[index])
        return accepted


def must_replay(cache: Sequence[Any]) -> bool:
    """Whether accepted tokens of a pass have to be processed again if others are refused."""
    return any(not (_is_trimmable(layer, 1) or _keeps_pass(layer)) for layer in flat(cache))


def _is_trimmable(layer: Any, count: int) -> bool:
    """Whether the last ``count`` tokens of the next pass can be trimmed again."""
    if isinstance(layer, RotatingKVCache):
        return bool(layer.offset + count < layer.max_size)
    return bool(layer.is_trimmable())


def _keeps_pass(layer: Any) -> bool:
    """Whether a cache that is not trimmable can drop all tokens of the last pass but the first."""
    return isinstance(layer, RotatingKVCache)


def _drop_last(layer: Any, count: int) -> None:
    """Remove the last ``count`` tokens of the last pass, which had more, from a rotating cache.

    A pass over several tokens leaves the entries in their order, and the ``max_size - 1`` entries
    before its first token.
    """
    layer.keys = layer.keys[..., :-count, :]
    layer.values = layer.values[..., :-count, :]
    layer.offset -= count
    layer._idx -= count


def _state(layer: Any) -> dict[str, Any]:
    return {name: _shared(value) for name, value in vars(layer).items()}


def _shared(value: Any) -> Any:
    """Copy containers, and arrays such that an assignment to a slice leaves the copy as it is."""
    if isinstance(value, list | tuple):
        return type(value)(_shared(one) for one in value)
    return copy.copy(value) if isinstance(value, mx.array) else value
