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

from collections import deque
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


class HiddenStates:
    """Hidden states behind consecutive tokens of one text, which a head has not read.

    A state is valid if all tokens up to it are tokens of the text. Those of the last pass may be
    behind tokens on trial, which are refused later. Nothing is evaluated before they are read.

    Args:
        start: Index of the first token.

    Attributes:
        start: Index of the token behind which the first state is.
        end: Index behind the last token whose state is there.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        # Of each pass, shape (tokens, width).
        self._passes: deque[mx.array] = deque()
        self._trial_start = start
        self._trial: Sequence[int] = ()

    def add(self, start: int, states: mx.array, trial: Sequence[int]) -> None:
        """Add the states of a pass. The states of the last pass are settled by then.

        Args:
            start: Index of the pass's first token. Tokens before ``end`` were processed again, and
                have their states already. If it is ``end + 1``, the state before it is not known,
                and the first one stands in for it.
            states: The states, shape (tokens, width).
            trial: Tokens on trial at the end of the pass.
        """
        end = start + len(states)
        if end <= self.end:
            return
        if start > self.end:
            self._passes.append(states[:1])
        self._passes.append(states[max(0, self.end - start) :])
        self.end = end
        self._trial_start, self._trial = end - len(trial), trial

    def settle(self, tokens: Sequence[int], processed: int) -> None:
        """Drop states behind refused tokens.

        Args:
            tokens: The text.
            processed: Its tokens that the target has processed. Where a cache was restored to that
                before the pass, the accepted tokens are not among them.
        """
        if not self._trial:
            return
        valid = self._trial_start
        for token_id in self._trial:
            if valid >= len(tokens) or tokens[valid] != token_id:
                break
            valid += 1
        last = self._trial_start + len(self._trial)
        refused = self.end - max(valid, min(processed, last))
        self._trial = ()
        while refused > 0 and self._passes:
            states = self._passes.pop()
            count = min(refused, len(states))
            if count < len(states):
                self._passes.append(states[:-count])
            refused -= count
            self.end -= count

    def skip(self, count: int) -> None:
        """Remove the first states, at most all of them."""
        if count > 0:
            self.pop_first(count)

    def pop_first(self, count: int) -> mx.array:
        """Remove the first states, and return them.

        Args:
            count: Their number, at most all, at least one.

        Returns:
            Shape (count, width), not evaluated.
        """
        parts, left = [], count
        while left:
            states = self._passes.popleft()
            if left < len(states):
                self._passes.appendleft(states[left:])
                states = states[:left]
            parts.append(states)
            left -= len(states)
        self.start += count
        return parts[0] if len(parts) == 1 else mx.concatenate(parts)
