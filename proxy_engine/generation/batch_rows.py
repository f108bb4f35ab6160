"""The cache of a batch, and the rows that texts have in it.

The row of a text holds its ``processed`` tokens, behind them its *tail*: tokens on trial, and
behind these padding. :meth:`CachedText.propose` puts tokens on trial, and :meth:`CachedText.commit`
ends the trial: the tokens that the text continues with are kept, and the batch drops the columns of
the others. Nothing else changes the row of a cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

import mlx.core as mx

from .cache_layers import (
    Rollback,
    RowsRollback,
    can_pad,
    drop_padding,
    extend,
    extract_row,
    keep_rows,
    merge,
    trim,
    trim_rows,
)
from .shared_prefix import Layers, prefix_layers


class CachedText:
    """A text that a model processes: its tokens, and its row of a cache.

    Args:
        tokens: The text, to which tokens may be appended.
        processed: Leading tokens that the cache holds.

    Attributes:
        tokens: The text.
        processed: Leading tokens that the cache holds.
        tail: Tokens on trial behind them, in the cache.
        padding: Columns of the cache behind the tail.
        row: The text's row of the cache.
    """

    def __init__(self, tokens: list[int], processed: int = 0) -> None:
        self.tokens = tokens
        self.processed = processed
        self.tail: list[int] = []
        self.padding = 0
        self.row = 0

    @property
    def pending(self) -> list[int]:
        """Tokens that the model has not processed."""
        return self.tokens[self.processed :]

    def propose(self, tokens: Sequence[int]) -> None:
        """Put tokens on trial behind pending tokens: passes before the next commit take them."""
        self.tail = [*self.tail, *tokens]

    @property
    def uncommitted(self) -> int:
        """Columns at the end of the row that are not tokens of the text."""
        return len(self.tail) + self.padding

    def commit(self) -> int:
        """End a trial: keep the tokens that the text continues with.

        Returns:
            The columns at the end of the row that have to be dropped.
        """
        kept, following = 0, self.processed
        for token_id in self.tail:
            if following == len(self.tokens) or self.tokens[following] != token_id:
                break
            following += 1
            kept += 1
        dropped = len(self.tail) + self.padding - kept
        self.processed = following
        self.tail, self.padding = [], 0
        return dropped


T = TypeVar("T", bound=CachedText)


class BatchRows(Generic[T]):
    """Texts with their rows of a cache.

    Attributes:
        sequences: The texts, each with the row of its place.
        cache: The cache, one layer each; a batch cache if ``is_merged``.
        is_merged: A sequence that was always alone has a plain cache, which is faster.
        is_plain: Whether all layers have plain keys and values, which can be padded and trimmed.
    """

    def __init__(self) -> None:
        self.sequences: list[T] = []
        self.cache: list[Any] = []
        self.is_merged = False
        self.is_plain = True
        self._rollback: Rollback | RowsRollback | None = None

    def add(self, sequence: T, cache: list[Any]) -> None:
        """Add a text, whose plain cache is taken over."""
        self._extend(cache, is_merged=False)
        self._update([*self.sequences, sequence])

    def add_all(self, sequences: Sequence[T], cache: list[Any]) -> None:
        """Add the rows of a batch cache, a row for each text."""
        self._extend(cache, is_merged=True)
        self._update([*self.sequences, *sequences])

    def remove(self, sequence: T, *, wants_cache: bool) -> list[Any] | None:
        """Remove a text, and return its cache if it is wanted."""
        self.settle()
        cache = None
        if wants_cache:
            cache = extract_row(self.cache, sequence.row) if self.is_merged else self.cache
        others = [other for other in self.sequences if other is not sequence]
        if others:
            keep_rows(self.cache, [other.row for other in others])
        self._update(others)
        return cache

    def begin_trial(self, lengths: Sequence[int]) -> None:
        """Prepare for a pass whose tokens are partly on trial, or whose rows are padded.

        Args:
            lengths: Tokens of each row.
        """
        longest = max(lengths)
        for sequence in self.sequences:
            sequence.padding = longest - lengths[sequence.row]
        if not self.is_merged:
            self._rollback = Rollback.before(self.cache, lengths)
        elif not self.is_plain:
            self._rollback = RowsRollback.before(self.cache, lengths)

    def settle(self) -> None:
        """End all trials: drop refused tokens and padding from the cache."""
        rollback, self._rollback = self._rollback, None
        counts = [
            sequence.commit() if sequence.tail or sequence.padding else 0
            for sequence in self.sequences
        ]
        if not any(counts):
            return
        if rollback is None:
            trim_rows(self.cache, counts)
        else:
            for sequence, again in zip(self.sequences, rollback.drop(counts), strict=True):
                sequence.processed -= again
        self._drop_padding()

    def withdraw(self) -> None:
        """Undo a pass over one token on trial in every row."""
        for sequence in self.sequences:
            sequence.tail = []
        # Of all rows, since not all caches can drop columns of a single one.
        trim(self.cache, 1)

    def prefix(self, sequence: T) -> Layers:
        """Return the keys and values of a text, to process its continuations in one pass.

        They are not copied: the pass changes no row.
        """
        return prefix_layers(self.cache, sequence.row, sequence.processed, sequence.uncommitted)

    def merge(self) -> None:
        """Convert a plain cache to a batch cache of one row."""
        if not self.is_merged:
            self.cache = merge([self.cache])
            self.is_merged = True

    def unmerge(self) -> None:
        """Convert the batch cache of a single sequence to a plain one."""
        if self.is_merged and len(self.sequences) == 1:
            self.settle()
            self.cache = extract_row(self.cache, 0)
            self.is_merged = False
            self._update(self.sequences)

    def _extend(self, cache: list[Any], *, is_merged: bool) -> None:
        self.settle()
        if not self.sequences:
            self.cache, self.is_merged = cache, is_merged
        else:
            self.merge()
            extend(self.cache, cache if is_merged else merge([cache]))

    def _update(self, sequences: Iterable[T]) -> None:
        self.sequences = list(sequences)
        for row, sequence in enumerate(self.sequences):
            sequence.row = row
        self.is_plain = can_pad(self.cache)
        if not self.sequences:
            self.cache = []

    def _drop_padding(self) -> None:
        """Drop columns that are padding in every row, if they are many."""
        if self.is_merged:
            mx.async_eval([layer.state for layer in self.cache])
            drop_padding(self.cache, max(sequence.processed for sequence in self.sequences))
