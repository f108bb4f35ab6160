"""The tokens of a vocabulary as a trie over their bytes, in arrays.

Vertices are numbered level by level, so the children of a vertex are adjacent and a level is a
slice; the root is 0. Walks over many vertices use whole-array operations.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from state_machines.caches import LruCache
from state_machines.grammar.symbols import byte_set, bytes_in
from state_machines.masks.state_table import CHARACTERS, CLASS_OF, LAST_ASCII, WHOLE_CHARACTERS
from state_machines.vocabulary import Vocabulary
from state_machines.vocabulary.array_file import ArrayGroups, Arrays, pack

MANY_CHILDREN = 24
"""Children from which on they are searched by their bytes."""

_TEXTS_FROM = 1 << 16
"""Texts of tokens from vertices that are cached."""

_TRIE_TEXTS = 20_000
"""Texts whose vertex in a trie of tokens is stored."""

Ids = npt.NDArray[np.int32]

_VERTEX_TOKENS = [
    ("classes", np.uint64),
    *((name, np.int32) for name in ("low", "end", "high", "depth_and_byte")),
]
VERTEX = np.dtype([*_VERTEX_TOKENS, ("first_child", np.int32), ("end_child", np.int32)])
"""``trie_vertex`` of ``walk.c``; see :mod:`~state_machines.masks.state_table`."""

ORDERED_VERTEX = np.dtype([*_VERTEX_TOKENS, ("after", np.int32), ("number", np.int32)])
"""``ordered_vertex`` of ``walk.c``."""

_NONE, _SEVERAL = -1, -2
"""In place of the id of the only token that ends at a vertex."""


class TokenTrie:
    """A trie of all tokens, special tokens by their forms.

    With *n* vertices and *t* tokens, which are ranked by their bytes:

    Attributes:
        parent: The parent of each vertex; -1 for the root: int32, shape (n,).
        byte: The byte that leads to each vertex: uint8, shape (n,).
        levels: Offsets of the levels: level *d* is ``levels[d]:levels[d + 1]``.
        ids: Token ids by rank: int32, shape (t,).
        vertex_of: The vertices where tokens end, by rank: int32, shape (t,).
        low: See ``high``.
        end: See ``high``.
        high: int32, shape (n,), like ``low`` and ``end``. The tokens that begin with the bytes of a
            vertex have the ranks ``low:high``; the first of them, ``low:end``, end there.
        tables: The store of the arrays that are derived from the vocabulary.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._read([form or b"" for form in vocabulary.token_bytes], vocabulary.tables)

    @classmethod
    def of_texts(cls, texts: Sequence[bytes]) -> TokenTrie:
        """Return a trie of non-empty byte strings; their ids are their indices."""
        trie = cls.__new__(cls)
        trie._read(texts, ArrayGroups())
        return trie

    def _read(self, forms: Sequence[bytes], tables: ArrayGroups) -> None:
        self.tables = tables
        arrays = self.tables.group("token_trie", lambda: _arrays(forms))
        self.parent: Ids = arrays["parent"]
        self.byte: npt.NDArray[np.uint8] = arrays["byte"]
        self.low: Ids = arrays["low"]
        self.high: Ids = arrays["high"]
        self.levels: list[int] = arrays["levels"].tolist()
        self.ids: Ids = arrays["ids"]
        self.vertex_of: Ids = arrays["vertex_of"]
        counts = np.bincount(self.vertex_of, minlength=self.size).astype(np.int32)
        self.first_child: Ids = first_children(self.parent)
        # array.array is fast to index by single integers, and the garbage collector skips it.
        self._first_child = array("i", self.first_child.tobytes())
        self._low = array("i", self.low.tobytes())
        self.end: Ids = self.low + counts
        self._end = array("i", self.end.tobytes())
        self._marks = self.byte.tobytes()
        only = np.append(self.ids, _NONE)[np.where(counts == 1, self.low, len(self.ids))]
        only[counts > 1] = _SEVERAL
        self._only = array("i", only.astype(np.int32).tobytes())
        self._vertices: dict[bytes, int | None] = {}
        self._counts: dict[int, int] = {}
        self._of_byte: dict[int, Ids] = {}
        self._texts_from: LruCache[int, tuple[bytes, ...]] = LruCache(_TEXTS_FROM)
        self._bytes_below: dict[int, int] = {}

    @cached_property
    def letter(self) -> Ids:
        """The byte that leads to a vertex: int32, shape (n,)."""
        return self.byte.astype(np.int32)

    @cached_property
    def depth(self) -> Ids:
        """The number of bytes that lead to a vertex: int32, shape (n,)."""
        counts = np.diff(self.levels)
        return np.repeat(np.arange(len(counts), dtype=np.int32), counts)

    @cached_property
    def characters(self) -> Ids:
        """The number of characters that begin on the path to a vertex: int32, shape (n,)."""
        counts: Ids = (self.byte & 0xC0 != 0x80).astype(np.int32)
        counts[0] = 0
        for first, last in zip(self.levels[1:], self.levels[2:], strict=False):
            counts[first:last] += counts[self.parent[first:last]]
        return counts

    @cached_property
    def vertices_from(self) -> Ids:
        """The number of vertices at and below a vertex: int32, shape (n,)."""
        counts: Ids = np.ones(self.size, np.int32)
        for first, last in zip(self.levels[-2:0:-1], self.levels[:1:-1], strict=True):
            above = self.parent[first:last]
            counts[:first] += np.bincount(above, counts[first:last], first).astype(np.int32)
        return counts

    @cached_property
    def vertices(self) -> npt.NDArray[np.void]:
        """The vertices as ``walk.c`` reads them: ``trie_vertex``, shape (n,)."""
        found = np.zeros(self.size, VERTEX)
        found["first_child"] = self.first_child[:-1]
        found["end_child"] = self.first_child[1:]
        found["classes"] = self._classes()
        found["depth_and_byte"] = 256 * self.depth + self.byte
        for name in ("low", "end", "high"):
            found[name] = getattr(self, name)
        return found

    @cached_property
    def ordered(self) -> tuple[npt.NDArray[np.void], Ids]:
        """The vertices in the order of their texts, which walks of many vertices read.

        ``ordered_vertex``, and the index of each vertex there, int32; both of shape (n,).
        """
        index: Ids = np.zeros(self.size, np.int32)
        for first, last in zip(self.levels[1:], self.levels[2:], strict=False):
            parents = self.parent[first:last]
            before = np.cumsum(self.vertices_from[first:last]) - self.vertices_from[first:last]
            within = before - before[self.first_child[parents] - first]
            index[first:last] = index[parents] + 1 + within
        found = np.zeros(self.size, ORDERED_VERTEX)
        for name, _ in _VERTEX_TOKENS:
            found[name][index] = self.vertices[name]
        found["after"][index] = index + self.vertices_from
        found["number"][index] = np.arange(self.size)
        return found, index

    def _classes(self) -> npt.NDArray[np.uint64]:
        """Return the classes of the bytes below each vertex, as a set: uint64, shape (n,).

        Bytes beyond ASCII are one class where all tokens below a vertex write whole characters.
        """
        found = np.zeros(self.size, np.uint64)
        own = np.uint64(1) << CLASS_OF[self.byte].astype(np.uint64)
        wide = np.where(self.byte > LAST_ASCII, np.uint64(WHOLE_CHARACTERS), own)
        whole = np.zeros(self.size, np.uint64)
        missing = self._missing_bytes()
        counts = self.end - self.low
        broken = (missing < 0) | ((counts > 0) & (missing > 0))
        breaks = np.zeros(self.size, np.bool_)
        for first, last in zip(self.levels[-2:0:-1], self.levels[:1:-1], strict=True):
            # The children of a vertex are adjacent, so each parent has one range.
            parents, starts = np.unique(self.parent[first:last], return_index=True)
            found[parents] = np.bitwise_or.reduceat(found[first:last] | own[first:last], starts)
            whole[parents] = np.bitwise_or.reduceat(whole[first:last] | wide[first:last], starts)
            below = breaks[first:last] | broken[first:last]
            breaks[parents] = np.logical_or.reduceat(below, starts)
        return np.where((missing == 0) & ~breaks, whole, found)

    def _missing_bytes(self) -> Ids:
        """Return how many bytes complete the last character at each vertex: int32, shape (n,).

        -1 where the bytes are not the beginning of a text in UTF-8.
        """
        # A state is a character and the number of its bytes that have been read; 0 is between two.
        state_of: dict[tuple[int, ...], int] = {(): 0}
        for sets in CHARACTERS:
            for read in range(1, len(sets)):
                state_of.setdefault(sets[read:], len(state_of))
        after = np.full((len(state_of), 256), -1, np.int32)
        after[0, : LAST_ASCII + 1] = 0
        for sets in CHARACTERS:
            after[0, list(bytes_in(sets[0]))] = state_of[sets[1:]]
        for rest, number in state_of.items():
            if rest:
                after[number, list(bytes_in(rest[0]))] = state_of[rest[1:]]
        states = np.zeros(self.size, np.int32)
        for first, last in zip(self.levels[1:], self.levels[2:], strict=False):
            above = states[self.parent[first:last]]
            states[first:last] = np.where(above < 0, -1, after[above, self.byte[first:last]])
        missing = np.array([*map(len, state_of), -1], np.int32)
        return missing[states]

    @property
    def size(self) -> int:
        """The number of vertices."""
        return len(self.parent)

    def children(self, vertex: int) -> range:
        """Return the children of a vertex."""
        return range(self._first_child[vertex], self._first_child[vertex + 1])

    def children_of(self, vertices: Ids) -> Ids:
        """Return the children of several vertices: int32."""
        first, last = self.first_child[vertices], self.first_child[vertices + 1]
        return intervals(first, last).astype(np.int32)

    def path(self, text: bytes, vertex: int = 0) -> list[int]:
        """Return the vertices along a text below a vertex, as far as tokens have that text."""
        path: list[int] = []
        for byte in text:
            first, last = self._first_child[vertex], self._first_child[vertex + 1]
            vertex = self._marks.find(byte, first, last)
            if vertex < 0:
                break
            path.append(vertex)
        return path

    def vertex(self, text: bytes) -> int | None:
        """Return the vertex of a text; ``None`` if no token begins with it."""
        known = self._vertices.get(text, -1)
        if known == -1:
            path = self.path(text)
            known = path[-1] if len(path) == len(text) else None
            if len(self._vertices) >= _TRIE_TEXTS:
                self._vertices.clear()
            self._vertices[text] = known
        return known

    def text(self, vertex: int) -> bytes:
        """Return the bytes that lead to a vertex."""
        marks = bytearray()
        while vertex:
            marks.append(self._marks[vertex])
            vertex = int(self.parent[vertex])
        return bytes(marks[::-1])

    def has_children(self, vertex: int) -> bool:
        """Whether a token is longer than the text of the vertex and begins with it."""
        return self._first_child[vertex] < self._first_child[vertex + 1]

    def follow(self, text: bytes, vertex: int, found: list[int]) -> int | None:
        """Descend along a text, and append the ids of the tokens on the path to ``found``.

        Returns:
            The vertex at the end of the text; ``None`` if no token has the whole text.
        """
        first_child, marks, only = self._first_child, self._marks, self._only
        for byte in text:
            vertex = marks.find(byte, first_child[vertex], first_child[vertex + 1])
            if vertex < 0:
                return None
            token_id = only[vertex]
            if token_id >= 0:
                found.append(token_id)
            elif token_id == _SEVERAL:
                found += self.tokens_at(vertex).tolist()
        return vertex

    def endings_of(self, text: bytes, position: int) -> list[int]:
        """Return the lengths of the tokens that occur at a position of a text, ascending."""
        first_child, marks, low, end = self._first_child, self._marks, self._low, self._end
        found: list[int] = []
        vertex = 0
        for at in range(position, len(text)):
            vertex = marks.find(text[at], first_child[vertex], first_child[vertex + 1])
            if vertex < 0:
                break
            if low[vertex] < end[vertex]:
                found.append(at + 1 - position)
        return found

    def byte_at(self, vertex: int) -> int:
        """Return the byte that leads to a vertex."""
        return self._marks[vertex]

    def bytes_below(self, vertex: int) -> int:
        """Return the set of bytes that lead from a vertex to its children."""
        known = self._bytes_below.get(vertex)
        if known is None:
            if len(self._bytes_below) >= _TRIE_TEXTS:
                self._bytes_below.clear()
            below = self._marks[self._first_child[vertex] : self._first_child[vertex + 1]]
            known = self._bytes_below[vertex] = byte_set(below)
        return known

    def child(self, vertex: int, byte: int, found: list[int]) -> int:
        """Return a child by its byte, and append the ids of the tokens there to ``found``."""
        vertex = self._marks.find(byte, self._first_child[vertex], self._first_child[vertex + 1])
        token_id = self._only[vertex]
        if token_id >= 0:
            found.append(token_id)
        elif token_id == _SEVERAL:
            found += self.tokens_at(vertex).tolist()
        return vertex

    def descend(self, vertex: int, first: int, found: list[int]) -> list[tuple[int, int]]:
        """Visit the children of a vertex whose bytes are in a set.

        Args:
            vertex: The vertex.
            first: The set of bytes.
            found: Gets the ids of the tokens that end at these children.

        Returns:
            The bytes and vertices of those children that have children.
        """
        first_child, marks, only = self._first_child, self._marks, self._only
        low, high = first_child[vertex], first_child[vertex + 1]
        if high - low > MANY_CHILDREN:
            children = [marks.find(byte, low, high) for byte in bytes_in(first)]
        else:
            children = [child for child in range(low, high) if first >> marks[child] & 1]
        inner: list[tuple[int, int]] = []
        for child in children:
            if child < 0:
                continue
            token_id = only[child]
            if token_id >= 0:
                found.append(token_id)
            elif token_id == _SEVERAL:
                found += self.tokens_at(child).tolist()
            if first_child[child] < first_child[child + 1]:
                inner.append((marks[child], child))
        return inner

    def add_tokens_at(self, vertex: int, found: list[int]) -> None:
        """Append the ids of the tokens that end at a vertex to ``found``."""
        token_id = self._only[vertex]
        if token_id >= 0:
            found.append(token_id)
        elif token_id == _SEVERAL:
            found += self.tokens_at(vertex).tolist()

    def has_tokens(self, vertex: int) -> bool:
        """Whether a token ends at the vertex."""
        return self._low[vertex] < self._end[vertex]

    def tokens_at(self, vertex: int) -> Ids:
        """Return the ids of the tokens that end at a vertex."""
        return self.ids[self._low[vertex] : self._end[vertex]]

    def tokens_at_all(self, vertices: npt.NDArray[Any]) -> Ids:
        """Return the ids of the tokens that end at any of several vertices."""
        first, last = self.low[vertices], self.end[vertices]
        return self.ids[intervals(first, last)]

    def tokens_from_all(self, vertices: list[int]) -> Ids:
        """Return the ids of :meth:`tokens_from` of several vertices, one after another."""
        first, last = self.low[vertices], self.high[vertices]
        return self.ids[intervals(first, last)]

    def vertices_of(self, byte: int) -> Ids:
        """Return the vertices that a byte leads to: int32, ascending."""
        known = self._of_byte.get(byte)
        if known is None:
            known = self._of_byte[byte] = np.flatnonzero(self.byte == byte).astype(np.int32)
        return known

    def tokens_from(self, vertex: int) -> Ids:
        """Return the ids of the tokens that begin with a vertex's bytes."""
        return self.ids[self._low[vertex] : self.high[vertex]]

    def count_from_root(self, first: int) -> int:
        """Return the number of tokens that begin with a byte of the set ``first``."""
        known = self._counts.get(first)
        if known is None:
            vertices = [child for child in self.children(0) if first >> self._marks[child] & 1]
            known = int((self.high[vertices] - self.low[vertices]).sum())
            if len(self._counts) >= _TRIE_TEXTS:
                self._counts.clear()
            self._counts[first] = known
        return known

    def texts_from(self, vertex: int) -> tuple[bytes, ...]:
        """Return the text of each token of :meth:`tokens_from`, from the vertex's own byte on."""
        known = self._texts_from.get(vertex)
        if known is None:
            found: list[bytes] = []
            stack = [(vertex, self._marks[vertex : vertex + 1])]
            while stack:
                at, text = stack.pop()
                found += [text] * (self._end[at] - self._low[at])
                for child in reversed(self.children(at)):
                    stack.append((child, text + self._marks[child : child + 1]))
            known = self._texts_from.put(vertex, tuple(found), 1 + len(found))
        return known

    def tokens_below(self, vertex: int) -> Iterator[tuple[bytes, Ids]]:
        """Yield (text beyond the vertex, token ids) for all tokens below a vertex."""
        stack = [(vertex, b"")]
        while stack:
            at, text = stack.pop()
            for child in self.children(at):
                beyond = text + self._marks[child : child + 1]
                if self.has_tokens(child):
                    yield beyond, self.tokens_at(child)
                stack.append((child, beyond))


