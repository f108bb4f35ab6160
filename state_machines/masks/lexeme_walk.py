"""The walk of a *lexeme*, a regular stretch such as the inside of a string, over all tokens.

A state is usually (rest of a lexeme L) followed by (the rest K). What L makes of the tokens does
not depend on K: some tokens stay inside L, others leave it with a suffix beyond. So L is walked
once for a vocabulary, whatever the schema, and K is only asked which of the distinct suffixes it
accepts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from state_machines.grammar.capture import Continuation
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.symbols import bytes_in
from state_machines.masks.recent import RecentWeak
from state_machines.masks.token_trie import Ids, TokenTrie, joined
from state_machines.masks.trie_walk import TrieWalk

__all__ = [
    "MAX_VISITS",
    "Beyond",
    "LexemeWalk",
    "Suffixes",
    "full_walk",
    "narrow_walk",
    "states_at_vertices",
]

Mask = npt.NDArray[np.bool_]

MAX_CONTINUATIONS = 2048
"""Rests of which it is remembered what they accept."""


class Suffixes:
    """Texts that tokens write beyond the end of a lexeme, by number; the empty one is left out."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self.texts = [text for text in dict.fromkeys(texts) if text]
        self.numbers = {text: number for number, text in enumerate(self.texts)}
        self._walk: TrieWalk | None = None
        self._accepted: RecentWeak[Node, frozenset[int]] = RecentWeak(MAX_CONTINUATIONS)
        self._unsure: dict[type[Continuation], frozenset[int]] = {}

    def accepted(self, rest: Node) -> frozenset[int]:
        """Return the numbers of the texts that a node can begin with."""
        known = self._accepted.get(rest)
        if known is None:
            if self._walk is None:
                self._walk = TrieWalk(TokenTrie.of_texts(self.texts))
            known = self._accepted.put(rest, frozenset(self._walk.tokens(rest)))
        return known

    def unsure(self, then: Continuation) -> frozenset[int]:
        """Return the numbers of the texts that must be looked at with what was captured known."""
        if then.is_unsure:
            return frozenset(range(len(self.texts)))
        known = self._unsure.get(type(then))
        if known is None:
            found = (n for n, text in enumerate(self.texts) if then.may_end_another(text))
            known = self._unsure[type(then)] = frozenset(found)
        return known


class Beyond:
    """Tokens that go on beyond a lexeme: ``ids``, and for each the number of its suffix.

    Both are int32, shape (tokens,), in the order of the numbers.
    """

    __slots__ = ("_starts", "ids", "suffix", "suffixes")

    def __init__(self, ids: Ids, suffix: Ids, suffixes: Suffixes) -> None:
        self.ids = ids
        self.suffix = suffix
        self.suffixes = suffixes
        self._starts: list[int] = np.searchsorted(
            suffix, np.arange(len(suffixes.texts) + 1, dtype=np.int32)
        ).tolist()

    @classmethod
    def sorted(cls, ids: Ids, suffix: Ids, suffixes: Suffixes) -> Beyond:
        """Return tokens that may stand in any order."""
        order = np.argsort(suffix, kind="stable")
        return cls(ids[order], suffix[order], suffixes)

    def tokens(self, numbers: Iterable[int]) -> Ids:
        """Return the tokens whose suffixes have the given numbers."""
        starts, ids = self._starts, self.ids
        return joined([ids[starts[number] : starts[number + 1]] for number in numbers])


class LexemeWalk:
    """What a lexeme makes of every token of a vocabulary.

    ``inside``: bool, shape (vocabulary size,), read-only: the tokens that stay inside the lexeme
    or end with it; ``beyond``: those that go on.
    """

    __slots__ = ("__weakref__", "_inside_ids", "inside")

    leads: Sequence[bytes] | None = None
    """The byte strings before the text of a JSON string, if the lexeme is such."""

    def __init__(self, inside: Mask) -> None:
        inside.flags.writeable = False
        self.inside = inside
        self._inside_ids: Ids | None = None

    @property
    def inside_ids(self) -> Ids:
        """The tokens of ``inside``, as ids."""
        if self._inside_ids is None:
            self._inside_ids = np.flatnonzero(self.inside).astype(np.int32)
        return self._inside_ids

    @property
    def beyond(self) -> Beyond:
        """The tokens that go on beyond the lexeme."""
        raise NotImplementedError  # pragma: no cover - abstract

    def leaving_ids(self) -> Ids:
        """Return all tokens that end the lexeme and those that go on beyond it."""
        raise NotImplementedError  # pragma: no cover - abstract

    def ending(self, word: str) -> Ids:
        """Return the tokens that write the rest of a JSON string, in any spelling, and close it."""
        raise NotImplementedError  # pragma: no cover - strings give it


