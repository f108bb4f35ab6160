"""Sources of quotes: a text with its suffix array, and the places where a quote occurs in it.

The substrings that begin with one prefix are an interval of the array (Manber & Myers, "Suffix
arrays: a new method for on-line string searches", SIAM J. Comput. 1993). The array is built by
prefix doubling with NumPy (Larsson & Sadakane, "Faster suffix sorting", TCS 2007): the first sort
compares as many characters as 62 bits hold, and later ones only the suffixes that are not
distinguished yet. A key has as many ranks as 63 bits hold, so with a million characters each sort
compares three times as many as the one before. A text of *n* characters takes at most log *n*
sorts.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from state_machines.budgets import spend
from state_machines.errors import InvalidArgumentError
from state_machines.limits import LIMITS

Positions = npt.NDArray[np.int32]

CHARACTERS_PER_STEP = 256
"""Characters of a text that are charged as one step of each sort."""

FEW_CHARACTERS = 100_000
"""Length of a text up to which its alphabet is found by sorting."""


def packed(letters: Positions, size: int) -> tuple[npt.NDArray[np.int64], int, int]:
    """Return the next letters of each position as one number, in their order.

    Args:
        letters: The text as numbers from 0 to ``size - 1``.
        size: Number of different letters.

    Returns:
        The numbers, shape (n,); the count of letters of each, and the bits of a letter. A letter
        is written as its number and 1; 0 stands for the end of the text, so that a suffix precedes
        its extensions.
    """
    bits = (size + 1).bit_length()
    keys = letters.astype(np.int64) + 1
    width = 1
    while 2 * width * bits <= 62:
        shifted = np.zeros_like(keys)
        shifted[:-width] = keys[width:]
        keys = keys << width * bits | shifted
        width *= 2
    return keys, width, bits


def suffix_array(ranks: Positions, size: int) -> Positions:
    """Return the positions of a text in the order of its suffixes: int32, shape (n,).

    Args:
        ranks: The characters as numbers from 0 to ``size - 1``.
        size: Number of different characters.
    """
    count = len(ranks)
    if count == 0:
        return np.zeros(0, np.int32)
    spend(count // CHARACTERS_PER_STEP)
    keys, width, _ = packed(ranks, size)
    order = np.argsort(keys).astype(np.int32)
    keys = keys[order]
    # The rank of a suffix is the first slot, from 1 on, of its group of suffixes that are not
    # distinguished. The empty suffix has rank 0.
    rank = np.zeros(count + 1, np.int32)
    slots = np.arange(count, dtype=np.int32)
    found = order
    bits = count.bit_length()
    ranks_of_key = 63 // bits
    while True:
        is_first = np.ones(len(keys) + 1, np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=is_first[1:-1])
        first = np.flatnonzero(is_first)
        rank[found] = np.repeat(slots[first[:-1]] + np.int32(1), np.diff(first))
        is_shared = ~(is_first[1:] & is_first[:-1])
        slots, found = slots[is_shared], found[is_shared]
        if not len(slots):
            return order
        spend(len(slots) // CHARACTERS_PER_STEP)
        keys = rank[found].astype(np.int64)
        for number in range(1, ranks_of_key):
            keys = keys << bits | rank[np.minimum(found + number * width, count)]
        by_key = np.argsort(keys)
        keys, found = keys[by_key], found[by_key]
        order[slots] = found
        width *= ranks_of_key


def alphabet_of(points: Positions) -> tuple[Positions, Positions]:
    """Return the different code points, ascending, and the index of each character's."""
    if len(points) <= FEW_CHARACTERS:
        alphabet, ranks = np.unique(points, return_inverse=True)
        return alphabet, ranks.astype(np.int32).reshape(-1)
    occurs = np.zeros(int(points.max()) + 1, np.bool_)
    occurs[points] = True
    number = np.cumsum(occurs, dtype=np.int32) - 1
    return np.flatnonzero(occurs).astype(np.int32), number[points]


FEW_SUFFIXES = 64
"""Suffixes of an interval that are searched first for one where a quote may end."""


