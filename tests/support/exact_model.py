"""A model whose logits are functions, in whole numbers, of all tokens that its caches show it.

The result of a pass does not depend on its width, its other rows or its padding, not even in the
last bit, unless a cache shows a token too many, too few or at another position. So the answers of
requests that share passes can be compared exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import ArraysCache, KVCache, RotatingKVCache

_POSITIONS = 1 << 13
_ROWS = 1021


class ExactModel(Module):
    """A model that tends to repeat itself, as the last two tokens matter more than the others.

    Args:
        width: Width of the logits.
        likely: Tokens that are likely everywhere, such as those that end a string.
        kind: ``"plain"``; ``"sliding"``: its second layer sees the last tokens only;
            ``"recurrent"``: its second layer has a state in place of keys.
        window: Tokens that a sliding layer sees.
        dissent: How much the logits differ from those of the model with 0.
    """

    def __init__(
        self,
        width: int,
        likely: Sequence[int],
        *,
        kind: str = "plain",
        window: int = 48,
        dissent: float = 0.0,
    ) -> None:
        super().__init__()
        draw = np.random.default_rng(7)
        habits = draw.normal(0, 2.5, (_ROWS, width))
        habits[:, list(likely)] += 3.0
        thoughts = draw.normal(0, 1.0, (_ROWS, width))
        thoughts += dissent * np.random.default_rng(8).normal(0, 1.0, (_ROWS, width))
        self._factors = mx.array(draw.integers(1, 2**32, _POSITIONS, dtype=np.uint32))
        self._habits = mx.array(habits.astype(np.float32))
        self._thoughts = mx.array(thoughts.astype(np.float32))
        self.kind = kind
        self._window = window
        self.calls = 0
        """Passes so far."""

    @property
    def layers(self) -> list[None]:
        """Two layers."""
        return [None, None]

    def make_cache(self) -> list[Any]:
        """Return an empty cache."""
        second = {
            "plain": KVCache,
            "sliding": lambda: RotatingKVCache(max_size=self._window),
            "recurrent": lambda: ArraysCache(1),
        }[self.kind]
        return [KVCache(), second()]

    def __call__(self, inputs: mx.array, cache: Any = None) -> mx.array:
        """Return logits, shape (rows, tokens, vocabulary)."""
        self.calls += 1
        cache = self.make_cache() if cache is None else cache
        tokens = inputs.astype(mx.uint32) + 1
        offset = mx.array(cache[0].offset).reshape(-1, 1)
        positions = mx.broadcast_to(offset + mx.arange(inputs.shape[1]), inputs.shape)
        positions = positions.astype(mx.uint32)
        seen, previous = self._attend(tokens, positions, cache[0])
        if self.kind == "recurrent":
            more = self._recur(tokens, cache[1])
        else:
            more, _ = self._attend(tokens, positions, cache[1])
        habit = (previous * 331 + tokens) % _ROWS
        thought = (seen + more * 40503) % _ROWS
        return self._habits[habit] + self._thoughts[thought]

    def _attend(
        self, tokens: mx.array, positions: mx.array, layer: Any
    ) -> tuple[mx.array, mx.array]:
        """Return a hash of the visible tokens and their positions, and the previous token."""
        count = tokens.shape[1]
        mask = layer.make_mask(count, return_array=True, window_size=None)
        kept, places = layer.update_and_fetch(tokens[:, None, :, None], positions[:, None, :, None])
        kept, places = kept[:, 0, None, :, 0], places[:, 0, None, :, 0]
        visible = mx.ones((), mx.bool_) if mask is None else mask
        visible = visible[:, 0] if visible.ndim == 4 else visible
        hashed = mx.where(visible, kept * self._factors[places % _POSITIONS], 0).sum(-1)
        is_previous = visible & (places + 1 == positions[..., None])
        return hashed, mx.where(is_previous, kept, 0).sum(-1)

    def _recur(self, tokens: mx.array, layer: Any) -> mx.array:
        state = layer[0]
        if state is None:
            state = mx.zeros((tokens.shape[0], 1), mx.uint32)
        states = []
        for at in range(tokens.shape[1]):
            state = state * 2654435761 + tokens[:, at : at + 1]
            states.append(state)
        layer[0] = state
        return mx.concatenate(states, axis=1)
