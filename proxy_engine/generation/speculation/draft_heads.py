"""The interface of draft heads: a few layers that read hidden states of the target.

A pass of the target returns its hidden states beside the logits. A head reads the states of
accepted tokens. It can begin at any position of a text: unread states lower the acceptance rate,
and change no answer.

A *chain* predicts the token behind the next one: at position ``i``, it reads the state of token
``i`` and token ``i + 1`` (DeepSeek-V3's multi-token prediction; EAGLE, Li et al. 2024). Behind the
last state of the target it continues with its own states, which are trimmed after the draft. A
chain without a cache attends to the keys and values of the target (the assistants of Gemma 4). A
*block* predicts several tokens in one pass, whose inputs are masks (DFlash); its logits may depend
on the token before (DSpark).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx


@dataclass(frozen=True, slots=True)
class HeadOutput:
    """The output of a head's layers, not evaluated.

    Attributes:
        features: The inputs of its output layer, shape (rows, tokens, width).
        states: The states with which a chain continues, shape (rows, tokens, width).
    """

    features: mx.array
    states: mx.array

    def at(self, row: int, column: int) -> HeadOutput:
        """Return the output at one position, with the shapes (1, 1, width)."""
        place = slice(row, row + 1), slice(column, column + 1)
        return HeadOutput(self.features[place], self.states[place])


class DraftHead(Protocol):
    """A head. Its layers are called with the caches of :meth:`make_cache`.

    Attributes:
        state_layers: Layers of the target whose outputs it reads, concatenated; none: the input of
            the output layer.
        reads_target: Whether it attends to the keys and values of the target, and has no cache. Its
            position is that of the target's last token.
        mask_id: The token at the positions that a block predicts; ``None``: the head is a chain.
        block_size: Tokens of a block, with the known one.
        first_prediction: The position of a block's first prediction behind the last known token: 0
            if that position itself predicts the next token, else 1.
    """

    state_layers: Sequence[int]
    reads_target: bool
    mask_id: int | None
    block_size: int
    first_prediction: int

    def make_cache(self) -> list[Any]:
        """Return an empty cache of mlx-lm's classes."""

    def read(
        self, tokens: mx.array, states: mx.array, cache: list[Any], positions: mx.array | int
    ) -> HeadOutput:
        """Read states.

        Args:
            tokens: Of a chain, the token behind each state, shape (rows, tokens). Of a block, its
                tokens.
            states: Shape (rows, tokens, width of the states).
            cache: The cache, to which the states are appended; if the head reads the target's, the
                keys and values of one row, a :class:`PrefixLayer` for each layer.
            positions: The position of the first state, or that of each row.

        Returns:
            Of a chain, one for each state. Of a block, one for each of its tokens.
        """

    def logits(self, features: mx.array) -> mx.array:
        """Return logits of the target's tokens, shape (rows, tokens, vocabulary)."""

    def logits_after(self, token_id: int, features: mx.array, logits: mx.array) -> mx.array:
        """Return the logits of one position of a block, once the token before it is known.

        Args:
            token_id: The token.
            features: Those of the position, shape (1, width).
            logits: Its logits, shape (1, vocabulary).
        """
