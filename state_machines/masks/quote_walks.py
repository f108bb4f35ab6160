"""Walks of quotes: texts that occur in a source.

A state is an interval of positions in the source, in the order of the texts there. All positions
descend the trie together, as those with the same next character are neighbours. So the work is that
of the tokens that occur at the positions, whatever the size of the vocabulary. The compiled walk is
``quote`` in ``walk.c``; without it, the same walk runs in Python.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from state_machines.budgets import spend
from state_machines.grammar.boolean import bounds_and_rest
from state_machines.grammar.encoding import EncodedText, Spelling, spellings_of
from state_machines.grammar.node import Node
from state_machines.grammar.substring import Source, Substring
from state_machines.masks.descent import TOKENS_PER_STEP, Descents, KernelWalk
from state_machines.masks.token_sets import TokenSet, packed
from state_machines.masks.token_trie import Ids, TokenTrie
from state_machines.vocabulary.array_file import pack

FEW_POSITIONS = 512
"""Positions up to which the walk of a state is not stored."""

_HEXADECIMAL = frozenset(b"abcdef")


@dataclass(frozen=True, slots=True)
class Quote:
    """A language of substrings with bounds on the length of words, in characters."""

    text: Substring
    min_chars: int = 0
    max_chars: int | None = None

    @classmethod
    def of(cls, text: Node) -> Quote | None:
        """Return a language of code points as a quote; ``None`` if it is none."""
        if isinstance(text, Substring):
            return cls(text)
        bounded = bounds_and_rest(text)
        if bounded is None:
            return None
        bounds, rest = bounded
        if not isinstance(rest, Substring):
            return None
        return cls(rest, bounds.min_count, bounds.max_count)

    @property
    def is_narrow(self) -> bool:
        """Whether the quote continues at few positions only."""
        return is_narrow_quote(self.text)

    @property
    def limits(self) -> Ids | None:
        """By position, the last one where a quote from there may end, or -1: int32.

        ``None`` if the quote may be as long as the source.
        """
        if self.max_chars is None and not self.min_chars:
            return None
        source, size = self.text.source, len(self.text.source.text)
        starts: Ids = np.arange(size + 1, dtype=np.int32)
        longest = size if self.max_chars is None else min(self.max_chars, size)
        last: npt.NDArray[Any] = np.minimum(starts + longest, size)
        if source.ends is not None:
            boundaries = np.flatnonzero(source.ends == starts)
            last = boundaries[np.searchsorted(boundaries, last, side="right") - 1]
        return np.where(last >= starts + self.min_chars, last, -1).astype(np.int32)


def is_narrow_quote(text: Node) -> bool:
    """Whether a language of code points is that of a quote that continues at few positions."""
    return isinstance(text, Substring) and text.count <= FEW_POSITIONS


class QuoteWalk(NamedTuple):
    """The vertices that a quote reaches below another one.

    Attributes:
        tokens: The tokens that write a beginning of a quote and its terminator, or end with it.
        ends: The vertices where quote and terminator end: int32. They may repeat.
    """

    tokens: TokenSet
    ends: Ids


def quote_walk(descents: Descents, head: EncodedText, quote: Quote, vertex: int) -> QuoteWalk:
    """Walk a quote over the tokens below a vertex.

    Args:
        descents: The walks of the trie.
        head: The spelling and the terminator.
        quote: The quote.
        vertex: The vertex.
    """
    spend(1 + quote.text.count // TOKENS_PER_STEP)
    with descents.kernel_walk() as walk:
        if walk is None:
            return _walk_in_python(descents.trie, head, quote, vertex)
        return _walk_in_kernel(walk, head, quote, vertex)


class _Quotation(ctypes.Structure):
    """``quotation`` of ``walk.c``."""

    _fields_ = (
        *(
            (name, ctypes.c_void_p)
            for name in (
                *("order", "text", "first_spelling", "first_byte", "bytes", "is_end"),
                *("limit", "terminator", "stack"),
            )
        ),
        *(
            (name, ctypes.c_int32)
            for name in (
                *("low", "high", "depth", "min_chars", "terminator_size", "vertex", "pending"),
            )
        ),
    )


class _Spelled:
    """A source as the kernel reads it, with the spellings of its characters and a terminator.

    Attributes:
        quotation: The structure, without what differs between quotes.
    """

    def __init__(self, source: Source, spelling: Spelling, terminator: bytes) -> None:
        written = [spellings_of(point, spelling) for point in source.alphabet.tolist()]
        lengths, joined = pack([text for of_character in written for text in of_character])
        is_end = None
        if source.ends is not None:
            is_end = (source.ends == np.arange(len(source.ends))).astype(np.uint8)
        # Addresses are valid as long as the arrays.
        self._arrays: dict[str, npt.NDArray[Any] | None] = {
            "order": source.suffixes,
            "text": source.ranks,
            "first_spelling": np.append(0, np.cumsum([*map(len, written)])).astype(np.int32),
            "first_byte": np.append(0, np.cumsum(lengths)).astype(np.int32),
            "bytes": np.append(joined, np.uint8(0)),
            "is_end": is_end,
            "terminator": np.frombuffer(terminator + b"\0", np.uint8),
        }
        self.quotation = _Quotation(
            terminator_size=len(terminator),
            **{
                name: None if array is None else array.ctypes.data
                for name, array in self._arrays.items()
            },
        )


_SPELLED: WeakKeyDictionary[Source, dict[tuple[Spelling, bytes], _Spelled]] = WeakKeyDictionary()


def _spelled(source: Source, spelling: Spelling, terminator: bytes) -> _Spelled:
    of_source = _SPELLED.get(source)
    if of_source is None:
        of_source = _SPELLED.setdefault(source, {})
    key = spelling, terminator
    known = of_source.get(key)
    return known or of_source.setdefault(key, _Spelled(source, spelling, terminator))


def _walk_in_kernel(walk: KernelWalk, head: EncodedText, quote: Quote, vertex: int) -> QuoteWalk:
    text, limits = quote.text, quote.limits
    spelled = _spelled(text.source, head.spelling, head.terminator)
    quotation = _Quotation.from_buffer_copy(spelled.quotation)
    quotation.low, quotation.high, quotation.depth = text.low, text.high, text.depth
    quotation.min_chars, quotation.vertex = quote.min_chars, vertex
    quotation.stack = walk.stack
    if limits is not None:
        quotation.limit = limits.ctypes.data
    return QuoteWalk(*walk.quote(quotation))


def _walk_in_python(trie: TokenTrie, head: EncodedText, quote: Quote, vertex: int) -> QuoteWalk:
    source, limits = quote.text.source, quote.limits
    text, terminator, boundaries = source.text, head.terminator, source.ends
    found: list[int] = []
    ends: list[int] = []

    def goes_on(start: int, length: int) -> bool:
        return limits is None or start + length <= limits[start]

    def may_end(start: int, length: int) -> bool:
        if length < quote.min_chars or not goes_on(start, length):
            return False
        return boundaries is None or bool(boundaries[start + length] == start + length)

    # Positions with the same text so far, its length and its vertex.
    pending: list[tuple[list[int], int, int]] = [(quote.text.positions.tolist(), 0, vertex)]
    while pending:
        starts, length, at = pending.pop()
        spend()
        if (length or terminator) and any(may_end(start, length) for start in starts):
            end = trie.follow(terminator, at, found)
            if end is not None:
                ends.append(end)
        groups: dict[str, list[int]] = {}
        for start in starts:
            if start + length < len(text) and goes_on(start, length + 1):
                groups.setdefault(text[start + length], []).append(start)
        for character, group in groups.items():
            for written in spellings_of(ord(character), head.spelling):
                for child in _spell(trie, written, at, found):
                    pending.append((group, length + 1, child))
    return QuoteWalk(packed(np.array(found, np.int32)), np.array(ends, np.int32))


def _spell(trie: TokenTrie, written: bytes, vertex: int, found: list[int]) -> list[int]:
    """Return the vertices with children after a spelling; hexadecimal digits have either case.

    Tokens on the way are appended to ``found``.
    """
    reached = [vertex]
    for index, byte in enumerate(written):
        is_digit = index > 1 and written.startswith(b"\\") and byte in _HEXADECIMAL
        spelled = (byte, byte - 32) if is_digit else (byte,)
        below = [
            trie.child(at, each, found)
            for at in reached
            for each in spelled
            if trie.bytes_below(at) >> each & 1
        ]
        reached = [child for child in below if trie.has_children(child)]
    return reached
