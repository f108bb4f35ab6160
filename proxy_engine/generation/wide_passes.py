"""Checks that a model computes the same logits in passes over several tokens as in passes over one.

Some of mlx-lm's models do not: ``phi3small`` lets the tokens of a pass attend to later ones, and
``plamo3`` attends to one token more than its rotating cache keeps. With such a model, drafts would
change the answer.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, cast

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten
from mlx_lm.models.cache import RotatingKVCache

from ..prompt_cache.layers import flat
from ..replication import replicated
from .rollback import Rollback

_log = logging.getLogger(__name__)

_TOKENS = 3
_MAX_ERROR = 1e-4
_MAX_ERROR_OF_HALVES = 0.1
"""Largest difference of logits, relative to their standard deviation: in float32 on a CPU, and with
numbers of 16 bits or on a GPU, which rounds the factors of products of matrices."""


class WidePasses:
    """Whether passes over several tokens are right, determined where a draft needs it first.

    It is determined once for texts within the window of rotating caches, and once for longer ones.
    The caches of requests are used, since a check beyond the window would otherwise need
    a prefill of that length. To be used on the thread that runs the model.

    Args:
        model: The model.
    """

    def __init__(self, model: Module) -> None:
        self._model = model
        self._is_right: dict[bool, bool] = {}

    def are_wrong(self, cache: Sequence[Any]) -> bool:
        """Whether a check has found that passes over several tokens behind this cache are wrong."""
        if all(self._is_right.values()):
            return False
        return not self._is_right.get(_is_beyond_window(cache, 0), True)

    def are_right(self, cache: list[Any], token_ids: Sequence[int]) -> bool:
        """Return whether a pass over some tokens is right, after a check if that is unknown.

        A check takes four passes.

        Args:
            cache: The cache before the pass. A check restores it.
            token_ids: The tokens, at least one, the same for all rows of a batch cache.
        """
        is_beyond = _is_beyond_window(cache, 0)
        if not is_beyond and _is_beyond_window(cache, len(token_ids)):
            # The pass crosses the end of the window, where a check finds nothing yet.
            return self._is_right.get(True, False)
        if is_beyond not in self._is_right:
            self._is_right[is_beyond] = self._check(cache, (list(token_ids) * _TOKENS)[:_TOKENS])
        return self._is_right[is_beyond]

    def _check(self, cache: list[Any], token_ids: Sequence[int]) -> bool:
        error = _wide_pass_error(self._model, cache, token_ids)
        is_right = error <= self._max_error
        if not is_right:
            _log.info(
                "this model does not draft: passes over several tokens give logits that differ by "
                "%.3g of their standard deviation",
                error,
            )
        return is_right

    @property
    def _max_error(self) -> float:
        leaves = cast("list[tuple[str, Any]]", tree_flatten(self._model.parameters()))
        types = {array.dtype for _, array in leaves}
        is_exact = types == {mx.float32} and mx.default_device().type == mx.DeviceType.cpu
        return _MAX_ERROR if is_exact else _MAX_ERROR_OF_HALVES


@replicated()
def _wide_pass_error(model: Module, cache: list[Any], token_ids: Sequence[int]) -> float:
    """Return how much the logits of one pass over some tokens differ from those of single passes.

    The cache is restored.
    """
    rows = next((layer.left_padding.size for layer in cache if _is_merged(layer)), 1)
    tokens = mx.array([list(token_ids)] * rows)
    return _error(_run(model, cache, tokens, 1), _run(model, cache, tokens, _TOKENS))


def _run(model: Module, cache: list[Any], tokens: mx.array, passes: int) -> npt.NDArray[np.float32]:
    """Return the logits of the first row behind each token, and restore the cache."""
    rollback = Rollback.before(cache, tokens.shape[1])
    found = [model(part, cache=cache)[0] for part in mx.split(tokens, passes, axis=1)]
    logits = np.array(mx.concatenate(found).astype(mx.float32))
    rollback.keep(0)
    return logits


def _is_beyond_window(cache: Sequence[Any], count: int) -> bool:
    """Whether a rotating cache drops entries with ``count`` more tokens."""
    return any(
        isinstance(layer, RotatingKVCache) and layer.offset + count >= layer.max_size
        for layer in flat(cache)
    )


def _is_merged(layer: Any) -> bool:
    return getattr(layer, "left_padding", None) is not None


def _error(wide: npt.NDArray[np.float32], narrow: npt.NDArray[np.float32]) -> float:
    """Return the median difference of the tokens.

    A wrong pass may be right for the first or the last token. A mixture of experts may choose
    another expert for one token because of rounding.
    """
    is_finite = np.isfinite(wide) & np.isfinite(narrow)
    wide, narrow = np.where(is_finite, wide, 0), np.where(is_finite, narrow, 0)
    differences = np.sqrt(((wide - narrow) ** 2).mean(axis=-1))
    return float(np.median(differences / np.maximum(narrow.std(axis=-1), 1e-9)))