class VertexWalk(LexemeWalk):
    """A lexeme walked over a token trie: ``exits`` are the vertices where it may end."""

    __slots__ = ("_beyond", "_exits", "_trie")

    def __init__(self, inside: Mask, exits: list[int], trie: TokenTrie) -> None:
        super().__init__(inside)
        self._exits = exits
        self._trie = trie
        self._beyond: Beyond | None = None

    @property
    def beyond(self) -> Beyond:
        """The tokens that go on beyond the lexeme."""
        if self._beyond is None:
            below = self._trie.tokens_below
            found = [pair for vertex in self._exits for pair in below(vertex)]
            suffixes = Suffixes(text for text, _ in found)
            numbers = np.array([suffixes.numbers[text] for text, _ in found], np.int32)
            suffix = np.repeat(numbers, [len(ids) for _, ids in found])
            self._beyond = Beyond.sorted(joined([ids for _, ids in found]), suffix, suffixes)
        return self._beyond

    def leaving_ids(self) -> Ids:
        """Return all tokens that end the lexeme and those that go on beyond it."""
        parts = [self._trie.tokens_from(vertex) for vertex in self._exits]
        return np.unique(joined(parts)).astype(np.int32)


def full_walk(lexeme: Node, trie: TokenTrie, vocabulary_size: int) -> VertexWalk:
    """Walk the whole trie, level by level, in whole-array operations."""
    states, nodes = states_at_vertices(lexeme, trie)
    inside = np.zeros(vocabulary_size, np.bool_)
    inside[trie.ids] = states[trie.vertex_of] > 0
    nullable = np.fromiter((node.nullable for node in nodes), np.bool_, len(nodes))
    exits = np.flatnonzero(nullable[states])
    return VertexWalk(inside, exits[exits > 0].tolist(), trie)


MAX_VISITS = 1500
"""Vertices that a walk visits one by one before whole-array operations are quicker."""


def narrow_walk(lexeme: Node, trie: TokenTrie, vocabulary_size: int) -> VertexWalk:
    """Walk the trie vertex by vertex.

    Raises :class:`OverflowError` when these are not few.
    """
    found: list[int] = []
    exits: list[int] = []
    visits = 0
    stack = [(lexeme, 0)]
    while stack:
        node, vertex = stack.pop()
        for byte in bytes_in(node.first_bytes & trie.bytes_below(vertex)):
            visits += 1
            child = trie.child(vertex, byte, found)
            target = node.derivative(byte)
            if target.nullable:
                exits.append(child)
            if trie.has_children(child):
                stack.append((target, child))
        if visits > MAX_VISITS:
            raise OverflowError(f"more than {MAX_VISITS} vertices are alive")
    inside = np.zeros(vocabulary_size, np.bool_)
    inside[found] = True
    return VertexWalk(inside, exits, trie)


def states_at_vertices(lexeme: Node, trie: TokenTrie) -> tuple[Ids, list[Node]]:
    """Return the number of the lexeme's state at every vertex, and the states by number.

    The numbers are int32, shape (vertices,); 0 is the dead state, 1 the lexeme itself.
    """
    nodes: list[Node] = [EMPTY, lexeme]
    numbers = {EMPTY: 0, lexeme: 1}
    table = np.zeros((16, 256), np.int32)
    expanded = np.zeros(16, np.bool_)
    expanded[0] = True
    states = np.zeros(trie.size, np.int32)
    states[0] = 1
    for end, below in zip(trie.levels[1:], trie.levels[2:], strict=False):
        above = states[trie.parent[end:below]]
        # Not those where no token goes on: their rows would be for nothing.
        present = np.zeros(len(nodes), np.bool_)
        present[above] = True
        if not present[1:].any():
            break
        for number in np.flatnonzero(present & ~expanded[: len(nodes)]).tolist():
            for symbols, target in nodes[number].row:
                known = numbers.get(target)
                if known is None:
                    known = numbers[target] = len(nodes)
                    nodes.append(target)
                table[number, bytes_in(symbols)] = known
            expanded[number] = True
            if len(nodes) >= len(table):
                room = 2 * len(nodes)
                table = np.concatenate((table, np.zeros((room, 256), np.int32)))
                expanded = np.concatenate((expanded, np.zeros(room, np.bool_)))
        states[end:below] = table[above, trie.byte[end:below]]
    return states, nodes
