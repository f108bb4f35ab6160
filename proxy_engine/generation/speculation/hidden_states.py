"""The hidden states that the passes of the target leave for a draft head."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import mlx.core as mx

from ..forward_pass import RowStates


class HiddenStates:
    """Hidden states behind consecutive tokens of one text, which a head has not read.

    A state is valid if all tokens up to it are tokens of the text. Those of the last pass may be
    behind tokens on trial, which are refused later. States are sliced when they are read: a pass
    costs nothing but an entry.

    Args:
        start: Index of the first token.

    Attributes:
        start: Index of the token behind which the first state is.
        end: Index behind the last token whose state is there.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        # Passes, each with its first and last position that count.
        self._passes: deque[tuple[RowStates, int, int]] = deque()
        self._trial_start = start
        self._trial: Sequence[int] = ()

    def add(self, start: int, states: RowStates, trial: Sequence[int]) -> None:
        """Add the states of a pass, once those of the last one are settled.

        Args:
            start: Index of the pass's first token. Tokens before ``end`` were processed again, and
                have their states already. If it is ``end + 1``, the state before it is not known,
                and the first one stands in for it.
            states: The states.
            trial: Tokens on trial at the end of the pass.
        """
        end = start + states.length
        if end <= self.end:
            return
        if start > self.end:
            self._passes.append((states, 0, 1))
        self._passes.append((states, max(0, self.end - start), states.length))
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
            states, first, stop = self._passes.pop()
            count = min(refused, stop - first)
            if count < stop - first:
                self._passes.append((states, first, stop - count))
            refused -= count
            self.end -= count

    def skip(self, count: int) -> None:
        """Remove the first states, at most all of them."""
        while count > 0:
            states, first, stop = self._passes.popleft()
            skipped = min(count, stop - first)
            if first + skipped < stop:
                self._passes.appendleft((states, first + skipped, stop))
            count -= skipped
            self.start += skipped

    def take(self, count: int) -> mx.array:
        """Remove the first states, and return them.

        Args:
            count: Their number, at most all, at least one.

        Returns:
            Shape (count, width).
        """
        parts, left = [], count
        while left:
            states, first, stop = self._passes.popleft()
            taken = min(left, stop - first)
            parts.append(states.part(first, first + taken))
            if first + taken < stop:
                self._passes.appendleft((states, first + taken, stop))
            left -= taken
        self.start += count
        return parts[0] if len(parts) == 1 else mx.concatenate(parts)
