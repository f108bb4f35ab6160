"""The tokens of a *lexeme*, a regular stretch such as the inside of a string: the result of a walk.

A state is usually a lexeme followed by a continuation. Some tokens stay inside the lexeme, others
leave it and write a suffix beyond. Neither depends on the continuation, so a lexeme is walked once
for a vocabulary, whatever the schema; the continuation only accepts or refuses each of the distinct
suffixes.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar
from weakref import ref

import numpy as np

from state_machines.budgets import spend
from state_machines.caches import LruCache, WeakKeyLruCache
from state_machines.grammar.node import Node
from state_machines.grammar.remembered import Dispatch, SuffixTest
from state_machines.grammar.symbols import byte_set, bytes_in
from state_machines.limits import LIMITS
from state_machines.masks.descent import Descents
from state_machines.masks.grammar_walks import LexemeEnds, LexerTokens, LexerWalks
from state_machines.masks.token_sets import NO_TOKENS, TokenSet, digest_of, without
from state_machines.masks.token_trie import Ids, TokenTrie, concatenated, intervals
from state_machines.masks.trie_walk import TrieWalk

_SUFFIX_ANSWERS = 4
"""Continuations for which one walk stores which suffixes they accept."""

_CLOSING_QUOTES = 64
"""Sets of closing quotes whose tokens are sorted by suffix."""

WALK_OVERHEAD = 2500
"""Bytes of a walk beside its tokens."""

FEW_BYTES = 16
"""Number of bytes up to which their children are searched for separately."""

_NO_NUMBERS: frozenset[int] = frozenset()

NO_VERTICES: Ids = np.zeros(0, np.int32)

_K = TypeVar("_K", bound=Hashable)
_W = TypeVar("_W", bound="WalkedTokens")


class WalkedTokens(Protocol):
    """The result of a walk."""

    @property
    def weight(self) -> int:
        """The approximate size in bytes."""
        ...


class Suffixes:
    """The distinct texts that tokens write beyond the end of a lexeme, numbered; none is empty."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self.texts = [text for text in dict.fromkeys(texts) if text]
        self.numbers = {text: number for number, text in enumerate(self.texts)}
        self._longest = max(map(len, self.texts), default=0)
        self._walk: TrieWalk | None = None
        # Replaced as a whole, never modified: another thread may be reading it.
        self._accepted: tuple[tuple[ref[Node], frozenset[int]], ...] = ()
        self._dependent: dict[tuple[SuffixTest, int], frozenset[int]] = {}

    def accepted(self, continuation: Node) -> frozenset[int]:
        """Return the numbers of the suffixes that a continuation accepts as its beginning."""
        if not self.texts:
            return _NO_NUMBERS
        for known, numbers in self._accepted:
            if known() is continuation:
                return numbers
        walk = self._walk
        if walk is None:
            walk = self._walk = TrieWalk(Descents(TokenTrie.of_texts(self.texts)))
        numbers = frozenset(walk.tokens(continuation))
        self._accepted = (
            *self._accepted[1 - _SUFFIX_ANSWERS :],
            (ref(continuation), numbers),
        )
        return numbers

    def context_dependent(self, dispatch: Dispatch, distance: int) -> frozenset[int]:
        """Return the numbers of the suffixes that must be checked with the whole word known.

        Args:
            dispatch: The dispatch of the word.
            distance: Least number of bytes from the end of the lexeme to that of the word.
        """
        test = dispatch.context_dependent
        distance = min(distance, self._longest + 1)
        known = self._dependent.get((test, distance))
        if known is None:
            found = (
                number
                for number, text in enumerate(self.texts)
                if len(text) >= distance and test(text)
            )
            known = self._dependent[test, distance] = frozenset(found)
        return known


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

    def tokens_of(self, numbers: Iterable[int]) -> Ids:
        """Return the ids of the tokens whose suffixes have the given numbers."""
        starts, ids = self._starts, self._ids
        return concatenated([ids[starts[number] : starts[number + 1]] for number in numbers])


