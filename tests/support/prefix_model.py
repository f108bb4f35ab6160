"""A model whose next token depends on the last tokens by a table.

It runs through the whole engine: it keeps the tokens in mlx-lm's KV cache, in place of keys, and
computes any batch correctly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import KVCache
from mlx_lm.tokenizer_utils import TokenizerWrapper

_UNLIKELY = -30.0
"""Logit of tokens to which the table gives no probability."""


class PrefixModel(Module):
    """A model that knows the last ``window`` tokens as far as they are symbols.

    Args:
        vocabulary_size: Width of the logits.
        symbols: Tokens that the model tells apart. All others, such as those of the prompt, begin a
            new text.
        window: Longest text that the model knows.
        probabilities: Returns the probability of next tokens, given the text since the last token
            that is no symbol, or its last ``window`` symbols. They need not add up to 1.
    """

    def __init__(
        self,
        vocabulary_size: int,
        symbols: Sequence[int],
        window: int,
        probabilities: Callable[[tuple[int, ...]], Mapping[int, float]],
    ) -> None:
        super().__init__()
        self._base = len(symbols) + 1
        self._window = window
        table = np.full((self._base**window, vocabulary_size), _UNLIKELY, np.float32)
        for length in range(window + 1):
            for text in product(range(1, self._base), repeat=length):
                tokens = tuple(symbols[digit - 1] for digit in text)
                row = self._rows(text)
                for token_id, probability in probabilities(tokens).items():
                    if probability > 0:
                        table[row, token_id] = np.log(probability)
        digits = np.zeros(vocabulary_size, np.int32)
        digits[list(symbols)] = np.arange(1, self._base)
        self.table = mx.array(table)
        self._digits = mx.array(digits)

    @property
    def layers(self) -> list[None]:
        """One layer."""
        return [None]

    def make_cache(self) -> list[Any]:
        """Return an empty cache."""
        return [KVCache()]

    def __call__(self, inputs: mx.array, cache: Any = None) -> mx.array:
        """Return logits, shape (rows, tokens, vocabulary)."""
        layer = KVCache() if cache is None else cache[0]
        count = inputs.shape[1]
        mask = layer.make_mask(count, return_array=True, window_size=None)
        digits = self._digits[inputs][:, None, :, None]
        kept, _ = layer.update_and_fetch(digits, digits)
        known = kept[:, 0, :, 0]
        length = known.shape[1]
        if mask is None:
            mask = mx.ones((count, length), mx.bool_)
        mask = mx.broadcast_to(mask, (inputs.shape[0], 1, count, length))[:, 0]
        ends = mx.arange(length - count, length)
        row = mx.zeros(inputs.shape, mx.int32)
        is_text = mx.ones(inputs.shape, mx.bool_)
        for distance in range(self._window):
            columns = mx.maximum(ends - distance, 0)
            is_visible = mx.take_along_axis(
                mask, mx.broadcast_to(columns[None, :, None], (*inputs.shape, 1)), axis=2
            )[..., 0]
            digit = mx.where(is_visible & (ends >= distance), known[:, columns], 0)
            is_text = is_text & (digit > 0)
            row = row + mx.where(is_text, digit, 0) * self._base**distance
        return self.table[row]

    def _rows(self, text: Sequence[int]) -> int:
        """Return the row of a text, given as digits: the last digit is the lowest."""
        return sum(digit * self._base**place for place, digit in enumerate(reversed(text)))


def ids_of(tokenizer: TokenizerWrapper, *tokens: str) -> list[int]:
    """Return the ids of tokens."""
    return [int(tokenizer.convert_tokens_to_ids(token)) for token in tokens]


def words_model(tokenizer: TokenizerWrapper, seed: int, concentration: float) -> PrefixModel:
    """Return a model with random probabilities that depend on the last three tokens."""
    symbols = ids_of(tokenizer, "a", "b", "c", "ab", "abc", "1", "2", "12", ":")
    likely = [*symbols, int(tokenizer.eos_token_id), *ids_of(tokenizer, "x")]

    def probabilities(text: tuple[int, ...]) -> dict[int, float]:
        drawn = np.random.default_rng([seed, *text])
        return dict(zip(likely, drawn.dirichlet(np.full(len(likely), concentration)), strict=True))

    return PrefixModel(320, symbols, 3, probabilities)
