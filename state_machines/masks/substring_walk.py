"""Walks of the substrings of a text over a vocabulary.

A state is a set of positions in the text, in the order of the suffixes there. All positions descend
a trie together, level by level: those with the same characters so far are adjacent, so each vertex
is looked up once. The work is that of the tokens that occur at the positions, whatever the size of
the vocabulary. States with few positions are walked position by position, without arrays.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from state_machines.budgets import spend
from state_machines.grammar.boolean import bounds_and_rest
from state_machines.grammar.encoding import EncodedText, Spelling, encode_set
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.substring import Source, Substring
from state_machines.grammar.suffix_array import Positions
from state_machines.grammar.symbols import bytes_in, code_points
from state_machines.masks.character_trie import CharacterTrie, Flags
from state_machines.masks.packed_quotes import Vertices, mark_reached
from state_machines.masks.token_trie import Ids, TokenTrie, intervals

FEW_POSITIONS = 512
"""Positions up to which a state is walked without arrays."""

POSITIONS_PER_STEP = 1024
"""Positions on one level that are charged as one step."""

_NO_MARKS = frozenset(b'"\\')

_PLAIN_TEXT = re.compile(r"[ !#-\[\]-~]+")
"""Characters with one spelling, whatever the spelling is."""


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


@dataclass(frozen=True, slots=True)
class Reached:
    """The vertices of a trie that a quote reaches.

    Attributes:
        is_live: Whether the text of a vertex begins a quote: bool, shape (vertices,).
        ends: Whether it is a quote: bool, shape (vertices,).
        begun: By number of a token that begins a character, whether it continues a quote: bool.
    """

    is_live: Flags
    ends: Flags
    begun: Flags


def is_narrow_quote(text: Node) -> bool:
    """Whether a language of code points is that of a quote that continues at few positions."""
    return isinstance(text, Substring) and text.count <= FEW_POSITIONS


class SubstringWalk:
    """Walks quotes over the characters of a JSON string, or over UTF-8 bytes.

    Args:
        trie: The trie; a :class:`CharacterTrie` has the characters as letters.
    """

    def __init__(self, trie: CharacterTrie | TokenTrie) -> None:
        self._trie = trie
        self._characters = trie if isinstance(trie, CharacterTrie) else None
        letter = trie.letter.astype(np.int64)
        self._letters = int(letter.max(initial=0)) + 1
        keys = trie.parent[1:] * np.int64(self._letters) + letter[1:]
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._children = order + 1
        is_last = np.append(self._keys[1:] != self._keys[:-1], np.True_)
        # By key, the index after the last one that equals it.
        self._last = np.flatnonzero(is_last)[np.cumsum(is_last) - is_last] + 1
        self._has_several = bool((self._keys[1:] == self._keys[:-1]).any())
        """Whether a letter has several spellings."""
        self._of_source: WeakKeyDictionary[Source, tuple[Ids, Flags]] = WeakKeyDictionary()
        self._begun_order: Ids = np.zeros(0, np.int32)
        self._begun_first: Ids = np.zeros(trie.size + 1, np.int32)
        if self._characters is not None:
            at = self._characters.begun_at
            self._begun_order = np.argsort(at, kind="stable").astype(np.int32)
            self._begun_first = np.searchsorted(
                at[self._begun_order], np.arange(trie.size + 1)
            ).astype(np.int32)

    def reached(self, quote: Quote, start: int = 0) -> Reached:
        """Return the vertices that a quote reaches below a vertex."""
        source, characters = quote.text.source, self._characters
        size = self._trie.size
        is_live, ends = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
        begun = np.zeros(len(self._begun_order), np.bool_)
        positions = quote.text.positions
        if characters is None:
            text, at = source.utf8.marks, source.utf8.starts[positions]
            letter_of = np.zeros(0, np.int32)
            begins = np.zeros((0, 0), np.bool_)
        else:
            text, at = source.ranks, positions
            letter_of, begins = self._over(source)
        is_live[start] = True
        ends[start] = quote.text.nullable and not quote.min_chars
        if characters is not None and quote.max_chars is None and quote.min_chars <= 1:
            # No quote but the empty one is shorter than one character.

            def children(above: Vertices, rank: Vertices) -> tuple[Vertices, Vertices]:
                self._begin(above, rank, begins, begun)
                return self._below(above, letter_of[rank])

            mark_reached(source, positions, children, is_live, ends)
            return Reached(is_live, ends, begun)
        vertices = np.array([start])
        run = np.zeros(len(at), np.intp)
        while len(at):
            spend(1 + len(at) // POSITIONS_PER_STEP)
            ranks = text[at]
            if characters is None:
                begun_chars = source.utf8.begun[np.minimum(at + 1, len(text) - 1)] - positions
            else:
                begun_chars = at + 1 - positions
            going = ranks >= 0
            if quote.max_chars is not None or quote.min_chars:
                least = np.maximum(begun_chars, quote.min_chars)
                going &= source.may_complete(positions, least, quote.max_chars)
            if not going.all():
                at, positions, run, ranks = at[going], positions[going], run[going], ranks[going]
            if not len(at):
                break
            is_first = np.empty(len(at), np.bool_)
            is_first[0] = True
            np.not_equal(ranks[1:], ranks[:-1], out=is_first[1:])
            is_first[1:] |= run[1:] != run[:-1]
            first = np.flatnonzero(is_first)
            counts = np.diff(first, append=len(at))
            above, rank = vertices[run[first]], ranks[first]
            letter = rank
            if characters is not None:
                self._begin(above, rank, begins, begun)
                letter = letter_of[rank]
            wanted = above * np.int64(self._letters) + letter
            low = np.searchsorted(self._keys, wanted)
            high = np.searchsorted(self._keys, wanted, side="right") if self._has_several else None
            if high is None:
                found = self._keys[np.minimum(low, len(self._keys) - 1)] == wanted
                found &= letter >= 0
                vertices = self._children[low[found]]
                chosen = np.repeat(found, counts)
                at, positions = at[chosen], positions[chosen]
                counts = counts[found]
            else:
                high = np.where(letter >= 0, high, low)
                vertices = self._children[intervals(low, high)]
                spellings = high - low
                last = first + counts
                of_run = np.repeat(np.arange(len(first)), spellings)
                chosen_at = intervals(first[of_run], last[of_run])
                at, positions = at[chosen_at], positions[chosen_at]
                counts = counts[of_run]
            if not len(at):
                break
            at = at + 1
            run = np.repeat(np.arange(len(vertices)), counts)
            is_live[vertices] = True
            starts = np.cumsum(counts) - counts
            ends[vertices] = np.logical_or.reduceat(self._ends(quote, positions, at), starts)
        return Reached(is_live, ends, begun)

    def _below(self, above: Vertices, letter: Vertices) -> tuple[Vertices, Vertices]:
        """Return the children of some vertices by some letters, and the number of each one's."""
        wanted = above * np.int64(self._letters) + letter
        low = np.searchsorted(self._keys, wanted)
        index = np.minimum(low, len(self._keys) - 1)
        found = (self._keys[index] == wanted) & (letter >= 0)
        counts = np.where(found, self._last[index] - low, 0)
        low = low[found]
        return self._children[intervals(low, low + counts[found])], counts

    def _ends(self, quote: Quote, positions: Positions, at: npt.NDArray[Any]) -> Flags:
        """Return where a quote from ``positions`` may end at the letters ``at``."""
        if self._characters is not None:
            return _may_end(quote, positions, at - positions)
        utf8 = quote.text.source.utf8
        lengths = utf8.begun[at] - positions
        ends: Flags = _may_end(quote, positions, lengths)
        ends &= utf8.starts[positions + lengths] == at
        return ends

    def _over(self, source: Source) -> tuple[Ids, Flags]:
        """Return the letters of a source's alphabet, -1 for none, and the sets that have them."""
        known = self._of_source.get(source)
        if known is not None:
            return known
        trie = self._characters
        assert trie is not None
        alphabet = source.alphabet
        letter = np.searchsorted(trie.alphabet, alphabet)
        is_known = trie.alphabet[np.minimum(letter, len(trie.alphabet) - 1)] == alphabet
        letter_of = np.where(is_known, letter, -1).astype(np.int32)
        low, high, which = trie.begun_ranges.T
        first = np.searchsorted(alphabet, low)
        last = np.searchsorted(alphabet, high, side="right")
        begins = np.zeros((len(alphabet), trie.begun_sets), np.bool_)
        begins[intervals(first, last), np.repeat(which, last - first)] = True
        self._of_source[source] = letter_of, begins
        return letter_of, begins

    def _begin(self, above: Vertices, rank: Vertices, begins: Flags, begun: Flags) -> None:
        """Mark the tokens at some vertices that begin the next characters there."""
        trie = self._characters
        assert trie is not None
        first, last = self._begun_first[above], self._begun_first[above + 1]
        tokens = self._begun_order[intervals(first, last)]
        begun[tokens[begins[np.repeat(rank, last - first), trie.begun_set[tokens]]]] = True


