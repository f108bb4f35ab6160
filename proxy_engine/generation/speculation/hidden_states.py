"""The hidden states that a pass of the target leaves for a draft head."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx


class HiddenStates:
    """Hidden states behind consecutive tokens of one text, which a head has not read.

    A state is valid if all tokens up to it are tokens of the text. Those of the last pass may be
    behind tokens on trial, which are refused later.

    Args:
        start: Index of the first token.

    Attributes:
        start: Index of the token behind which the first state is.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self._chunks: list[mx.array] = []
        self._trial_start = start
        self._trial: Sequence[int] = ()

    @property
    def end(self) -> int:
        """Index behind the last token whose state is there."""
        return self.start + sum(len(chunk) for chunk in self._chunks)

    def add(self, start: int, states: mx.array, trial: Sequence[int]) -> None:
        """Add the states of a pass, once those of the last one are settled.

        Args:
            start: Index of the pass's first token, at most ``end``. Tokens that were processed
                before, and were processed again, have their states already.
            states: Shape (tokens, width).
            trial: Tokens on trial at the end of the pass.
        """
        end, known = start + len(states), self.end
        if end > known:
            self._chunks.append(states[known - start :] if known > start else states)
            self._trial_start, self._trial = end - len(trial), trial

    def settle(self, tokens: Sequence[int], processed: int) -> None:
        """Drop states behind refused tokens.

        Args:
            tokens: The text.
            processed: Its tokens that the target has processed. Where a cache was restored to that
                before the pass, the accepted tokens are not among them.
        """
        valid = self._trial_start
        for token_id in self._trial:
            if valid >= len(tokens) or tokens[valid] != token_id:
                break
            valid += 1
        last = self._trial_start + len(self._trial)
        refused = self.end - max(valid, min(processed, last))
        self._trial_start, self._trial = last, ()
        while refused > 0 and self._chunks:
            chunk = self._chunks.pop()
            if len(chunk) > refused:
                self._chunks.append(chunk[: len(chunk) - refused])
            refused -= len(chunk)
        self._trial_start = self.end

    def take(self, count: int) -> mx.array:
        """Remove the first states, and return them.

        Args:
            count: Their number, at most all.

        Returns:
            Shape (count, width).
        """
        states = self._chunks[0] if len(self._chunks) == 1 else mx.concatenate(self._chunks)
        self.start += count
        self._chunks = [states[count:]] if count < len(states) else []
        return states[:count]
