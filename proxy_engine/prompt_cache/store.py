"""Texts that were read, with the model's caches of them: which to use, and which to give up.

mlx-lm's ``LRUPromptCache`` is not used for this. It finds a text through a tree of dicts, a level
a token, in time that grows with the square of what lies beyond the shared prefix (0.2 s for
16,000 tokens, 2.5 s for 64,000). It does not find a checkpoint below an exact match; what is used
does not become more recent by that; and a text that exceeds the bound makes it give up all others
first. Texts are few, and comparing them takes microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .layers import can_be_cut, nbytes

# So that looking through all of them stays a matter of milliseconds, however small a model is.
_MOST_ENTRIES = 1000

__all__ = ["Entry", "Store", "TokenIds", "common_prefix", "token_array"]

TokenIds: TypeAlias = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A text and the layers that have read it. Nobody changes the layers.

    ``can_be_cut``: whether they can serve for every prefix of the text, or for all of it only.
    """

    token_ids: TokenIds
    layers: list[Any]
    can_be_cut: bool
    nbytes: int

    @classmethod
    def of(cls, token_ids: TokenIds, layers: list[Any]) -> Entry:
        """An entry for layers that have read exactly ``token_ids``."""
        size = nbytes(layers) + token_ids.nbytes
        return cls(token_ids, layers, can_be_cut(layers), size)

    def usable(self, token_ids: TokenIds) -> int:
        """How many of ``token_ids`` need not be read again, starting from the layers."""
        common = common_prefix(self.token_ids, token_ids)
        return common if self.can_be_cut or common == len(self.token_ids) else 0


class Store:
    """Entries within ``max_bytes``; those go first that have not been used for longest.

    There are at most 1000, too.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._nbytes = 0
        # From the least to the most recently used.
        self._entries: list[Entry] = []

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """Bytes of all entries. Memory that two of them share is counted twice."""
        return self._nbytes

    def find(self, token_ids: TokenIds) -> tuple[Entry, int] | None:
        """The entry that covers most of ``token_ids``, and how much; ``None``: there is none.

        It counts as used, and so does the shortest that is a prefix of the text: what many
        conversations begin with would otherwise be given up while one of them goes on.
        """
        best, most, shortest = None, 0, None
        for entry in reversed(self._entries):
            count = entry.usable(token_ids)
            if count > most:
                best, most = entry, count
            if count == len(entry.token_ids) > 0 and (
                shortest is None or count < len(shortest.token_ids)
            ):
                shortest = entry
        for used in (shortest, best):
            if used is not None:
                self._entries.remove(used)
                self._entries.append(used)
        return None if best is None else (best, most)

    def covers(self, token_ids: TokenIds) -> bool:
        """Whether nothing of ``token_ids`` would have to be read again. Uses nothing."""
        return any(entry.usable(token_ids) == len(token_ids) for entry in self._entries)

    def add(self, entry: Entry) -> bool:
        """Take an entry; those that serve for nothing that it does not serve for are dropped.

        Returns whether it is kept: one that exceeds the bound by itself is not, nor is one that
        serves for nothing new.
        """
        if not len(entry.token_ids) or entry.nbytes > self._max_bytes:
            return False
        for other in self._entries:
            if other.usable(entry.token_ids) == len(entry.token_ids) and (
                other.can_be_cut or not entry.can_be_cut
            ):
                self._entries.remove(other)
                self._entries.append(other)
                return False
        for other in [other for other in self._entries if _is_needless(other, beside=entry)]:
            self._drop(other)
        self._entries.append(entry)
        self._nbytes += entry.nbytes
        while self._nbytes > self._max_bytes or len(self) > _MOST_ENTRIES:
            self._drop(self._entries[0])
        return True

    def clear(self) -> None:
        """Give up everything."""
        self._entries.clear()
        self._nbytes = 0

    def _drop(self, entry: Entry) -> None:
        self._entries.remove(entry)
        self._nbytes -= entry.nbytes


def token_array(token_ids: Sequence[int] | TokenIds) -> TokenIds:
    """Return token ids as an array of int32."""
    return np.asarray(token_ids, dtype=np.int32)


def common_prefix(left: TokenIds, right: TokenIds) -> int:
    """How many tokens two texts have in common at their beginnings."""
    shared = min(len(left), len(right))
    differ = left[:shared] != right[:shared]
    return int(np.argmax(differ)) if differ.any() else shared


def _is_needless(entry: Entry, *, beside: Entry) -> bool:
    return beside.usable(entry.token_ids) == len(entry.token_ids)