class Source:
    """A text with its suffix array, and the positions where quotes may start and end.

    A state within a quote is an interval of suffixes, ``low`` to before ``high``, without their
    first ``depth`` characters, which are the same.

    Attributes:
        text: The text.
        size: Its length.
        alphabet: Its different code points, ascending: int32, shape (k,).
        ranks: The indices in ``alphabet`` of its characters, and -1: int32, shape (n + 1,).
        suffixes: The positions where a quote may start, in the order of the suffixes: int32.
        order: The same as a memory view, which is faster to index by single integers.
        ends: By position, the next one where a quote may end: int32, shape (n + 1,). ``None`` if it
            may end anywhere.
        spelled: For the users of the class: its quotes in different spellings, held weakly.
    """

    def __init__(self, text: str, boundaries: Positions | None) -> None:
        self.text = text
        self.size = len(text)
        points = np.frombuffer(text.encode("utf-32-le"), np.int32)
        self.alphabet, ranks = alphabet_of(points)
        self.ranks: Positions = np.append(ranks, np.int32(-1))
        suffixes = suffix_array(ranks, len(self.alphabet))
        self.ends: Positions | None = None
        if boundaries is not None:
            may_end = np.zeros(len(text) + 1, np.bool_)
            may_end[boundaries] = True
            suffixes = suffixes[may_end[suffixes]]
            counts = np.diff(np.flatnonzero(may_end), prepend=-1)
            self.ends = np.repeat(np.flatnonzero(may_end).astype(np.int32), counts)
        self.suffixes: Positions = suffixes
        self.spelled: WeakValueDictionary[object, object] = WeakValueDictionary()
        self.order = suffixes.data
        self._rank_of = {chr(point): rank for rank, point in enumerate(self.alphabet.tolist())}
        self._ranks = self.ranks.data
        self._ends = None if self.ends is None else self.ends.data

    @property
    def last_ends(self) -> Positions | None:
        """By position, the last one up to it where a quote may end: int32, shape (n + 1,)."""
        if self.ends is None:
            return None
        positions = np.arange(self.size + 1, dtype=np.int32)
        is_end = self.ends == positions
        last: Positions = np.maximum.accumulate(np.where(is_end, positions, np.int32(0)))
        return last

    def position(self, low: int, high: int, depth: int) -> int:
        """Return the first position of an interval, behind ``depth`` characters."""
        return self.order[low] + depth if low < high else self.size

    def min_length(self, low: int, high: int, depth: int, min_chars: int = 0) -> int:
        """Return a lower bound on the length of an interval's words; 0 with the empty word."""
        if self._ends is None:
            return min_chars
        if high == low + 1:
            at = self.order[low] + depth
            return self._ends[at + min_chars] - at
        return min_chars or int(not self.may_end(low, high, depth))

    def has_word(self, low: int, high: int, depth: int, least: int, most: int | None) -> bool:
        """Whether a word of an interval has a number of characters within bounds."""
        if high > low + 1:
            starts = self.suffixes[low:high] + np.int32(depth)
            return bool(self._may_complete(starts, least, most).any())
        return self.has_word_at(self.position(low, high, depth), least, most)

    def has_word_at(self, position: int, least: int, most: int | None) -> bool:
        """Whether a word from a position on has a number of characters within bounds."""
        end = position + least
        if end > self.size:
            return False
        if self._ends is not None:
            end = self._ends[end]
        return most is None or end <= position + most

    def _may_complete(
        self, starts: Positions, min_chars: int, max_chars: int | None
    ) -> npt.NDArray[np.bool_]:
        """Return the positions where a quote of a length within bounds continues: bool."""
        least = starts + np.int32(min_chars)
        inside: npt.NDArray[np.bool_] = least <= self.size
        if max_chars is None:
            return inside
        if self.ends is None:
            return inside & (min_chars <= max_chars)
        ends: Positions = self.ends[np.minimum(least, self.size)]
        return inside & (ends <= starts + np.int32(max_chars))

    def after(self, low: int, high: int, depth: int, text: str) -> tuple[int, int, int] | None:
        """Return the interval of the suffixes that continue with a text, and the new depth."""
        ranks = self._ranks

        def next_rank(position: int) -> int:
            return ranks[position + depth]

        for length, character in enumerate(text):
            if high == low + 1:
                text = text[length:]
                break
            rank = self._rank_of.get(character, -1)
            if rank < 0:
                return None
            low = bisect_left(self.order, rank, low, high, key=next_rank)
            high = bisect_right(self.order, rank, low, high, key=next_rank)
            if low == high:
                return None
            depth += 1
        else:
            return low, high, depth
        fits = self.text.startswith(text, self.order[low] + depth)
        return (low, high, depth + len(text)) if fits else None

    def next_characters(self, low: int, high: int, depth: int) -> Iterator[tuple[str, int, int]]:
        """Yield the characters that follow, each with the interval of the suffixes that do so."""
        ranks, order, text = self._ranks, self.order, self.text

        def next_rank(position: int) -> int:
            return ranks[position + depth]

        while low < high:
            first = order[low] + depth
            end = bisect_right(order, ranks[first], low + 1, high, key=next_rank)
            if first < self.size:
                yield text[first], low, end
            low = end

    def may_end(self, low: int, high: int, depth: int) -> bool:
        """Whether a quote may end after ``depth`` characters of a suffix of an interval."""
        ends = self.ends
        if ends is None:
            return True
        # Most often one of the first suffixes already shows it.
        for first, last in ((low, min(low + FEW_SUFFIXES, high)), (low + FEW_SUFFIXES, high)):
            positions = self.suffixes[first:last] + np.int32(depth)
            if (ends[positions] == positions).any():
                return True
        return False


