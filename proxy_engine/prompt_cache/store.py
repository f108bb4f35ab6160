"""An LRU store of prompt caches by the text they hold.

mlx-lm's ``LRUPromptCache`` is not used, for four reasons. Its trie of dicts has one level per
token, and its lookup is quadratic in the tokens beyond the shared prefix (0.2 s for 16,000 tokens,
2.5 s for 64,000). It finds no checkpoint below an exact match. A lookup does not refresh an entry.
A text larger than the bound evicts all others before it is refused. A store holds few texts, and
comparing arrays takes microseconds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .layers import copy_cache, is_trimmable, nbytes, trim_to

# Keeps a linear scan within milliseconds, even for models with tiny caches.
_MAX_ENTRIES = 1000

TokenIds: TypeAlias = npt.NDArray[np.int64]
"""The identities of a text's tokens: token ids, and negative numbers that are derived from the
content of images and recordings in place of their placeholder tokens."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class StoredPrompt:
    """A text with the cache that holds it. The cache is never changed.

    Attributes:
        token_ids: The text.
        cache: The model's cache, one entry per layer.
        is_trimmable: Whether the cache serves every prefix of the text, or only the whole text.
        nbytes: Size in bytes.
    """

    token_ids: TokenIds
    cache: list[Any]
    is_trimmable: bool
    nbytes: int

    @classmethod
    def of(cls, token_ids: TokenIds, cache: list[Any]) -> StoredPrompt:
        """Return the entry of a cache that holds exactly ``token_ids``."""
        size = nbytes(cache) + token_ids.nbytes
        return cls(token_ids, cache, is_trimmable(cache), size)

    def usable(self, token_ids: TokenIds) -> int:
        """Return how many leading tokens of a text the cache can provide."""
        common = common_prefix(self.token_ids, token_ids)
        return common if self.is_trimmable or common == len(self.token_ids) else 0

    def replaces(self, other: StoredPrompt) -> bool:
        """Whether the cache provides all of another entry's text."""
        return self.usable(other.token_ids) == len(other.token_ids)

    def copy_prefix(self, length: int) -> list[Any]:
        """Return a copy of the cache for a prefix of the text, as long as ``usable`` states."""
        cache = copy_cache(self.cache)
        if self.is_trimmable:
            trim_to(cache, length)
        return cache


class Store:
    """Entries within a bound in bytes, at most 1000; the least recently used are evicted.

    Args:
        max_bytes: Bound on the size of all entries together.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # From the least to the most recently used.
        self._entries: list[StoredPrompt] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[StoredPrompt]:
        """Iterate over the entries, from the most to the least recently used."""
        return reversed(self._entries)

    @property
    def nbytes(self) -> int:
        """Size of all entries in bytes. Memory that two entries share is counted twice."""
        return sum(entry.nbytes for entry in self._entries)

    def find(self, token_ids: TokenIds) -> tuple[StoredPrompt, int] | None:
        """Return the entry that provides the longest prefix of a text, and that length.

        The entry is marked as used. So is the shortest entry that is a prefix of the text:
        otherwise a beginning that many conversations share would be evicted while one of them
        continues.
        """
        best, longest, shortest = None, 0, None
        for entry in reversed(self._entries):
            count = entry.usable(token_ids)
            if count > longest:
                best, longest = entry, count
            if count == len(entry.token_ids) > 0 and (
                shortest is None or count < len(shortest.token_ids)
            ):
                shortest = entry
        for used in (shortest, best):
            if used is not None:
                self._mark_used(used)
        return None if best is None else (best, longest)

    def covers(self, token_ids: TokenIds) -> bool:
        """Whether an entry provides all of a text. Marks no entry as used."""
        return any(entry.usable(token_ids) == len(token_ids) for entry in self._entries)

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()

    def add(self, entry: StoredPrompt) -> bool:
        """Add an entry, and drop entries that it makes redundant.

        Returns:
            Whether the entry was added: it is not if it exceeds the bound or is redundant itself.
        """
        if not len(entry.token_ids) or entry.nbytes > self._max_bytes:
            return False
        for other in self._entries:
            if other.replaces(entry) and (other.is_trimmable or not entry.is_trimmable):
                self._mark_used(other)
                return False
        self._entries = [other for other in self._entries if not entry.replaces(other)]
        self._entries.append(entry)
        size = self.nbytes
        while size > self._max_bytes or len(self) > _MAX_ENTRIES:
            evicted = self._entries.pop(0)
            size -= evicted.nbytes
            _log.debug(
                "evicted the cache of %d tokens, %d bytes", len(evicted.token_ids), evicted.nbytes
            )
        return True

    def _mark_used(self, entry: StoredPrompt) -> None:
        self._entries.remove(entry)
        self._entries.append(entry)


def token_array(token_ids: Sequence[int] | TokenIds) -> TokenIds:
    """Return token ids as an int64 array."""
    return np.array(token_ids, dtype=np.int64)


def common_prefix(left: TokenIds, right: TokenIds) -> int:
    """Return the length of the longest common prefix of two texts, in tokens."""
    shared = min(len(left), len(right))
    differ = left[:shared] != right[:shared]
    return int(np.argmax(differ)) if differ.any() else shared
