"""The tokens of a vocabulary as a trie over their bytes, in arrays.

Vertices are numbered level by level, so the children of a vertex are neighbours and a level is a
slice; the root is 0. Everything that walks over many vertices does so in whole-array operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
import numpy.typing as npt

from state_machines.grammar.symbols import bytes_in
from state_machines.vocabulary import Vocabulary

__all__ = ["TokenTrie"]

Ids = npt.NDArray[np.int32]


class TokenTrie:
    """A trie of all tokens that are text (end tokens are none).

    With *n* vertices and *t* tokens:

    * ``parent``: int32, shape (n,); ``byte``: uint8, shape (n,), the byte that leads to a vertex;
    * ``levels``: offsets of the levels, so level *d* is ``levels[d]:levels[d + 1]``;
    * ``token_ids``: int32, shape (t,), ordered by vertex, and ``token_vertex``: int32, shape (t,);
    * ``first_child`` and ``first_token``: lists of length n + 1, the slices of each vertex;
    * ``below``: int32, shape (n,), the number of vertices under a vertex, itself included.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        forms = sorted(
            (form, token_id)
            for token_id, form in enumerate(vocabulary.token_bytes)
            if form is not None and token_id not in vocabulary.end_token_ids
        )
        lengths = np.fromiter((len(form) for form, _ in forms), np.int64, len(forms))
        ids = np.fromiter((token_id for _, token_id in forms), np.int32, len(forms))
        text = np.frombuffer(b"".join(form for form, _ in forms), np.uint8)
        starts = np.concatenate(([0], np.cumsum(lengths)))[:-1]

        at = np.zeros(len(forms), np.int64)
        parents: list[Ids] = [np.array([-1], np.int32)]
        marks = [np.zeros(1, np.uint8)]
        levels = [0, 1]
        for depth in range(int(lengths.max(initial=0))):
            longer = np.flatnonzero(lengths > depth)
            marked = text[starts[longer] + depth]
            keys = at[longer] * 256 + marked
            is_new = np.concatenate(([True], keys[1:] != keys[:-1]))
            parents.append(at[longer][is_new].astype(np.int32))
            marks.append(marked[is_new])
            at[longer] = levels[-1] + np.cumsum(is_new) - 1
            levels.append(levels[-1] + int(is_new.sum()))

        self.parent: Ids = np.concatenate(parents)
        self.byte: npt.NDArray[np.uint8] = np.concatenate(marks)
        self.levels = levels
        order = np.argsort(at, kind="stable")
        self.token_ids: Ids = ids[order]
        self.token_vertex: Ids = at[order].astype(np.int32)
        self._bytes = self.byte.tobytes()
        vertices = np.arange(len(self.parent) + 1)
        self.first_child: list[int] = np.searchsorted(self.parent[1:], vertices).tolist()
        self.first_child = [index + 1 for index in self.first_child]
        self.first_token: list[int] = np.searchsorted(self.token_vertex, vertices).tolist()
        self.below = self._count_below()
        self._root = {self._bytes[vertex]: vertex for vertex in self.children(0)}

    def _count_below(self) -> Ids:
        below = np.ones(len(self.parent), np.int32)
        for start, end in zip(self.levels[-2:0:-1], self.levels[:1:-1], strict=True):
            np.add.at(below, self.parent[start:end], below[start:end])
        return below

    @property
    def size(self) -> int:
        """The number of vertices."""
        return len(self.parent)

    def children(self, vertex: int) -> range:
        """Return the children of a vertex."""
        return range(self.first_child[vertex], self.first_child[vertex + 1])

    def children_in(self, vertex: int, first: int) -> Iterator[tuple[int, int]]:
        """Yield (byte, child) for the children of a vertex whose byte is in the set ``first``."""
        if vertex == 0:
            root = self._root
            return ((byte, root[byte]) for byte in bytes_in(first) if byte in root)
        marks = self._bytes
        return (
            (marks[child], child)
            for child in range(self.first_child[vertex], self.first_child[vertex + 1])
            if first >> marks[child] & 1
        )

    def has_children(self, vertex: int) -> bool:
        """Whether a token goes on beyond the vertex."""
        return self.first_child[vertex] < self.first_child[vertex + 1]

    def tokens_at(self, vertex: int) -> Ids:
        """Return the ids of the tokens that end at a vertex."""
        return self.token_ids[self.first_token[vertex] : self.first_token[vertex + 1]]

    def count_from_root(self, first: int) -> int:
        """Return the number of vertices that begin with a byte of the set ``first``."""
        root = self._root
        return sum(int(self.below[root[byte]]) for byte in bytes_in(first) if byte in root)

    def tokens_below(self, vertex: int) -> Iterator[tuple[bytes, Ids]]:
        """Yield (text beyond the vertex, token ids) for all tokens that go on beyond it."""
        stack = [(vertex, b"")]
        while stack:
            at, text = stack.pop()
            for child in self.children(at):
                beyond = text + self._bytes[child : child + 1]
                if self.first_token[child] < self.first_token[child + 1]:
                    yield beyond, self.tokens_at(child)
                stack.append((child, beyond))

    def path(self, vertex: int) -> bytes:
        """Return the bytes that lead to a vertex."""
        marks = []
        while vertex:
            marks.append(self._bytes[vertex])
            vertex = int(self.parent[vertex])
        return bytes(reversed(marks))


def joined(parts: list[Ids]) -> Ids:
    """Return several arrays of ids as one, sorted and without repetition."""
    if not parts:
        return np.zeros(0, np.int32)
    if sum(map(len, parts)) <= 64:
        return np.array(sorted(set(chain.from_iterable(map(np.ndarray.tolist, parts)))), np.int32)
    return np.unique(np.concatenate(parts))