_SOURCES: WeakValueDictionary[bytes, Source] = WeakValueDictionary()


def source_of(text: str, boundaries: Positions | None) -> Source:
    """Return the source of a text; equal sources are one object as long as it is used.

    Args:
        text: The text, without lone surrogates.
        boundaries: The positions where a quote may start and end, ascending; ``None`` for all.
    """
    digest = blake2b(text.encode(), digest_size=20)
    digest.update(b"" if boundaries is None else boundaries.tobytes())
    digest.update(b"%d" % len(text))
    key = digest.digest()
    found = _SOURCES.get(key)
    if found is None:
        found = _SOURCES[key] = Source(text, boundaries)
    return found


_COUNTED_QUOTES = 1000
"""Occurrences of a quote in its source that are counted."""

_CHUNKS = re.compile(r"\s+|\w+|[^\w\s]+")


def words_of(text: str) -> list[str]:
    """Return the words of a text, the whitespace and the punctuation between them, as chunks.

    Chunks are maximal runs of whitespace, of letters, digits and underscores, and of other
    characters. Their concatenation is the text.
    """
    return _CHUNKS.findall(text)


def chunks_of(text: str, unit: str) -> Sequence[str]:
    """Return the chunks of a text: its ``"words"`` or its ``"chars"``."""
    return words_of(text) if unit == "words" else text


def find_quote(text: str, quote: str, unit: str) -> tuple[int, int] | None:
    """Return where a quote first occurs in a text, and the number of its occurrences.

    Args:
        text: The source.
        quote: The quote, not empty.
        unit: ``"words"``: an occurrence begins and ends between chunks. ``"chars"``: anywhere.

    Returns:
        The position in code points, and the count, at most ``_COUNTED_QUOTES``; occurrences
        may overlap. ``None`` if there is none.
    """
    places = quote_places(text, quote, unit)
    return (places[0], len(places)) if places else None


def quote_places(text: str, quote: str, unit: str) -> list[int]:
    """Return the positions of the first occurrences of a quote, as :func:`find_quote` counts."""
    places: list[int] = []
    tried = 0
    at = text.find(quote)
    while at >= 0 and len(places) < _COUNTED_QUOTES:
        tried += 1
        if not tried % CHARACTERS_PER_STEP:
            spend()
        if unit == "chars" or (_is_boundary(text, at) and _is_boundary(text, at + len(quote))):
            places.append(at)
        at = text.find(quote, at + 1)
    return places


def _is_boundary(text: str, at: int) -> bool:
    """Whether a chunk of :func:`words_of` begins or the text ends at a position."""
    if at in (0, len(text)):
        return True
    return len(_CHUNKS.findall(text[at - 1 : at + 1])) == 2


def check_source(text: str) -> None:
    """Raise ``InvalidArgumentError`` if a text cannot be a source of quotes."""
    if len(text) > LIMITS.source_characters:
        raise InvalidArgumentError(
            f"the source has {len(text):,} characters, and at most "
            f"{LIMITS.source_characters:,} are supported",
            argument="source",
            hint="Divide the source, and quote from its parts",
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            f"the source has a lone surrogate at position {error.start}",
            argument="source",
            hint="Decode the source with errors='replace'",
        ) from error
