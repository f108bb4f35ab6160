"""The walk of a *lexeme*, a regular stretch such as the inside of a string, over all tokens.

A state is usually a lexeme followed by a continuation. Some tokens stay inside the lexeme, others
leave it and write a suffix beyond. Neither depends on the continuation, so a lexeme is walked once
for a vocabulary, whatever the schema; the continuation only accepts or refuses each of the distinct
suffixes.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Generic, Protocol, TypeVar
from weakref import ref

import numpy as np
import numpy.typing as npt

from state_machines.budgets import spend
from state_machines.caches import WeakKeyLruCache
from state_machines.grammar.capture import Dispatch, SuffixTest
from state_machines.grammar.node import Node
from state_machines.grammar.symbols import byte_ranges, byte_set, bytes_in
from state_machines.limits import LIMITS
from state_machines.masks.automaton import Automaton, states_at_vertices
from state_machines.masks.token_trie import Ids, TokenTrie, concatenated
from state_machines.masks.trie_walk import TrieWalk

_SUFFIX_ANSWERS = 4
"""Continuations for which one walk stores which suffixes they accept."""

Mask = npt.NDArray[np.bool_]

WALK_OVERHEAD = 2500
"""Bytes of a walk beside its tokens."""

FEW_BYTES = 16
"""Number of bytes up to which their children are searched for separately."""

_K = TypeVar("_K", bound=Hashable)
_W = TypeVar("_W", bound="LexemeWalk")


class Suffixes:
    """The distinct texts that tokens write beyond the end of a lexeme, numbered; none is empty."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self.texts = [text for text in dict.fromkeys(texts) if text]
        self.numbers = {text: number for number, text in enumerate(self.texts)}
        self._walk: TrieWalk | None = None
        # Replaced as a whole, never modified: another thread may be reading it.
        self._accepted: tuple[tuple[ref[Node], frozenset[int]], ...] = ()
        self._dependent: dict[SuffixTest, frozenset[int]] = {}

    def accepted(self, continuation: Node) -> frozenset[int]:
        """Return the numbers of the suffixes that a continuation accepts as its beginning."""
        for known, numbers in self._accepted:
            if known() is continuation:
                return numbers
        walk = self._walk
        if walk is None:
            walk = self._walk = TrieWalk(TokenTrie.of_texts(self.texts))
        numbers = frozenset(walk.tokens(continuation))
        self._accepted = (
            *self._accepted[1 - _SUFFIX_ANSWERS :],
            (ref(continuation), numbers),
        )
        return numbers

    def context_dependent(self, dispatch: Dispatch) -> frozenset[int]:
        """Return the numbers of the suffixes that must be checked with the captured word known."""
        test = dispatch.context_dependent
        known = self._dependent.get(test)
        if known is None:
            found = (number for number, text in enumerate(self.texts) if test(text))
            known = self._dependent[test] = frozenset(found)
        return known


class LeavingTokens(Protocol):
    """Tokens that leave a lexeme, by the numbers of their suffixes."""

    @property
    def suffixes(self) -> Suffixes:
        """The texts that the tokens write beyond the lexeme."""
        ...

    def tokens(self, numbers: Iterable[int]) -> Ids:
        """Return the ids of the tokens whose suffixes have the given numbers."""
        ...


