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
from typing import Any, Protocol
from weakref import ref

import numpy as np
import numpy.typing as npt

from state_machines.budgets import spend
from state_machines.grammar.capture import Continuation
from state_machines.grammar.node import Node
from state_machines.grammar.symbols import byte_ranges, byte_set, bytes_in
from state_machines.limits import LIMITS
from state_machines.masks.automaton import Automaton, states_at_vertices
from state_machines.masks.token_trie import Ids, TokenTrie, joined
from state_machines.masks.trie_walk import TrieWalk

__all__ = [
    "Beyond",
    "BySuffix",
    "LexemeWalk",
    "Suffixes",
    "vertex_walk",
]

Mask = npt.NDArray[np.bool_]

WALK_OVERHEAD = 2500
"""Bytes of a walk beside its tokens."""

FEW_BYTES = 16
"""Bytes up to so many are looked for one by one."""


class Suffixes:
    """Texts that tokens write beyond the end of a lexeme, by number; the empty one is left out."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self.texts = [text for text in dict.fromkeys(texts) if text]
        self.numbers = {text: number for number, text in enumerate(self.texts)}
        self._walk: TrieWalk | None = None
        # Replaced as a whole, never changed: another thread may be reading it.
        self._accepted: tuple[tuple[ref[Node], frozenset[int]], ...] = ()
        self._unsure: dict[type[Continuation], frozenset[int]] = {}

    def accepted(self, rest: Node) -> frozenset[int]:
        """Return the numbers of the texts that a node can begin with."""
        for known, numbers in self._accepted:
            if known() is rest:
                return numbers
        walk = self._walk
        if walk is None:
            walk = self._walk = TrieWalk(TokenTrie.of_texts(self.texts))
        numbers = frozenset(walk.tokens(rest))
        self._accepted = (*self._accepted[1 - LIMITS.suffix_answers :], (ref(rest), numbers))
        return numbers

    def unsure(self, then: Continuation) -> frozenset[int]:
        """Return the numbers of the texts that must be looked at with what was captured known."""
        if then.is_unsure:
            return frozenset(range(len(self.texts)))
        known = self._unsure.get(type(then))
        if known is None:
            found = (n for n, text in enumerate(self.texts) if then.may_end_another(text))
            known = self._unsure[type(then)] = frozenset(found)
        return known


class Beyond(Protocol):
    """Tokens that go on beyond a lexeme, by the numbers of their suffixes."""

    @property
    def suffixes(self) -> Suffixes:
        """What the tokens write beyond the lexeme."""
        ...

    def tokens(self, numbers: Iterable[int]) -> Ids:
        """Return the tokens whose suffixes have the given numbers."""
        ...


class BySuffix:
    """Tokens in the order of their suffixes.

    ``ids`` and ``suffix``, the number of each one's suffix: int32, shape (tokens,).
    """

    __slots__ = ("_ids", "_starts", "suffixes")

    def __init__(self, ids: Ids, suffix: Ids, suffixes: Suffixes) -> None:
        order = np.argsort(suffix, kind="stable")
        self._ids = ids[order]
        self.suffixes = suffixes
        numbers = np.arange(len(suffixes.texts) + 1, dtype=np.int32)
        starts = np.searchsorted(suffix[order], numbers).astype(np.int32)
        self._starts = array("i", starts.tobytes())

    def tokens(self, numbers: Iterable[int]) -> Ids:
        """Return the tokens whose suffixes have the given numbers."""
        starts, ids = self._starts, self._ids
        return joined([ids[starts[number] : starts[number + 1]] for number in numbers])


class LexemeWalk:
    """What a lexeme makes of every token of a vocabulary.

    Some tokens stay ``inside`` the lexeme or end with it, ``count`` of them; others go on
    :meth:`beyond`. ``number`` tells it from every other walk.
    """

    __slots__ = ("__weakref__", "_is_listed", "_kept", "_size", "count", "number")

    leads: Sequence[bytes] | None = None
    """The byte strings before the text of a JSON string, if the lexeme is such."""

    def __init__(self, inside: Mask) -> None:
        self.count = int(np.count_nonzero(inside))
        self._size = len(inside)
        # Whichever is smaller: the tokens' ids, or a bit for every token.
        self._is_listed = 32 * self.count < self._size
        self._kept: npt.NDArray[Any]
        if self._is_listed:
            self._kept = np.flatnonzero(inside).astype(np.int32)
        else:
            self._kept = np.packbits(inside)
        self.number = next(_NUMBERS)

    @property
    def inside(self) -> Mask:
        """The tokens that stay inside or end with the lexeme: bool, shape (vocabulary size,)."""
        if not self._is_listed:
            return np.unpackbits(self._kept, count=self._size).view(np.bool_)
        found = np.zeros(self._size, np.bool_)
        found[self._kept] = True
        return found

    @property
    def weight(self) -> int:
        """The bytes that the walk takes, roughly."""
        return self._kept.nbytes + WALK_OVERHEAD

    def beyond(self, first: int) -> Beyond:
        """Return tokens that go on beyond the lexeme, at least those with a byte of a set."""
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

    __slots__ = ("_beyond", "_exits", "_led", "_trie")

    def __init__(self, inside: Mask, exits: Ids, trie: TokenTrie) -> None:
        super().__init__(inside)
        self._exits = exits
        self._trie = trie
        self._beyond: dict[int, BySuffix] = {}
        self._led: dict[int, Ids] = {}

    @property
    def weight(self) -> int:
        """The bytes that the walk takes, roughly."""
        return super().weight + 8 * len(self._exits)

    def beyond(self, first: int) -> Beyond:
        """Return the tokens that go on beyond the lexeme with a byte of a set."""
        self._look_beyond([byte for byte in bytes_in(first) if byte not in self._led])
        leading = [byte for byte in bytes_in(first) if len(self._led[byte])]
        known = self._beyond.get(byte_set(leading))
        if known is None:
            found: list[tuple[bytes, Ids]] = []
            for byte in leading:
                mark = bytes((byte,))
                for vertex in self._led[byte].tolist():
                    spend(1 + self._trie.count_from(vertex) // 8)
                    found.append((mark, self._trie.tokens_at(vertex)))
                    below = self._trie.tokens_below(vertex)
                    found.extend((mark + text, ids) for text, ids in below)
            suffixes = Suffixes(text for text, _ in found)
            numbers = np.array([suffixes.numbers[text] for text, _ in found], np.int32)
            suffix = np.repeat(numbers, [len(ids) for _, ids in found])
            made = BySuffix(joined([ids for _, ids in found]), suffix, suffixes)
            # One for all threads: masks are known by its identity.
            known = self._beyond.setdefault(byte_set(leading), made)
        return known

    def _look_beyond(self, marks: Sequence[int]) -> None:
        """Find the vertices that bytes lead to from where the lexeme may end."""
        if not marks:
            return
        # A text that may end anywhere has as many children as there are vertices.
        trie = self._trie
        is_exit = np.zeros(trie.size, np.bool_)
        is_exit[self._exits] = True
        led = np.flatnonzero(is_exit[trie.parent[1:]]) + 1
        own = trie.byte[led]
        if len(marks) > FEW_BYTES:
            order = np.argsort(own, kind="stable")
            led, own = led[order], own[order]
            starts = np.searchsorted(own, np.arange(257))
            self._led = {b: led[starts[b] : starts[b + 1]].astype(np.int32) for b in range(256)}
            return
        for byte in marks:
            self._led[byte] = led[own == byte].astype(np.int32)

    def leaving_ids(self) -> Ids:
        """Return all tokens that end the lexeme and those that go on beyond it."""
        parts = [self._trie.tokens_from(vertex) for vertex in self._exits.tolist()]
        return np.unique(joined(parts)).astype(np.int32)

    def beyond_exits(self, byte: int) -> list[int]:
        """Return the vertices a byte leads to where the lexeme may end, and not go on."""
        trie = self._trie
        may_end = np.zeros(trie.size, np.bool_)
        may_end[0] = True
        may_end[self._exits] = True
        led = np.flatnonzero(trie.byte == byte)
        return led[may_end[trie.parent[led]] & ~may_end[led]].tolist()  # type: ignore[no-any-return]

    def ending_at(self, exits: list[int]) -> VertexWalk:
        """Return the walk of a lexeme that may also go on to some vertices, and ends just there."""
        ends = np.array(exits, np.int32)
        inside = self.inside
        inside[self._trie.tokens_at_all(ends)] = True
        return VertexWalk(inside, ends, self._trie)

    def ending_late(self, least: int, *, is_over: bool) -> VertexWalk:
        """Return the walk where the lexeme ends after ``least`` characters or more.

        ``is_over``: nothing can be added where it may end, so what ends too early is no word's
        beginning.
        """
        late = self._trie.characters[self._exits] >= least
        inside = self.inside
        if is_over:
            inside[self._trie.tokens_at_all(self._exits[~late])] = False
        return VertexWalk(inside, self._exits[late], self._trie)


def vertex_walk(lexeme: Node, trie: TokenTrie, vocabulary_size: int) -> VertexWalk:
    """Walk a lexeme over the whole trie."""
    automaton = Automaton(lexeme, byte_ranges)
    states = states_at_vertices(automaton, trie)
    live = np.flatnonzero(states)[1:]
    inside = np.zeros(vocabulary_size, np.bool_)
    inside[trie.tokens_at_all(live)] = True
    nullable = np.array([node.nullable for node in automaton.nodes], np.bool_)
    return VertexWalk(inside, live[nullable[states[live]]].astype(np.int32), trie)