def _arrays(forms: Sequence[bytes]) -> Arrays:
    """Return the arrays of a :class:`TokenTrie`; empty forms are left out."""
    ranked = [token_id for token_id, form in enumerate(forms) if form]
    ranked.sort(key=forms.__getitem__)
    lengths, text = pack([forms[token_id] for token_id in ranked])
    count = len(lengths)
    starts = np.cumsum(lengths, dtype=np.int64) - lengths

    at = np.zeros(count, np.int64)
    parents: list[Ids] = [np.array([-1], np.int32)]
    marks = [np.zeros(1, np.uint8)]
    lows = [np.zeros(1, np.int64)]
    highs = [np.full(1, count, np.int64)]
    levels = [0, 1]
    longer = np.arange(count)
    for depth in range(int(lengths.max(initial=0))):
        longer = longer[lengths[longer] > depth]
        marked = text[starts[longer] + depth]
        keys = at[longer] * 256 + marked
        is_new = np.concatenate(([True], keys[1:] != keys[:-1]))
        parents.append(at[longer][is_new].astype(np.int32))
        marks.append(marked[is_new])
        lows.append(longer[is_new])
        highs.append(lows[-1] + np.diff(np.append(np.flatnonzero(is_new), len(longer))))
        at[longer] = levels[-1] + np.cumsum(is_new) - 1
        levels.append(levels[-1] + len(lows[-1]))
    return {
        "parent": np.concatenate(parents),
        "byte": np.concatenate(marks),
        "low": np.concatenate(lows).astype(np.int32),
        "high": np.concatenate(highs).astype(np.int32),
        "levels": np.array(levels, np.int32),
        "ids": np.array(ranked, np.int32),
        "vertex_of": at.astype(np.int32),
    }


def first_children(parent: Ids) -> Ids:
    """Return the first child of each vertex, given its parent: int32, shape (n + 1,).

    The children of vertex *v* are ``first[v]`` to before ``first[v + 1]``.
    """
    counts = np.bincount(parent[1:], minlength=len(parent))
    return np.concatenate(([1], 1 + np.cumsum(counts))).astype(np.int32)


def concatenated(parts: list[Ids]) -> Ids:
    """Return the concatenation of several arrays of ids, which may be none."""
    if not parts:
        return np.zeros(0, np.int32)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def intervals(first: npt.NDArray[Any], last: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the concatenated ranges from each ``first`` to before its ``last``."""
    counts = (last - first).astype(np.int64)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    found: npt.NDArray[np.int64] = np.arange(total) + np.repeat(first - ends + counts, counts)
    return found