def _may_end(quote: Quote, positions: Positions, lengths: npt.NDArray[Any] | int) -> Flags:
    """Return whether the texts of some lengths from the positions are quotes."""
    ends = quote.text.source.ends
    at = positions + lengths
    found: Flags = np.ones(len(positions), np.bool_) if ends is None else ends[at] == at
    if quote.min_chars:
        found = found & (lengths >= quote.min_chars)
    if quote.max_chars is not None:
        found = found & (lengths <= quote.max_chars)
    return found


def head_walk(
    trie: TokenTrie, head: EncodedText, quote: Quote, vertex: int
) -> tuple[list[int], list[int]]:
    """Walk a quote with few positions over the bytes of the tokens below a vertex.

    Returns:
        The tokens that are allowed, and the vertices with children where the quote may end.
    """
    text, spelling, terminator = quote.text.source.text, head.spelling, head.terminator
    size = len(text)
    found: list[int] = []
    ends: list[int] = []
    is_bounded = quote.min_chars > 0 or quote.max_chars is not None
    # Positions with the same text so far, its length and its vertex.
    pending: list[tuple[list[int], int, int]] = [(quote.text.positions.tolist(), 0, vertex)]
    while pending:
        starts, length, at = pending.pop()
        spend()
        if len(starts) == 1 and not is_bounded:
            length, at = _follow(trie, head, quote.text.source, starts[0], length, at, found, ends)
            if at < 0:
                continue
        if terminator or length:
            end = at
            if terminator and trie.has_children(at) and _ends_at(quote, starts, length):
                followed = trie.follow(terminator, at, found)
                end = -1 if followed is None else followed
            elif terminator or not _ends_at(quote, starts, length):
                end = -1
            if end >= 0 and trie.has_children(end):
                ends.append(end)
        groups: dict[str, list[int]] = {}
        for start in starts:
            if start + length < size and _goes_on(quote, start, length + 1):
                groups.setdefault(text[start + length], []).append(start)
        below = trie.bytes_below(at)
        for character, group in groups.items():
            for child in _spelled(trie, character, spelling, at, below, found):
                pending.append((group, length + 1, child))
    return found, ends


