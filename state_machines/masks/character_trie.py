"""The tokens that can occur inside a JSON string, as a trie over the characters that they write.

Patterns, lengths and names are languages of characters. Walking them over characters needs no
byte-level states for UTF-8 and escapes. The bytes of a token after its last whole character are
stored separately: they begin another character, or close the string and write a suffix.
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
from state_machines.masks.token_trie import Ids, TokenTrie, first_children
from state_machines.vocabulary.tables import Arrays, pack, unpack

_CHARACTER_SETS = 1024
"""Character sets whose arrays over the characters of a vocabulary are stored."""

_DEAD, _WHOLE, _UTF8, _ESCAPE, _BEYOND = range(5)
_QUOTE, _BACKSLASH = 0x22, 0x5C
_LEADS = ((2, 0xC2, 0xDF, 0x1F), (3, 0xE0, 0xEF, 0x0F), (4, 0xF0, 0xF4, 0x07))
_MIN_CODE = np.array([0, 0, 0x80, 0x800, 0x10000])
_MAX_CODE = np.array([0, 0, 0x7FF, 0xFFFF, 0x10FFFF])
_CODE_POINTS = 0x110000
Flags = npt.NDArray[np.bool_]


class Letters:
    """A character set over a trie.

    Attributes:
        ranges: The letters of the set, as ranges of indices of the alphabet, both ends included.
        begun: By number of a set of begun characters, whether it intersects the set.
    """

    __slots__ = ("begun", "ranges")

    def __init__(self, ranges: tuple[tuple[int, int], ...], begun: Flags) -> None:
        self.ranges = ranges
        self.begun = begun


class CharacterTrie:
    """The tokens of a byte trie, read as the inside of a JSON string.

    Vertices are spellings of whole characters, numbered level by level: level *d* has those of *d*
    characters, the children of a vertex are adjacent, and the root is 0. A text with two spellings
    has two vertices. All arrays are int32; *n* is the number of vertices.

    Attributes:
        levels: Offsets of the levels.
        depth: Number of characters: shape (n,).
        parent: Parent of each vertex: shape (n,).
        first_child: The children of *v* are ``first_child[v]`` to before ``first_child[v + 1]``.
        alphabet: The characters that occur, ascending.
        letter: The last character of each vertex, as an index of ``alphabet``: shape (n,).
        whole_ids: Tokens that end with a whole character.
        whole_at: The vertices of ``whole_ids``.
        begun_ids: Tokens that begin another character.
        begun_at: The vertices of the last whole characters of ``begun_ids``.
        begun_set: For each of ``begun_ids``, the number of the set of characters that it begins.
        begun_ranges: The ranges of the sets: first character, last character, number of the set.
        leaving_ids: Tokens that close the string, sorted by vertex.
        leaving_at: The vertices of the last characters of ``leaving_ids``.
        suffix: For each of ``leaving_ids``, the index in ``suffixes`` of the text after the quote.
        suffixes: The texts that tokens write after the quote.
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
        self.begun_ranges: Ids = arrays["begun_ranges"].reshape(-1, 3)
        self.begun_sets = int(self.begun_set.max(initial=-1)) + 1
        self.leaving_ids: Ids = arrays["leaving_ids"]
        self.leaving_at: Ids = arrays["leaving_at"]
        self.suffix: Ids = arrays["suffix"]
        self.suffixes = unpack(arrays["suffix_lengths"], arrays["suffix_text"])
        self._letters: LruCache[CodePointSet, Letters] = LruCache(_CHARACTER_SETS)

    def letters(self, members: CodePointSet) -> Letters:
        """Return a character set over this trie."""
        known = self._letters.get(members)
        return known or self._letters.put(members, self._find_letters(members))

    def _find_letters(self, members: CodePointSet) -> Letters:
        bounds = np.array(members.ranges, np.int64).reshape(-1, 2)
        first = np.searchsorted(self.alphabet, bounds[:, 0])
        last = np.searchsorted(self.alphabet, bounds[:, 1], side="right")
        ends = zip(first.tolist(), last.tolist(), strict=True)
        ranges = tuple((low, high - 1) for low, high in ends if low < high)
        low, high, which = self.begun_ranges.T
        nearest = np.searchsorted(bounds[:, 1], low)
        starts = np.append(bounds[:, 0], np.iinfo(np.int64).max)
        begun = np.zeros(self.begun_sets, np.bool_)
        begun[which[starts[nearest] <= high]] = True
        return Letters(ranges, begun)

    def spelling(self, vertex: int, letter: int) -> Sequence[int]:
        """Return the children of a vertex by a letter."""
        if vertex == 0:
            return self._at_root.get(letter, ())
        children = range(self.first_child[vertex], self.first_child[vertex + 1])
        return [child for child in children if self.letter[child] == letter]

    def ending(self, word: str) -> Ids:
        """Return the leaving tokens that write a word, in any spelling, before the quote."""
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
    """Return the arrays of a :class:`CharacterTrie`, by the names of its attributes.

    ``begun_ranges`` has rows of first character, last character and number of the set. The suffixes
    are concatenated, with their lengths beside them.
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
    """Return the arrays of tokens and of the vertices of their last whole characters."""
    status = reader.status[trie.vertex_of]
    at = number[reader.owner[trie.vertex_of]]
    whole = status == _WHOLE

    begun = np.flatnonzero((status == _UTF8) | (status == _ESCAPE))
    sets: dict[CodePointSet, int] = {}
    which = [
        sets.setdefault(reader.begun_characters(vertex), len(sets))
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
    """Reads the vertices of a byte trie as the inside of a JSON string.

    Attributes:
        status: Whether the bytes of a vertex are whole characters, begin another one, or have
            closed the string.
        owner: The vertex of the last whole character.
        code: That character.
        depth: The number of whole characters.
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
        continued = np.flatnonzero((before == _UTF8) & (byte >> 6 == 2))
        now[continued] = self._read_utf8(vertices[continued], above[continued], byte[continued])
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
        missing_bits = 6 * left.astype(np.int32)
        low, high = code << missing_bits, (code + 1 << missing_bits) - 1
        possible = (high >= _MIN_CODE[width]) & (low <= _MAX_CODE[width])
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

    def begun_characters(self, vertex: int) -> CodePointSet:
        """Return the characters that the bytes of a vertex begin."""
        if self.status[vertex] == _ESCAPE:
            return begun_escape(self.text(vertex)) or CodePointSet([])
        room, width = 6 * int(self._left[vertex]), int(self._width[vertex])
        low = int(self.code[vertex]) << room
        whole = code_points(int(_MIN_CODE[width]), int(_MAX_CODE[width]))
        return whole & code_points(low, low + (1 << room) - 1)

    def by_level(self) -> Ids:
        """Return the vertices of whole characters by depth, with siblings adjacent."""
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
