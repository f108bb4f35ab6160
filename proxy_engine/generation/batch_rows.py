"""The cache of a batch, and which of its rows each sequence has.

Sequences that were forked from each other share a row as long as they have the same tokens: the
model computes the same for them. The row is copied when their tokens differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import mlx.core as mx

from ..prompt_cache.layers import copy_cache
from .cache_layers import drop_padding, extend, extract_row, keep_rows, merge
from .sequence_state import SequenceState


class BatchRows:
    """Sequences with their rows of a cache.

    Attributes:
        cache: The cache, one layer each; a batch cache if ``is_merged``.
        is_merged: A sequence that was always alone has a plain cache, which is faster.
    """

    def __init__(self) -> None:
        self.cache: list[Any] = []
        self.is_merged = False
        self._count = 0
        self._rows: dict[SequenceState, int] = {}

    def __len__(self) -> int:
        """Return the number of sequences."""
        return len(self._rows)

    @property
    def sequences(self) -> Sequence[SequenceState]:
        """The sequences."""
        return tuple(self._rows)

    @property
    def is_one_each(self) -> bool:
        """Whether rows and sequences correspond one to one, in the same order."""
        return list(self._rows.values()) == list(range(self._count))

    def row(self, sequence: SequenceState) -> int:
        """Return the row of a sequence."""
        return self._rows[sequence]

    def is_shared(self, sequence: SequenceState) -> bool:
        """Whether other sequences have the same row."""
        return list(self._rows.values()).count(self._rows[sequence]) > 1

    def add(self, sequences: Sequence[SequenceState], cache: list[Any]) -> None:
        """Add a row for sequences with the same tokens, whose plain cache is taken over."""
        if not self._rows:
            self.cache, self.is_merged, self._count = cache, False, 0
        else:
            self.merge()
            extend(self.cache, merge([cache]))
        self._rows |= dict.fromkeys(sequences, self._count)
        self._count += 1

    def add_all(self, sequences: Sequence[SequenceState], cache: list[Any]) -> None:
        """Add the rows of a batch cache, one for each sequence."""
        if not self._rows:
            self.cache, self.is_merged, self._count = cache, True, 0
        else:
            self.merge()
            extend(self.cache, cache)
        for sequence in sequences:
            self._rows[sequence] = self._count
            self._count += 1

    def replace(
        self, old: Collection[SequenceState], new: Mapping[SequenceState, SequenceState]
    ) -> None:
        """Replace sequences by others; see :meth:`Batch.replace`. Rows stay until they are used."""
        rows = {sequence: row for sequence, row in self._rows.items() if sequence not in old}
        self._rows = rows | {one: self._rows[source] for one, source in new.items()}
        if not self._rows:
            self.cache = []

    def remove(self, sequence: SequenceState, *, wants_cache: bool) -> list[Any] | None:
        """Remove a sequence, and return its cache if it is wanted."""
        is_shared = self.is_shared(sequence)
        row = self._rows.pop(sequence)
        cache = None
        if wants_cache and self.is_merged:
            cache = extract_row(self.cache, row)
        elif wants_cache:
            cache = copy_cache(self.cache) if is_shared else self.cache
        if not self._rows:
            self.cache = []
        elif not is_shared:
            self._keep(sorted(set(self._rows.values())))
        return cache

    def arrange(self, tokens: Mapping[SequenceState, Sequence[int]]) -> list[Sequence[int]]:
        """Give each sequence a row for its next tokens, and drop unused rows.

        Args:
            tokens: The tokens that each sequence takes in the next pass.

        Returns:
            The tokens of each row.
        """
        numbers: dict[tuple[int, tuple[int, ...]], int] = {}
        for sequence, row in self._rows.items():
            key = row, tuple(tokens[sequence])
            self._rows[sequence] = numbers.setdefault(key, len(numbers))
        self._copy_rows([row for row, _ in numbers])
        return [own for _, own in numbers]

    def merge(self) -> None:
        """Convert a plain cache to a batch cache of one row."""
        if not self.is_merged:
            self.cache = merge([self.cache])
            self.is_merged = True

    def unmerge(self) -> None:
        """Convert the batch cache of a single sequence to a plain one."""
        if self.is_merged and len(self._rows) == 1:
            ((sequence, row),) = self._rows.items()
            self.cache = extract_row(self.cache, row)
            self._rows[sequence] = 0
            self.is_merged, self._count = False, 1

    def drop_padding(self) -> None:
        """Drop columns that are padding in every row, if they are many."""
        if self.is_merged:
            mx.async_eval([layer.state for layer in self.cache])
            drop_padding(self.cache, max(one.processed for one in self._rows))

    def _keep(self, rows: Sequence[int]) -> None:
        self._copy_rows(rows)
        self._rows = {sequence: rows.index(row) for sequence, row in self._rows.items()}

    def _copy_rows(self, sources: Sequence[int]) -> None:
        if list(sources) != list(range(self._count)):
            self.merge()
            keep_rows(self.cache, sources)
        self._count = len(sources)
