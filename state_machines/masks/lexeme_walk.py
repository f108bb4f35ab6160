"""The walk of a *lexeme*, a regular stretch such as the inside of a string, over all tokens.

A state is usually (rest of a lexeme L) followed by (the rest K). What L makes of the tokens does
not depend on K: some tokens stay inside L, others leave it with a suffix beyond. So L is walked
once for a vocabulary, whatever the schema, and K is only asked which of the distinct suffixes it
accepts.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import count

import numpy as np
import numpy.typing as npt

from state_machines.grammar.capture import Continuation
from state_machines.grammar.node import Node
from state_machines.grammar.symbols import byte_ranges, bytes_in
from state_machines.masks.automaton import Automaton, states_at_vertices
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
]

Mask = npt.NDArray[np.bool_]

WALK_OVERHEAD = 4000
"""Bytes of a walk beside its tokens."""

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
    """Tokens that go on beyond a lexeme, by the number of their suffix.

    ``members`` names them by number, int32, in the order of the suffixes' numbers ``suffix``.
    """

    __slots__ = ("_starts", "members", "suffixes")

    def __init__(self, members: Ids, suffix: Ids, suffixes: Suffixes) -> None:
        order = np.argsort(suffix, kind="stable")
        self.members = members[order]
        self.suffixes = suffixes
        numbers = np.arange(len(suffixes.texts) + 1, dtype=np.int32)
        self._starts = array(
            "i", np.searchsorted(suffix[order], numbers).astype(np.int32).tobytes()
        )

    def with_suffixes(self, numbers: Iterable[int]) -> Ids:
        """Return the members whose suffixes have the given numbers."""
        starts, members = self._starts, self.members
        return joined([members[starts[number] : starts[number + 1]] for number in numbers])


class LexemeWalk:
    """What a lexeme makes of every token of a vocabulary.

    Some tokens stay ``inside`` the lexeme or end with it, ``count`` of them; others go on beyond,
    with one of the ``suffixes``. ``number`` tells it from every other walk.
    """

    __slots__ = ("__weakref__", "_bits", "_size", "count", "number", "suffixes")

    leads: Sequence[bytes] | None = None
    """The byte strings before the text of a JSON string, if the lexeme is such."""

    def __init__(self, inside: Mask, suffixes: Suffixes) -> None:
        self._bits = np.packbits(inside)
        self._size = len(inside)
        self.count = int(np.count_nonzero(inside))
        self.suffixes = suffixes
        self.number = next(_NUMBERS)

    @property
    def inside(self) -> Mask:
        """The tokens that stay inside or end with the lexeme: bool, shape (vocabulary size,)."""
        return np.unpackbits(self._bits, count=self._size).view(np.bool_)

    @property
    def weight(self) -> int:
        """The bytes that the walk takes, roughly."""
        return self._bits.nbytes + WALK_OVERHEAD

    def beyond(self, numbers: Iterable[int]) -> Ids:
        """Return the tokens that go on beyond the lexeme with suffixes of the given numbers."""
        raise NotImplementedError  # pragma: no cover - abstract

    def leaving_ids(self) -> Ids:
        """Return all tokens that end the lexeme and those that go on beyond it."""
        raise NotImplementedError  # pragma: no cover - abstract

    def ending(self, word: str) -> Ids:
        """Return the tokens that write the rest of a JSON string, in any spelling, and close it."""
        raise NotImplementedError  # pragma: no cover - strings give it


_NUMBERS = count()


class VertexWalk(LexemeWalk):
    """A lexeme walked over a token trie: ``exits`` are the vertices where it may end."""

    __slots__ = ("_beyond", "_exits", "_trie")

    def __init__(self, inside: Mask, exits: list[int], trie: TokenTrie) -> None:
        found = [pair for vertex in exits for pair in trie.tokens_below(vertex)]
        suffixes = Suffixes(text for text, _ in found)
        super().__init__(inside, suffixes)
        numbers = np.array([suffixes.numbers[text] for text, _ in found], np.int32)
        suffix = np.repeat(numbers, [len(ids) for _, ids in found])
        self._beyond = Beyond(joined([ids for _, ids in found]), suffix, suffixes)
        self._exits = exits
        self._trie = trie

    @property
    def weight(self) -> int:
        """The bytes that the walk takes, roughly."""
        return super().weight + 8 * len(self._exits) + 4 * len(self._beyond.members)

    def beyond(self, numbers: Iterable[int]) -> Ids:
        """Return the tokens that go on beyond the lexeme with suffixes of the given numbers."""
        return self._beyond.with_suffixes(numbers)

    def leaving_ids(self) -> Ids:
        """Return all tokens that end the lexeme and those that go on beyond it."""
        parts = [self._trie.tokens_from(vertex) for vertex in self._exits]
        return np.unique(joined(parts)).astype(np.int32)


def full_walk(lexeme: Node, trie: TokenTrie, vocabulary_size: int) -> VertexWalk:
    """Walk the whole trie, level by level, in whole-array operations."""
    automaton = Automaton(lexeme, byte_ranges)
    states = states_at_vertices(automaton, trie)
    inside = np.zeros(vocabulary_size, np.bool_)
    inside[trie.ids] = states[trie.vertex_of] > 0
    nullable = np.array([node.nullable for node in automaton.nodes], np.bool_)
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
