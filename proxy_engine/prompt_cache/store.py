"""An LRU store of prompt caches by the text they hold.

Texts are sorted, so that those with the longest common prefix stand beside each other: a look-up
compares a few of them, however many there are.

mlx-lm's ``LRUPromptCache`` is not used, for four reasons. Its trie of dicts has one level per
token, and its lookup is quadratic in the tokens beyond the shared prefix (0.2 s for 16,000 tokens,
2.5 s for 64,000). It finds no checkpoint below an exact match. A lookup does not refresh an entry.
A text larger than the bound evicts all others before it is refused.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .layers import copy_cache, is_trimmable, nbytes, trim_to

# Models with tiny caches do not collect texts without end.
_MAX_ENTRIES = 1000

_TOKEN_BYTES = 8

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

    def copy_prefix(self, length: int) -> list[Any]:
        """Return a copy of the cache for a prefix of the text: the whole, or a trimmable one's."""
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
        # By their texts, from the least to the most recently used.
        self._entries: dict[bytes, StoredPrompt] = {}
        # The texts of the entries that serve every prefix, and those of the others, sorted.
        self._trimmable: list[bytes] = []
        self._whole: list[bytes] = []
        self._nbytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[StoredPrompt]:
        """Iterate over the entries, from the most to the least recently used."""
        return reversed(self._entries.values())

    @property
    def nbytes(self) -> int:
        """Size of all entries in bytes. Memory that two entries share is counted twice."""
        return self._nbytes

    def find(self, token_ids: TokenIds) -> tuple[StoredPrompt, int] | None:
        """Return the entry that provides the longest prefix of a text, and that length.

        The entry is marked as used. So is the shortest entry that is a prefix of the text:
        otherwise a beginning that many conversations share would be evicted while one of them
        continues.
        """
        text = _text(token_ids)
        best, longest = self._nearest(text)
        prefixes = self._prefixes(text)
        if prefixes and _tokens(prefixes[-1]) > longest:
            best, longest = prefixes[-1], _tokens(prefixes[-1])
        if best is None:
            return None
        for used in (*prefixes[:1], best):
            self._mark_used(used)
        return self._entries[best], longest

    def covers(self, token_ids: TokenIds) -> bool:
        """Whether an entry provides all of a text. Marks no entry as used."""
        text = _text(token_ids)
        return text in self._entries or self._nearest(text)[1] == len(token_ids)

    def clear(self) -> None:
        """Remove all entries."""
        for text in list(self._entries):
            self._remove(text)

    def add(self, entry: StoredPrompt) -> bool:
        """Add an entry, and drop entries that it makes redundant.

        Returns:
            Whether the entry was added: it is not if it exceeds the bound or is redundant itself.
        """
        text = _text(entry.token_ids)
        if not text or entry.nbytes > self._max_bytes:
            return False
        near, common = self._nearest(text)
        if common < len(entry.token_ids):
            near = text if text in self._entries and not entry.is_trimmable else None
        if near is not None:
            self._mark_used(near)
            return False
        if entry.is_trimmable:
            for prefix in self._prefixes(text):
                self._remove(prefix)
        self._entries[text] = entry
        self._nbytes += entry.nbytes
        insort(self._texts_like(entry), text)
        while self._nbytes > self._max_bytes or len(self) > _MAX_ENTRIES:
            evicted = self._remove(next(iter(self._entries)))
            _log.debug(
                "evicted the cache of %d tokens, %d bytes", len(evicted.token_ids), evicted.nbytes
            )
        return True

    def _nearest(self, text: bytes) -> tuple[bytes | None, int]:
        """Return the trimmable entry with the longest common prefix, and its length in tokens."""
        at = bisect_left(self._trimmable, text)
        best, longest = None, 0
        for near in self._trimmable[max(0, at - 1) : at + 1]:
            common = _common_tokens(near, text)
            if common > longest:
                best, longest = near, common
        return best, longest

    def _prefixes(self, text: bytes) -> list[bytes]:
        """Return the entries that are prefixes of a text, in order of their lengths."""
        near, _ = self._nearest(text)
        found = [near] if near is not None and text.startswith(near) else []
        at, rest = len(self._whole), text
        while at := bisect_right(self._whole, rest, 0, at):
            at -= 1
            before = self._whole[at]
            if rest.startswith(before):
                found.append(before)
            # A shorter prefix is a prefix of their common part, too.
            rest = rest[: _common_tokens(before, rest) * _TOKEN_BYTES]
        return sorted(found, key=len)

    def _texts_like(self, entry: StoredPrompt) -> list[bytes]:
        return self._trimmable if entry.is_trimmable else self._whole

    def _remove(self, text: bytes) -> StoredPrompt:
        entry = self._entries.pop(text)
        self._nbytes -= entry.nbytes
        texts = self._texts_like(entry)
        del texts[bisect_left(texts, text)]
        return entry

    def _mark_used(self, text: bytes) -> None:
        self._entries[text] = self._entries.pop(text)


def _text(token_ids: TokenIds) -> bytes:
    """Return a text as bytes, whose order is that of their tokens."""
    return token_ids.astype(">i8").tobytes()


def _tokens(text: bytes) -> int:
    return len(text) // _TOKEN_BYTES


def _common_tokens(left: bytes, right: bytes) -> int:
    return common_prefix(np.frombuffer(left, np.int64), np.frombuffer(right, np.int64))


def token_array(token_ids: Sequence[int] | TokenIds) -> TokenIds:
    """Return token ids as an int64 array."""
    return np.array(token_ids, dtype=np.int64)


def common_prefix(left: TokenIds, right: TokenIds) -> int:
    """Return the length of the longest common prefix of two texts, in tokens."""
    shared = min(len(left), len(right))
    differ = left[:shared] != right[:shared]
    first = int(differ.argmax()) if shared else 0
    return first if shared and differ[first] else shared