def _follow(
    trie: TokenTrie,
    head: EncodedText,
    source: Source,
    start: int,
    length: int,
    vertex: int,
    found: list[int],
    ends: list[int],
) -> tuple[int, int]:
    """Follow a quote from one position over the characters that have one spelling.

    Args:
        trie: The trie.
        head: The spelling and the terminator.
        source: The source.
        start: The position.
        length: The number of characters that lead to the vertex.
        vertex: The vertex.
        found: Gets the tokens on the way.
        ends: Gets the vertices with children where the quote may end.

    Returns:
        The number of characters, and the vertex to continue from; -1 if no token continues.
    """
    terminator, boundaries, at = head.terminator, source.ends, start + length
    run = _PLAIN_TEXT.match(source.text, at, at + len(trie.levels))
    if run is None:
        return length, vertex
    text, first, last = run[0].encode(), at, run.end()
    while at < last:
        # All characters up to where the quote may end are followed at once.
        nearest = at if boundaries is None else boundaries.item(at)
        if nearest == at:
            if not terminator and at > start:
                ends.append(vertex)
            end = trie.follow(terminator, vertex, found) if terminator else None
            if end is not None and trie.has_children(end):
                ends.append(end)
            nearest = at + 1 if boundaries is None else boundaries.item(at + 1)
        followed = trie.follow(text[at - first : nearest - first], vertex, found)
        if followed is None or not trie.has_children(followed):
            return length, -1
        vertex = followed
        at = min(nearest, last)
    return last - start, vertex


def _ends_at(quote: Quote, starts: list[int], length: int) -> bool:
    if length < quote.min_chars or (quote.max_chars is not None and length > quote.max_chars):
        return False
    ends = quote.text.source.ends
    return ends is None or any(ends[start + length] == start + length for start in starts)


def _goes_on(quote: Quote, start: int, length: int) -> bool:
    """Whether a quote from a position has at least ``length`` characters."""
    if quote.max_chars is None and not quote.min_chars:
        return True
    source = quote.text.source
    least = start + max(length, quote.min_chars)
    if least > len(source.text):
        return False
    if quote.max_chars is None:
        return True
    end = least if source.ends is None else int(source.ends[least])
    return end <= start + quote.max_chars


def _spelled(
    trie: TokenTrie, character: str, spelling: Spelling, vertex: int, below: int, found: list[int]
) -> list[int]:
    """Return the vertices with children after the spellings of a character.

    Tokens on the way are appended to ``found``.
    """
    point = ord(character)
    if point < 0x80 and (not spelling.escapes or (0x20 <= point < 0x7F and point not in _NO_MARKS)):
        if not below >> point & 1:
            return []
        child = trie.child(vertex, point, found)
        return [child] if trie.has_children(child) else []
    reached: list[int] = []
    pending: list[tuple[Node, int]] = [(encode_set(code_points(point, point), spelling), vertex)]
    while pending:
        node, at = pending.pop()
        for byte in bytes_in(node.first_bytes & trie.bytes_below(at)):
            child = trie.child(at, byte, found)
            if not trie.has_children(child):
                continue
            target = node.derivative(byte)
            if target is EPSILON:
                reached.append(child)
            else:
                pending.append((target, child))
    return reached