def tokens_by_suffix(trie: TokenTrie, vertices: list[int]) -> TokensBySuffix:
    """Return the tokens at and below vertices, by what they write from the vertex' byte on."""
    texts: list[bytes] = []
    for vertex in vertices:
        known = trie.texts_from(vertex)
        spend(1 + len(known) // 8)
        texts += known
    suffixes = Suffixes(texts)
    numbers = np.fromiter(map(suffixes.numbers.__getitem__, texts), np.int32, len(texts))
    return TokensBySuffix(trie.tokens_from_all(vertices), numbers, suffixes)


class LexemeTokens:
    """The tokens of a vocabulary by their relation to a lexeme.

    Args:
        tokens: The tokens that stay inside the lexeme or end with it.
        beyond: The vertices with the first byte after the lexeme: int32.
        trie: The token trie.
    """

    __slots__ = ("_beyond", "_by_byte", "_leaving", "_trie", "tokens")

    def __init__(self, tokens: TokenSet, beyond: Ids, trie: TokenTrie) -> None:
        self.tokens = tokens
        self._beyond = beyond
        self._trie = trie
        self._by_byte: dict[int, Ids] = {}
        self._leaving: dict[int, TokensBySuffix] = {}

    @property
    def weight(self) -> int:
        """The approximate size of the walk in bytes."""
        return self.tokens.nbytes + 2 * self._beyond.nbytes + WALK_OVERHEAD

    def leaving(self, first: int) -> TokensBySuffix:
        """Return the tokens that leave the lexeme with a suffix that begins in a set of bytes."""
        wanted = bytes_in(first)
        self._sort([byte for byte in wanted if byte not in self._by_byte])
        leading = [byte for byte in wanted if len(self._by_byte[byte])]
        key = byte_set(leading)
        known = self._leaving.get(key)
        if known is None:
            vertices = concatenated([self._by_byte[byte] for byte in leading])
            # All threads must use one object, since the keys of masks contain its id.
            known = self._leaving.setdefault(key, tokens_by_suffix(self._trie, vertices.tolist()))
        return known

    def _sort(self, labels: Sequence[int]) -> None:
        """Find the vertices beyond the lexeme by their bytes."""
        if not labels:
            return
        # A text that may end anywhere has about as many vertices as the trie.
        vertices = self._beyond
        label = self._trie.byte[vertices]
        if len(labels) <= FEW_BYTES:
            for byte in labels:
                self._by_byte[byte] = vertices[label == byte]
            return
        order = np.argsort(label, kind="stable")
        vertices, label = vertices[order], label[order]
        starts = np.searchsorted(label, np.arange(257))
        self._by_byte = {byte: vertices[starts[byte] : starts[byte + 1]] for byte in range(256)}


def leaving_group(group: LexemeEnds, trie: TokenTrie, first: int) -> TokensBySuffix:
    """Return the tokens that leave a lexeme where the lexer cannot continue it.

    Args:
        group: The vertices after the lexeme.
        trie: The trie of the walk.
        first: The set of the bytes after the lexeme.
    """
    first &= group.first
    known = group.leaving.get(first)
    if known is None:
        vertices = [v for v in group.vertices.tolist() if first >> trie.byte_at(v) & 1]
        # All threads must use one object, since the keys of masks contain its id.
        known = group.leaving.setdefault(first, tokens_by_suffix(trie, vertices))
    found: TokensBySuffix = known
    return found


def leaving_ends(walk: LexerTokens, walks: LexerWalks, complete: int, first: int) -> TokensBySuffix:
    """Return the tokens that leave a lexeme of some terminals, also where the lexer continues it.

    Args:
        walk: The walk of the lexeme.
        walks: The walks of the trie.
        complete: The terminals, as a set.
        first: The set of the bytes after the lexeme; more may be included.
    """
    known = walk.exits.get(complete)
    if known is None:
        beyond = walks.trie.children_of(walk.ends(walks)[complete])
        made = LexemeTokens(NO_TOKENS, beyond, walks.trie)
        known = walk.exits.setdefault(complete, made)
    found: TokensBySuffix = known.leaving(first)
    return found


class StringTokens(LexemeTokens):
    """A lexeme that ends with the closing quote of a JSON string.

    Args:
        tokens: The tokens that stay inside the string or close it.
        quotes: The vertices of the closing quotes: int32, ascending.
        trie: The token trie.
        closing: The tokens with text after a closing quote.
        missing: The most characters that complete the text after one of the tokens; ``None`` if
            they were not counted.
    """

    __slots__ = ("_closing", "missing", "quotes")

    def __init__(
        self,
        tokens: TokenSet,
        quotes: Ids,
        trie: TokenTrie,
        closing: ClosingQuotes,
        missing: int | None = None,
    ) -> None:
        super().__init__(tokens, NO_VERTICES, trie)
        self.quotes = quotes
        self._closing = closing
        self.missing = missing

    @property
    def weight(self) -> int:
        """The approximate size of the walk in bytes."""
        return super().weight + self.quotes.nbytes

    def is_same(self, other: StringTokens) -> bool:
        """Whether another string has the same tokens, inside and beyond it."""
        is_equal = self.tokens.digest == other.tokens.digest
        return is_equal and np.array_equal(self.quotes, other.quotes)

    def without(self, ids: Ids, quotes: Ids) -> StringTokens:
        """Return the string without some tokens and closing quotes."""
        kept = np.setdiff1d(self.quotes, quotes)
        return StringTokens(without(self.tokens, ids), kept, self._trie, self._closing)

    def leaving(self, first: int) -> TokensBySuffix:
        """Return the tokens that leave the string."""
        del first
        known = self._leaving.get(0)
        if known is None:
            known = self._leaving.setdefault(0, self._closing.leaving(self.quotes))
        return known


class ClosingQuotes:
    """The tokens with text after a closing quote, by this suffix.

    All walks of strings share the numbers of the suffixes. So the suffixes that a continuation
    accepts are computed once.
    """

    def __init__(self, trie: TokenTrie) -> None:
        self._known: LruCache[bytes, TokensBySuffix] = LruCache(_CLOSING_QUOTES)
        texts: dict[bytes, int] = {}
        numbers: list[int] = []
        ids: list[Ids] = []
        self._start: Ids = np.zeros(trie.size, np.int32)
        self._end: Ids = np.zeros(trie.size, np.int32)
        for vertex in np.flatnonzero(trie.byte == ord('"')).tolist():
            self._start[vertex] = len(numbers)
            for text, found in trie.tokens_below(vertex):
                numbers += [texts.setdefault(text, len(texts))] * len(found)
                ids.append(found)
            self._end[vertex] = len(numbers)
        self._numbers = np.array(numbers, np.int32)
        self._ids = concatenated(ids)
        self.suffixes = Suffixes(texts)

    def leaving(self, quotes: Ids) -> TokensBySuffix:
        """Return the tokens with text after the quotes at some vertices.

        Args:
            quotes: The vertices: int32, ascending.
        """
        key = digest_of(quotes.tobytes())
        known = self._known.get(key)
        if known is None:
            chosen = intervals(self._start[quotes], self._end[quotes])
            made = TokensBySuffix(self._ids[chosen], self._numbers[chosen], self.suffixes)
            known = self._known.put(key, made)
        return known


class WalkCache(Generic[_K, _W]):
    """An LRU cache of walks by language and key; walks are dropped with their language.

    Languages that several schemas share live longer than one schema, and so do their walks. Safe to
    use from several threads.

    Args:
        max_bytes: Bound on the sum of the walks' weights.
    """

    def __init__(self, max_bytes: int) -> None:
        self._languages: WeakKeyLruCache[Node, tuple[dict[_K, _W], int]] = WeakKeyLruCache(
            max_bytes
        )
        """By language, the walks and their weight."""
        self._lock = threading.RLock()

    def get(self, language: Node, key: _K) -> _W | None:
        """Return a walk of a language; ``None`` if there is none."""
        found = self._languages.get(language)
        return None if found is None else found[0].get(key)

    def put(self, language: Node, key: _K, walk: _W) -> _W:
        """Store a walk, and return it."""
        with self._lock:
            walks, weight = self._languages.get(language) or ({}, 0)
            if key not in walks and len(walks) >= LIMITS.walks_per_language:
                weight -= walks.pop(next(iter(walks))).weight
            old = walks.get(key)
            weight += walk.weight - (0 if old is None else old.weight)
            walks[key] = walk
            self._languages.put(language, (walks, weight), weight)
        return walk
