"""The mask of one state: its alternatives taken apart, walked, and put together again."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from hashlib import blake2b
from itertools import count
from typing import NamedTuple, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from state_machines.caches import LruCache, WeakKeyLruCache
from state_machines.grammar.boolean import everything
from state_machines.grammar.exclusion import Exclusion
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import concatenation
from state_machines.grammar.symbols import ANY_BYTE
from state_machines.limits import LIMITS
from state_machines.masks.lexeme_walk import Beyond, LexemeWalk
from state_machines.masks.lexemes import Lexemes
from state_machines.masks.token_trie import Ids, TokenTrie, joined
from state_machines.masks.trie_walk import TrieWalk
from state_machines.masks.ways import (
    Split,
    Way,
    exceptional_words,
    is_narrow,
    split,
    ways_of,
    without_exclusion,
    without_taken,
)
from state_machines.masks.ways import joined as node_of
from state_machines.vocabulary import Vocabulary

__all__ = ["MaskMaker"]

WIDE = 256
"""Tokens a lexeme may begin with, from which on its walk is kept for all schemas."""

FEW_WORDS = 64
"""How many lists of up to so many names are remembered with where tokens end these."""

MASK_OVERHEAD = 1500
"""Bytes that a mask and its key take beside its ids, roughly."""

DIGEST = 20
"""Bytes of the digests by which masks and their parts are known."""

NO_IDS: Ids = np.zeros(0, np.int32)
NO_NUMBERS: frozenset[int] = frozenset()
NOTHING: tuple[tuple[int, ...], bytes] = (), b""

_NUMBERS = count()
"""One for each maker: keys that several of them make may be kept in one place."""


_Endings: TypeAlias = tuple[tuple[tuple[bytes, int], ...], tuple[str, ...]]


_Mask: TypeAlias = "tuple[int | None, Ids, tuple[Ids, ...]]"
"""Token ids: those inside the lexeme whose walk has a number but some, and others.

It holds on to no walk, and is of no use any more when that of its lexeme is forgotten. Plain tuples
of arrays and numbers are none of the garbage collector's business; there are thousands of them.
"""


class _Part(NamedTuple):
    """A lexeme and what goes on beyond it.

    The tokens of ``beyond`` whose suffixes have the ``numbers`` are allowed. Those at and below the
    ``vertices`` are excepted, and those ``listed``, the bytes of an array of ids.
    """

    walk: LexemeWalk
    beyond: Beyond | None
    numbers: frozenset[int]
    vertices: tuple[int, ...]
    listed: bytes

    def key(self) -> bytes:
        """Return the same for the same tokens."""
        numbers = sorted(self.numbers)
        sizes = self.walk.number, id(self.beyond), len(numbers), len(self.vertices)
        return _digested(array("q", (*sizes, *numbers, *self.vertices)).tobytes() + self.listed)


class _Parts:
    """What a mask is put together from: lexemes, a few ids, and arrays of many."""

    __slots__ = ("few", "ids", "walks")

    def __init__(self) -> None:
        self.walks: list[_Part] = []
        self.few: list[int] = []
        self.ids: list[Ids] = []

    def key(self, maker: int) -> bytes:
        """Return the same for the same set, of the same maker's walks."""
        few = sorted(set(self.few))
        found = [array("q", (maker, len(few), *few)).tobytes()]
        if self.walks:
            found += sorted({part.key() for part in self.walks})
        if self.ids:
            found += sorted({_digested(ids.tobytes()) for ids in self.ids})
        return _digested(b"".join(found))


