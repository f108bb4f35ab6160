"""The tokens that can stand inside a JSON string, as a trie over the characters they write.

Patterns, lengths and names speak of characters. Walking their languages over characters instead
of bytes needs no byte-level states: no UTF-8, no escapes. What a token adds to its last whole
character is kept beside: the beginning of another one, or the closing quote and what follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from state_machines.caches import LruCache
from state_machines.grammar.escapes import begun_escape, written_escape
from state_machines.grammar.symbols import CodePointSet, code_points
from state_machines.limits import LIMITS
from state_machines.masks.token_trie import Ids, TokenTrie, first_children
from state_machines.vocabulary.tables import Arrays, pack, unpack

__all__ = ["CharacterTrie", "Letters"]

_DEAD, _WHOLE, _UTF8, _ESCAPE, _BEYOND = range(5)
_QUOTE, _BACKSLASH = 0x22, 0x5C
_LEADS = ((2, 0xC2, 0xDF, 0x1F), (3, 0xE0, 0xEF, 0x0F), (4, 0xF0, 0xF4, 0x07))
_LEAST = np.array([0, 0, 0x80, 0x800, 0x10000])
_MOST = np.array([0, 0, 0x7FF, 0xFFFF, 0x10FFFF])
_CODE_POINTS = 0x110000
Flags = npt.NDArray[np.bool_]


class Letters:
    """A character set as seen by a trie: ranges of letters, and which begun ones may be in it."""

    __slots__ = ("begun", "ranges")

    def __init__(self, ranges: tuple[tuple[int, int], ...], begun: Flags) -> None:
        self.ranges = ranges
        self.begun = begun


class CharacterTrie:
    """The tokens of a byte trie, read as the inside of a JSON string.

    Vertices are texts of whole characters, numbered level by level, so that level *d* holds those
    of *d* characters and the children of a vertex are neighbours; the root is 0. A text that can
    be spelled in two ways has two vertices. With *n* vertices:

    * ``levels``: offsets of the levels; ``depth``: int32, shape (n,);
    * ``parent``: int32, shape (n,); the children of *v* are ``first_child[v]`` to
      ``first_child[v + 1]``;
    * ``letter``: int32, shape (n,), the last character as an index of ``alphabet``, the characters
      that occur, ascending.

    Tokens, by the vertex of their last whole character (all int32, one entry a token):

    * ``whole_ids``, ``whole_at``: those that end there;
    * ``begun_ids``, ``begun_at``, ``begun_set``: those that begin another character, and the number
      of the set of characters that it may become;
    * ``leaving_ids``, ``leaving_at``, ``suffix``: those that close the string, and the number of
      the text they write beyond the quote, out of ``suffixes``; sorted by vertex.
    """

    def __init__(self, trie: TokenTrie) -> None:
        arrays = trie.tables.group("string_trie", lambda: _arrays(trie))
        self.parent: Ids = arrays["parent"]
        self.size = len(self.parent)
        self.levels: list[int] = arrays["levels"].tolist()
        counts = np.diff(arrays["levels"])
        self.depth: Ids = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        self.first_child: Ids = first_children(self.parent)
        self.alphabet: Ids = arrays["alphabet"]
        self.letter: Ids = arrays["letter"]
        self.whole_ids: Ids = arrays["whole_ids"]
        self.whole_at: Ids = arrays["whole_at"]
        self.begun_ids: Ids = arrays["begun_ids"]
        self.begun_at: Ids = arrays["begun_at"]
        self.begun_set: Ids = arrays["begun_set"]
        self._begun_ranges: Ids = arrays["begun_ranges"].reshape(-1, 3)
        self.begun_sets = int(self.begun_set.max(initial=-1)) + 1
        self.leaving_ids: Ids = arrays["leaving_ids"]
        self.leaving_at: Ids = arrays["leaving_at"]
        self.suffix: Ids = arrays["suffix"]
        self.suffixes = unpack(arrays["suffix_lengths"], arrays["suffix_text"])
        self._letters: LruCache[CodePointSet, Letters] = LruCache(LIMITS.character_sets)

    def letters(self, members: CodePointSet) -> Letters:
        """Return what a character set means here."""
        known = self._letters.get(members)
        return known or self._letters.put(members, self._find_letters(members))

    def _find_letters(self, members: CodePointSet) -> Letters:
        bounds = np.array(members.ranges, np.int64).reshape(-1, 2)
        first = np.searchsorted(self.alphabet, bounds[:, 0])
        last = np.searchsorted(self.alphabet, bounds[:, 1], side="right")
        ends = zip(first.tolist(), last.tolist(), strict=True)
        ranges = tuple((low, high - 1) for low, high in ends if low < high)
        low, high, which = self._begun_ranges.T
        nearest = np.searchsorted(bounds[:, 1], low)
        starts = np.append(bounds[:, 0], np.iinfo(np.int64).max)
        begun = np.zeros(self.begun_sets, np.bool_)
        begun[which[starts[nearest] <= high]] = True
        return Letters(ranges, begun)

    def spelling(self, vertex: int, letter: int) -> Sequence[int]:
        """Return the children of a vertex that write a letter."""
        if vertex == 0:
            return self._at_root.get(letter, ())
        children = range(self.first_child[vertex], self.first_child[vertex + 1])
        return [child for child in children if self.letter[child] == letter]

    def ending(self, word: str) -> Ids:
        """Return the leaving tokens that write a text, in any spelling, before they leave."""
        vertices = [0]
        for character in word:
            letter = int(np.searchsorted(self.alphabet, ord(character)))
            if letter == len(self.alphabet) or self.alphabet[letter] != ord(character):
                return self.leaving_ids[:0]
            vertices = [child for vertex in vertices for child in self.spelling(vertex, letter)]
        bounds = [np.searchsorted(self.leaving_at, (at, at + 1)) for at in vertices]
        parts = [self.leaving_ids[first:last] for first, last in bounds]
        return np.concatenate([self.leaving_ids[:0], *parts])

    @cached_property
    def _at_root(self) -> dict[int, tuple[int, ...]]:
        found: dict[int, tuple[int, ...]] = {}
        for child in range(self.first_child[0], self.first_child[1]):
            letter = int(self.letter[child])
            found[letter] = (*found.get(letter, ()), child)
        return found


def _arrays(trie: TokenTrie) -> Arrays:
    """Return what a :class:`CharacterTrie` is made of, by the names it gives them.

    ``begun_ranges`` are rows of first character, last character and number of the set; the
    suffixes are one text and their lengths.
    """
    reader = _Reader(trie)
    order = reader.by_level()
    number = np.full(trie.size, -1, np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    above = number[reader.owner[trie.parent[order[1:]]]]
    depth = reader.depth[order]
    codes = reader.code[order[1:]]
    occurs = np.zeros(_CODE_POINTS, np.bool_)
    occurs[codes] = True
    letter_of = np.cumsum(occurs, dtype=np.int32) - 1
    nothing = np.full(1, -1, np.int32)
    return {
        "parent": np.concatenate((nothing, above)),
        "levels": np.searchsorted(depth, np.arange(depth[-1] + 2)).astype(np.int32),
        "alphabet": np.flatnonzero(occurs).astype(np.int32),
        "letter": np.concatenate((nothing, letter_of[codes])),
        **_tokens(trie, reader, number),
    }


def _tokens(trie: TokenTrie, reader: _Reader, number: Ids) -> Arrays:
    """Return the arrays of tokens, by the vertex of their last whole character."""
    status = reader.status[trie.vertex_of]
    at = number[reader.owner[trie.vertex_of]]
    whole = status == _WHOLE

    begun = np.flatnonzero((status == _UTF8) | (status == _ESCAPE))
    sets: dict[CodePointSet, int] = {}
    which = [
        sets.setdefault(reader.may_become(vertex), len(sets))
        for vertex in trie.vertex_of[begun].tolist()
    ]
    ranges = [(a, b, k) for members, k in sets.items() for a, b in members.ranges]

    leaving = np.flatnonzero(status == _BEYOND)
    leaving = leaving[np.argsort(at[leaving], kind="stable")]
    texts: dict[bytes, int] = {}
    suffix = [
        texts.setdefault(reader.text(vertex)[1:], len(texts))
        for vertex in trie.vertex_of[leaving].tolist()
    ]
    suffix_lengths, suffix_text = pack(texts)
    return {
        "whole_ids": trie.ids[whole],
        "whole_at": at[whole],
        "begun_ids": trie.ids[begun],
        "begun_at": at[begun],
        "begun_set": np.array(which, np.int32),
        "begun_ranges": np.array(ranges, np.int32).reshape(-1),
        "leaving_ids": trie.ids[leaving],
        "leaving_at": at[leaving],
        "suffix": np.array(suffix, np.int32),
        "suffix_lengths": suffix_lengths,
        "suffix_text": suffix_text,
    }


class _Reader:
    """What each vertex of a byte trie is, read as the inside of a JSON string.

    ``status`` says whether its bytes are whole characters, begin another one, or have closed the
    string; ``owner`` is the vertex of the last whole character, ``code`` that character, and
    ``depth`` the number of characters.
    """

    def __init__(self, trie: TokenTrie) -> None:
        self._trie = trie
        self.status = np.zeros(trie.size, np.int8)
        self.owner: Ids = np.zeros(trie.size, np.int32)
        self.code: Ids = np.full(trie.size, -1, np.int32)
        self.depth: Ids = np.zeros(trie.size, np.int32)
        self._width = np.zeros(trie.size, np.int8)
        self._left = np.zeros(trie.size, np.int8)
        self.status[0] = _WHOLE
        for first, last in zip(trie.levels[1:], trie.levels[2:], strict=False):
            self._read_level(first, last)

    def _read_level(self, first: int, last: int) -> None:
        trie, status = self._trie, self.status
        live = np.flatnonzero(status[trie.parent[first:last]])
        vertices = first + live
        above = trie.parent[vertices]
        byte = trie.byte[vertices].astype(np.int32)
        before = status[above]
        now = np.zeros(len(vertices), np.int8)
        self.owner[vertices] = self.owner[above]

        whole = before == _WHOLE
        now[(before == _BEYOND) | (whole & (byte == _QUOTE))] = _BEYOND
        now[whole & (byte == _BACKSLASH)] = _ESCAPE
        plain = whole & (byte >= 0x20) & (byte < 0x80) & (now == _DEAD)
        now[plain] = _WHOLE
        self.code[vertices[plain]] = byte[plain]
        for width, low, high, bits in _LEADS:
            lead = whole & (byte >= low) & (byte <= high)
            now[lead] = _UTF8
            self.code[vertices[lead]] = byte[lead] & bits
            self._width[vertices[lead]] = width
            self._left[vertices[lead]] = width - 1
        goes_on = np.flatnonzero((before == _UTF8) & (byte >> 6 == 2))
        now[goes_on] = self._read_utf8(vertices[goes_on], above[goes_on], byte[goes_on])
        for index in np.flatnonzero(before == _ESCAPE).tolist():
            text = self.text(int(vertices[index]))
            written = written_escape(text)
            if written is not None:
                now[index] = _WHOLE
                self.code[vertices[index]] = written
            elif begun_escape(text) is not None:
                now[index] = _ESCAPE
        status[vertices] = now
        ended = vertices[now == _WHOLE]
        self.depth[ended] = self.depth[self.owner[ended]] + 1
        self.owner[ended] = ended

    def _read_utf8(self, vertices: npt.NDArray[Any], above: Ids, byte: Ids) -> npt.NDArray[np.int8]:
        code = self.code[above] << 6 | (byte & 0x3F)
        width, left = self._width[above], self._left[above] - 1
        self.code[vertices], self._width[vertices], self._left[vertices] = code, width, left
        room = 6 * left.astype(np.int32)
        low, high = code << room, (code + 1 << room) - 1
        possible = (high >= _LEAST[width]) & (low <= _MOST[width])
        possible &= (low < 0xD800) | (high > 0xDFFF)
        status = np.where(left == 0, _WHOLE, _UTF8)
        return np.where(possible, status, _DEAD).astype(np.int8)

    def text(self, vertex: int) -> bytes:
        """Return the bytes between the last whole character and a vertex."""
        text = bytearray()
        owner = int(self.owner[vertex])
        while vertex != owner:
            text.append(self._trie.byte[vertex])
            vertex = int(self._trie.parent[vertex])
        return bytes(reversed(text))

    def may_become(self, vertex: int) -> CodePointSet:
        """Return the characters that one begun at a vertex may become."""
        if self.status[vertex] == _ESCAPE:
            return begun_escape(self.text(vertex)) or CodePointSet([])
        room, width = 6 * int(self._left[vertex]), int(self._width[vertex])
        low = int(self.code[vertex]) << room
        whole = code_points(int(_LEAST[width]), int(_MOST[width]))
        return whole & code_points(low, low + (1 << room) - 1)

    def by_level(self) -> Ids:
        """Return the vertices of whole characters by depth, children of a vertex together."""
        found = np.flatnonzero(self.status == _WHOLE)
        number = np.zeros(self._trie.size, np.int32)
        parts: list[Ids] = []
        count = 0
        depth = self.depth[found]
        for level in range(int(depth.max()) + 1):
            vertices = found[depth == level]
            if level:
                above = number[self.owner[self._trie.parent[vertices]]]
                vertices = vertices[np.argsort(above, kind="stable")]
            number[vertices] = count + np.arange(len(vertices))
            count += len(vertices)
            parts.append(vertices)
        return np.concatenate(parts)