class TokensBySuffix:
    """Tokens sorted by their suffixes.

    Args:
        ids: Token ids: int32, shape (tokens,).
        suffix: The number of each token's suffix: int32, shape (tokens,).
        suffixes: The numbered suffixes.
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
        """Return the ids of the tokens whose suffixes have the given numbers."""
        starts, ids = self._starts, self._ids
        return concatenated([ids[starts[number] : starts[number + 1]] for number in numbers])


def tokens_by_suffix(trie: TokenTrie, vertices: Iterable[int]) -> TokensBySuffix:
    """Return the tokens at and below vertices, by what they write from the vertex' byte on."""
    found: list[tuple[bytes, Ids]] = []
    for vertex in vertices:
        spend(1 + trie.count_from(vertex) // 8)
        head = bytes((trie.byte_at(vertex),))
        found.append((head, trie.tokens_at(vertex)))
        found.extend((head + text, ids) for text, ids in trie.tokens_below(vertex))
    suffixes = Suffixes(text for text, _ in found)
    numbers = np.array([suffixes.numbers[text] for text, _ in found], np.int32)
    suffix = np.repeat(numbers, [len(ids) for _, ids in found])
    return TokensBySuffix(concatenated([ids for _, ids in found]), suffix, suffixes)


class LexemeWalk:
    """The tokens of a vocabulary by their relation to a lexeme.

    Attributes:
        count: Number of tokens that stay inside the lexeme or end with it.
        number: Identifies the walk.
    """

    __slots__ = ("__weakref__", "_is_listed", "_size", "_stored", "count", "number")

    leads: Sequence[bytes] | None = None
    """The byte strings of the prefix, if the lexeme is the text of a JSON string."""

    def __init__(self, inside: Mask) -> None:
        self.count = int(np.count_nonzero(inside))
        self._size = len(inside)
        # The smaller of two forms: token ids, or one bit for every token.
        self._is_listed = 32 * self.count < self._size
        self._stored: npt.NDArray[Any]
        if self._is_listed:
            self._stored = np.flatnonzero(inside).astype(np.int32)
        else:
            self._stored = np.packbits(inside)
        self.number = next(_NUMBERS)

    @property
    def inside(self) -> Mask:
        """The tokens that stay inside or end with the lexeme: bool, shape (vocabulary size,)."""
        if not self._is_listed:
            return np.unpackbits(self._stored, count=self._size).view(np.bool_)
        found = np.zeros(self._size, np.bool_)
        found[self._stored] = True
        return found

    @property
    def weight(self) -> int:
        """The approximate size of the walk in bytes."""
        return self._stored.nbytes + WALK_OVERHEAD

    def leaving(self, first: int) -> LeavingTokens:
        """Return the tokens that leave the lexeme, at least those whose suffix begins in a set."""
        raise NotImplementedError  # pragma: no cover - abstract

    def leaving_ids(self) -> Ids:
        """Return the tokens that end with the lexeme or leave it."""
        raise NotImplementedError  # pragma: no cover - abstract

    def ending(self, word: str) -> Ids:
        """Return the tokens that write the rest of a JSON string, in any spelling, and close it."""
        raise NotImplementedError  # pragma: no cover - only the walks of strings have it


_NUMBERS = count()


class VertexWalk(LexemeWalk):
    """A lexeme walked over a token trie.

    Args:
        inside: The tokens that stay inside the lexeme or end with it.
        exits: The vertices of the trie where the lexeme may end.
        trie: The token trie.
    """

    __slots__ = ("_children_of_exits", "_exits", "_leaving", "_trie")

    def __init__(self, inside: Mask, exits: Ids, trie: TokenTrie) -> None:
        super().__init__(inside)
        self._exits = exits
        self._trie = trie
        self._leaving: dict[int, TokensBySuffix] = {}
        self._children_of_exits: dict[int, Ids] = {}

    @property
    def weight(self) -> int:
        """The approximate size of the walk in bytes."""
        return super().weight + 8 * len(self._exits)

    def leaving(self, first: int) -> LeavingTokens:
        """Return the tokens that leave the lexeme with a suffix that begins in a set of bytes."""
        children = self._children_of_exits
        self._find_children_of_exits([byte for byte in bytes_in(first) if byte not in children])
        leading = [byte for byte in bytes_in(first) if len(self._children_of_exits[byte])]
        known = self._leaving.get(byte_set(leading))
        if known is None:
            vertices = [self._children_of_exits[byte] for byte in leading]
            made = tokens_by_suffix(self._trie, concatenated(vertices).tolist())
            # All threads must use one object, since the keys of masks contain its id.
            known = self._leaving.setdefault(byte_set(leading), made)
        return known

    def _find_children_of_exits(self, labels: Sequence[int]) -> None:
        """Find the vertices that bytes lead to from the exits."""
        if not labels:
            return
        # A text that may end anywhere has about as many exits as the trie has vertices.
        trie = self._trie
        is_exit = np.zeros(trie.size, np.bool_)
        is_exit[self._exits] = True
        children = np.flatnonzero(is_exit[trie.parent[1:]]) + 1
        label = trie.byte[children]
        if len(labels) > FEW_BYTES:
            order = np.argsort(label, kind="stable")
            children, label = children[order], label[order]
            starts = np.searchsorted(label, np.arange(257))
            self._children_of_exits = {
                byte: children[starts[byte] : starts[byte + 1]].astype(np.int32)
                for byte in range(256)
            }
            return
        for byte in labels:
            self._children_of_exits[byte] = children[label == byte].astype(np.int32)

    def leaving_ids(self) -> Ids:
        """Return the tokens that end with the lexeme or leave it."""
        parts = [self._trie.tokens_from(vertex) for vertex in self._exits.tolist()]
        return np.unique(concatenated(parts)).astype(np.int32)

    def vertices_beyond(self, byte: int) -> list[int]:
        """Return the vertices outside the lexeme that a byte leads to from where it may end."""
        trie = self._trie
        may_end = np.zeros(trie.size, np.bool_)
        may_end[0] = True
        may_end[self._exits] = True
        children = np.flatnonzero(trie.byte == byte)
        outside = may_end[trie.parent[children]] & ~may_end[children]
        return children[outside].tolist()  # type: ignore[no-any-return]

    def ending_at(self, exits: list[int]) -> VertexWalk:
        """Return the walk of a lexeme that also reaches some vertices, and ends only there."""
        ends = np.array(exits, np.int32)
        inside = self.inside
        inside[self._trie.tokens_at_all(ends)] = True
        return VertexWalk(inside, ends, self._trie)

    def ending_late(self, min_chars: int, *, is_prefix_free: bool) -> VertexWalk:
        """Return the walk where the lexeme ends after at least ``min_chars`` characters.

        Args:
            min_chars: Number of characters that begin before the end.
            is_prefix_free: Whether no word of the lexeme begins another one. Then a word that ends
                too early is no beginning of a longer word.
        """
        late = self._trie.characters[self._exits] >= min_chars
        inside = self.inside
        if is_prefix_free:
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


class WalkCache(Generic[_K, _W]):
    """An LRU cache of walks by language and key; walks are dropped with their language.

    Languages that several schemas share live longer than one schema, and so do their walks. Safe to
    use from several threads.

    Args:
        max_bytes: Bound on the sum of the walks' weights.
    """

    def __init__(self, max_bytes: int) -> None:
        self._languages: WeakKeyLruCache[Node, Mapping[_K, _W]] = WeakKeyLruCache(max_bytes)
        self._lock = threading.RLock()

    def get(self, language: Node, key: _K) -> _W | None:
        """Return a walk of a language; ``None`` if there is none."""
        walks = self._languages.get(language)
        return None if walks is None else walks.get(key)

    def put(self, language: Node, key: _K, walk: _W) -> _W:
        """Store a walk, and return it."""
        with self._lock:
            # A copy: other threads may be reading the old one.
            walks = dict(self._languages.get(language) or ())
            while len(walks) >= LIMITS.walks_per_language:
                del walks[next(iter(walks))]
            walks[key] = walk
            weight = sum(known.weight for known in walks.values())
            self._languages.put(language, walks, weight)
        return walk