class MaskMaker:
    """Makes the masks of a vocabulary. Safe to use from several threads at once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._size = vocabulary.size
        self._number = next(_NUMBERS)
        self._forms = vocabulary.token_bytes
        self.trie = TokenTrie(vocabulary)
        self._end_ids = sorted(vocabulary.end_token_ids)
        self._trie_walk = TrieWalk(self.trie)
        self._lexemes = Lexemes(self.trie, self._size)
        self._narrow: WeakKeyLruCache[Node, bool] = WeakKeyLruCache(LIMITS.narrow_lexemes)
        self._known_endings: LruCache[Hashable, _Endings] = LruCache(LIMITS.mask_endings)
        self._arrays: LruCache[tuple[bytes, bool], tuple[Ids, Ids]] = LruCache(
            LIMITS.token_array_bytes
        )
        self._made: LruCache[bytes, _Mask] = LruCache(LIMITS.mask_bytes)
        self._walks: WeakValueDictionary[int, LexemeWalk] = WeakValueDictionary()
        self.dense: LruCache[bytes, npt.NDArray[np.bool_]] = LruCache(LIMITS.dense_mask_bytes)
        """The arrays handed out, by the keys of masks."""

    def mask(self, state: Node) -> tuple[bytes, npt.NDArray[np.bool_]]:
        """Return the tokens allowed in a state, and the key by which :meth:`again` knows them."""
        return self._made_of(self._parts(state))

    def again(self, key: bytes) -> npt.NDArray[np.bool_] | None:
        """Return the tokens of a key that was given out; ``None`` if they are forgotten."""
        dense = self.dense.get(key)
        if dense is None:
            mask = self._made.get(key)
            dense = None if mask is None else self._as_array(mask)
            if dense is not None:
                self.dense.put(key, dense, self._size)
        return dense

    def _parts(self, state: Node) -> _Parts:
        parts = _Parts()
        if state.nullable:
            parts.few += self._end_ids
        self._collect(state, parts)
        return parts

    def _made_of(self, parts: _Parts) -> tuple[bytes, npt.NDArray[np.bool_]]:
        key = parts.key(self._number)
        dense = self.again(key)
        if dense is None:
            mask, own = self._put_together(parts)
            self._made.put(key, mask, MASK_OVERHEAD + own)
            dense = self._as_array(mask)
            assert dense is not None, "the walks are still held by their parts"
            self.dense.put(key, dense, self._size)
        return key, dense

    def _as_array(self, mask: _Mask) -> npt.NDArray[np.bool_] | None:
        """Return a mask as a read-only bool array of shape (size,); ``None`` if it is lost."""
        lexeme, less, others = mask
        if lexeme is None:
            dense = np.zeros(self._size, np.bool_)
        else:
            walk = self._walks.get(lexeme)
            if walk is None:
                return None
            dense = walk.inside
        dense[less] = False
        for ids in others:
            dense[ids] = True
        dense.flags.writeable = False
        return dense

    def _put_together(self, parts: _Parts) -> tuple[_Mask, int]:
        """Return a mask, and the bytes of its arrays that no other mask has."""
        few = joined([np.array(parts.few, np.int32), *parts.ids])
        own = few.nbytes
        if not parts.walks:
            return (None, NO_IDS, (few,)), own
        main = max(parts.walks, key=lambda part: part.walk.count)
        others, less = [few], NO_IDS
        for part in parts.walks:
            # Many masks differ in little else than the lexemes' walks: these arrays are shared.
            key = (part.key(), part is main)
            arrays = self._arrays.get(key)
            if arrays is None:
                arrays = self._arrays_of(part, part is not main)
                size = sum(ids.nbytes for ids in arrays)
                self._arrays.put(key, arrays, size + MASK_OVERHEAD)
                own += size
            ids, excepted = arrays
            others.append(ids)
            if part is main:
                less = excepted
        self._walks[main.walk.number] = main.walk
        return (main.walk.number, less, tuple(others)), own

    def _arrays_of(self, part: _Part, with_inside: bool) -> tuple[Ids, Ids]:
        """Return the tokens of a part that are no more inside its lexeme, and those excepted."""
        excepted = self._excepted(part.vertices, part.listed)
        found: list[Ids] = []
        if part.beyond is not None:
            found.append(part.beyond.tokens(part.numbers))
        if with_inside:
            found.append(np.flatnonzero(part.walk.inside).astype(np.int32))
        return _without(joined(found), excepted), excepted

    def _excepted(self, vertices: tuple[int, ...], listed: bytes) -> Ids:
        found = [self.trie.tokens_from(vertex) for vertex in vertices]
        return joined([*found, np.frombuffer(listed, np.int32)])

    def _collect(self, state: Node, parts: _Parts) -> None:
        ways = ways_of(state)
        if ways is None:
            parts.few += self._trie_walk.tokens_by_state(state)
            return
        for way in ways:
            self._collect_way(way, parts)

    def _collect_way(self, way: Way, parts: _Parts) -> None:
        excluding = without_exclusion(way)
        if excluding is not None:
            parts.ids.append(self._less_excluded(*excluding))
            return
        wider = without_taken(way)
        if wider is not None:
            parts.ids.append(self._less_taken(node_of(way), *wider))
            return
        found = split(way)
        if found is None or self._is_narrow(found):
            node, tail = way
            parts.few += self._trie_walk.tokens(node, tail=tail)
            return
        # Only where a text is captured tokens are looked at with all of the state.
        state = node_of(way) if found.captures else way[0]
        walk = self._lexemes.walk(found.before, found.text)
        beyond, numbers = None, NO_NUMBERS
        if found.rest is not None:
            beyond = walk.beyond(found.rest.first_bytes)
            numbers = self._numbers(state, found, found.rest, beyond, parts.few)
        excepted = self._exceptions(state, found, walk, parts.few) if found.captures else NOTHING
        parts.walks.append(_Part(walk, beyond, numbers, *excepted))
        if found.rest is not None and found.before.nullable and found.text.nullable:
            self._collect_after_nothing(state, found, found.rest, parts)

    def _collect_after_nothing(self, state: Node, found: Split, rest: Node, parts: _Parts) -> None:
        """Collect the tokens that go on where a lexeme is left out."""
        if not found.captures:
            self._collect(rest, parts)
        elif found.captures[-1].rest is not found.text:
            # What goes on after the captured text is said for any text.
            _, allowed = self._made_of(self._parts(rest))
            parts.few += self._exactly(state, np.flatnonzero(allowed).astype(np.int32))
        # Else the captured text would be empty, and a captured text has been begun.

    def _is_narrow(self, found: Split) -> bool:
        """Whether a state is walked vertex by vertex."""
        if found.is_free:
            return False
        first = found.before.first_bytes
        if found.before.nullable:
            first |= found.text.first_bytes
        if self.trie.count_from_root(first) < WIDE:
            return True
        text = found.text.text
        known = self._narrow.get(text)
        return self._narrow.put(text, is_narrow(text)) if known is None else known

    def _numbers(
        self, state: Node, found: Split, rest: Node, beyond: Beyond, few: list[int]
    ) -> frozenset[int]:
        """Return the suffixes with which tokens may go on beyond a lexeme.

        Tokens with suffixes that are not sure are looked at, and go into ``few``.
        """
        numbers = beyond.suffixes.accepted(rest)
        for capture in found.captures:
            unsure = numbers & beyond.suffixes.unsure(capture.then)
            if unsure:
                few += self._exactly(state, beyond.tokens(unsure))
                numbers -= unsure
        return numbers

    def _exceptions(
        self, state: Node, found: Split, walk: LexemeWalk, few: list[int]
    ) -> tuple[tuple[int, ...], bytes]:
        """Return the tokens that end a captured text which is an exception.

        Those of them that are allowed go into ``few``. They are given as vertices, at and below
        which all tokens are such, and as the bytes of an array of ids.
        """
        words = True if found.rest is None else exceptional_words(found)
        if words is None:
            return NOTHING
        trie = self.trie
        if isinstance(words, bool) or walk.leads is None:
            doubtful = walk.leaving_ids()
            few += self._exactly(state, doubtful)
            return (), doubtful.tobytes()
        spelled, others = self._endings(walk.leads, tuple(words))
        for text, vertex in spelled:
            node = state.compute_word_derivative(text)
            if node is not EMPTY:
                trie.add_tokens_at(vertex, few)
                few += self._trie_walk.tokens(node, vertex)
        listed = [walk.ending(word) for word in others]
        few += self._exactly(state, joined(listed))
        return tuple(vertex for _, vertex in spelled), joined(listed).tobytes()

    def _endings(self, leads: Sequence[bytes], words: tuple[str, ...]) -> _Endings:
        """Return how tokens may end texts: (spelling, vertex), and the texts to be looked for.

        Those of one spelling, with a quote and what stands before them, are looked for here.
        """
        key = (tuple(leads), words)
        known = self._known_endings.get(key)
        if known is None:
            spelled: list[tuple[bytes, int]] = []
            others: list[str] = []
            for word in words:
                plain = _plain_spelling(word)
                if plain is None:
                    others.append(word)
                    continue
                for lead in leads:
                    vertex = self.trie.vertex(lead + plain)
                    if vertex is not None:
                        spelled.append((lead + plain, vertex))
            known = tuple(spelled), tuple(others)
            # Long lists are of what was written: no other text has the same.
            if len(words) <= FEW_WORDS:
                self._known_endings.put(key, known)
        return known

    def _less_taken(self, state: Node, wider: Node, taken: list[Node]) -> Ids:
        """Return the tokens of a wider state, less those that lead into what is taken."""
        allowed = self.mask(wider)[1].copy()
        beginning = [concatenation(text, everything(ANY_BYTE)) for text in taken]
        listed = [i for node in beginning for i in self._trie_walk.tokens(node)]
        doubtful = np.array(listed, np.int32)
        doubtful = doubtful[allowed[doubtful]]
        allowed[doubtful] = False
        allowed[self._exactly(state, doubtful)] = True
        return np.flatnonzero(allowed).astype(np.int32)

    def _less_excluded(self, wider: Node, excluding: Exclusion) -> Ids:
        """Return the tokens of the wider state except those that complete an excluded word."""
        allowed = np.flatnonzero(self.mask(wider)[1]).astype(np.int32)
        parting = [self.trie.tokens_from(vertex) for vertex in self._trie_walk.parting(excluding)]
        return _without(allowed, joined(parting))

    def _exactly(self, state: Node, token_ids: Ids) -> list[int]:
        forms = self._forms
        return [
            i
            for i in token_ids.tolist()
            if state.compute_word_derivative(forms[i] or b"") is not EMPTY
        ]


def _digested(text: bytes) -> bytes:
    """Return a digest of a text; two such are of one length."""
    return blake2b(text, digest_size=DIGEST).digest()


def _without(ids: Ids, excepted: Ids) -> Ids:
    return np.setdiff1d(ids, excepted) if len(excepted) else ids


def _plain_spelling(word: str) -> bytes | None:
    """Return the only spelling of a text in a JSON string, with the quote that closes it."""
    if word.isascii() and word.isprintable() and '"' not in word and "\\" not in word:
        return word.encode() + b'"'
    return None
