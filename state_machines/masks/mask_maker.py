"""Assembles the mask of one state.

The state is written as a union of configurations, and each configuration as
``prefix · lexeme · continuation`` (:mod:`state_machines.grammar.configurations`). A token either
stays inside the lexeme or ends with it, or it leaves the lexeme and writes a suffix beyond. So the
allowed tokens of a configuration are

* the tokens inside the lexeme: one bit set for each lexeme, independent of the continuation;
* the leaving tokens whose suffix the continuation accepts: a set of suffixes;
* where the lexeme may be empty, the tokens that the continuation allows.

A token is allowed in the state if it is allowed in one of its configurations, so the mask is the
union of these sets. With captures the continuation is a default. It is exact except for two kinds
of tokens: tokens with a context-dependent suffix, and tokens that complete an exception. Both are
removed from the sets above and checked separately by the derivative of the whole state.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from hashlib import blake2b
from itertools import count
from typing import NamedTuple, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from state_machines.caches import LruCache
from state_machines.grammar.configurations import (
    Configuration,
    LexemeSplit,
    Stack,
    all_configurations,
    joined,
    split_lexeme,
    without_exclusion,
)
from state_machines.grammar.encoding import EncodedText
from state_machines.grammar.exclusion import Exclusion
from state_machines.grammar.lexing import Lexed
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import concatenation
from state_machines.grammar.tokens import begins_with_spelling
from state_machines.limits import LIMITS
from state_machines.masks.lexeme_walk import LeavingTokens, LexemeWalk
from state_machines.masks.lexemes import Lexemes
from state_machines.masks.lexer_exits import exits, leaving
from state_machines.masks.lexer_summaries import allowed_tokens
from state_machines.masks.lexer_walks import LexerWalk
from state_machines.masks.spelled_tokens import SpelledTokens
from state_machines.masks.substring_walk import is_narrow_quote
from state_machines.masks.token_sets import Bits, TokenSet, united
from state_machines.masks.token_trie import Ids, TokenTrie, concatenated
from state_machines.masks.trie_walk import TrieWalk
from state_machines.vocabulary import Vocabulary

_MASK_ENDINGS = 512
"""Lists of names for which the tokens that end them are stored."""

MAX_ENDING_WORDS = 64
"""Greatest length of a list of exceptions whose spellings are cached."""

MASK_OVERHEAD = 1500
"""Approximate bytes of a mask and its key beside its ids."""

DIGEST_BYTES = 20
"""Length of the digests that identify masks and their parts."""

NO_IDS: Ids = np.zeros(0, np.int32)
NO_SUFFIXES: frozenset[int] = frozenset()
NO_EXCEPTIONS: tuple[tuple[int, ...], bytes] = (), b""

_MAKER_NUMBERS = count()
"""Makes the keys of several makers different."""


_Endings: TypeAlias = tuple[tuple[tuple[bytes, int], ...], tuple[str, ...]]
"""Pairs of a spelling and its vertex, and the words with more than one spelling."""


_Mask: TypeAlias = "tuple[int | None, Ids, tuple[Ids, ...], Bits | None]"
"""The number of a lexeme walk, the ids inside it that are not allowed, arrays of other ids, and a
bit for each token.

It does not reference the walk, and is invalid once the walk is dropped. Tuples of arrays and
numbers are not tracked by the cyclic garbage collector; there are thousands of them.
"""


class _Part(NamedTuple):
    """A lexeme, and the leaving tokens that are allowed.

    Attributes:
        walk: The walk of the lexeme.
        leaving: The tokens that leave it; ``None`` if all of them are exceptions.
        suffixes: Numbers of the suffixes that the continuation accepts.
        excepted_vertices: Vertices of the token trie. Tokens at or below one are exceptions.
        excepted_ids: More exceptions, as the bytes of an array of ids.
    """

    walk: LexemeWalk
    leaving: LeavingTokens | None
    suffixes: frozenset[int]
    excepted_vertices: tuple[int, ...]
    excepted_ids: bytes

    def key(self) -> bytes:
        """Return a digest that is equal for equal sets of tokens."""
        suffixes = sorted(self.suffixes)
        vertices = self.excepted_vertices
        sizes = self.walk.number, id(self.leaving), len(suffixes), len(vertices)
        return _digest(array("q", (*sizes, *suffixes, *vertices)).tobytes() + self.excepted_ids)


class _Parts:
    """The parts of a mask: lexemes, a few ids, arrays of many ids, and sets of ids."""

    __slots__ = ("arrays", "few", "lexemes", "sets")

    def __init__(self) -> None:
        self.lexemes: list[_Part] = []
        self.few: list[int] = []
        self.arrays: list[Ids] = []
        self.sets: list[TokenSet] = []

    def key(self, maker: int) -> bytes:
        """Return a digest that is equal for equal sets of tokens of one maker."""
        few = sorted(set(self.few))
        found = [array("q", (maker, len(few), *few)).tobytes()]
        if self.lexemes:
            found += sorted({part.key() for part in self.lexemes})
        if self.arrays:
            found += sorted({_digest(ids.tobytes()) for ids in self.arrays})
        if self.sets:
            found += sorted({each.digest for each in self.sets})
        return _digest(b"".join(found))


class MaskMaker:
    """Makes the masks of a vocabulary. Safe to use from several threads at once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._size = vocabulary.size
        self._number = next(_MAKER_NUMBERS)
        self._forms = vocabulary.token_bytes
        self.trie = TokenTrie(vocabulary)
        self._spelled = SpelledTokens.of(vocabulary)
        self._end_ids = sorted(vocabulary.end_token_ids)
        self._trie_walk = TrieWalk(self.trie)
        self._lexemes = Lexemes(self.trie, self._size)
        self._known_endings: LruCache[Hashable, _Endings] = LruCache(_MASK_ENDINGS)
        self._arrays: LruCache[tuple[bytes, bool], tuple[Ids, Ids]] = LruCache(
            LIMITS.token_array_bytes
        )
        self._masks: LruCache[bytes, _Mask] = LruCache(LIMITS.mask_bytes)
        self._walks: WeakValueDictionary[int, LexemeWalk] = WeakValueDictionary()
        self.dense: LruCache[bytes, npt.NDArray[np.bool_]] = LruCache(LIMITS.dense_mask_bytes)
        """The arrays that were returned, by the keys of their masks."""

    def mask(self, state: Node) -> tuple[bytes, npt.NDArray[np.bool_]]:
        """Return the key of a state's mask, and the mask: bool, shape (size,), read-only."""
        return self._mask_of(self._parts(state))

    def cached(self, key: bytes) -> npt.NDArray[np.bool_] | None:
        """Return the mask of a key that :meth:`mask` returned; ``None`` if it was evicted."""
        dense = self.dense.get(key)
        if dense is None:
            mask = self._masks.get(key)
            dense = None if mask is None else self._as_array(mask)
            if dense is not None:
                self.dense.put(key, dense, self._size)
        return dense

    def _parts(self, state: Node) -> _Parts:
        parts = _Parts()
        if state.nullable:
            parts.few += self._end_ids
        self._collect(state, parts)
        if begins_with_spelling(state):
            parts.arrays.append(self._spelled.ids(state))
        return parts

    def _mask_of(self, parts: _Parts) -> tuple[bytes, npt.NDArray[np.bool_]]:
        key = parts.key(self._number)
        dense = self.cached(key)
        if dense is None:
            mask, own_bytes = self._assemble(parts)
            self._masks.put(key, mask, MASK_OVERHEAD + own_bytes)
            dense = self._as_array(mask)
            assert dense is not None, "the parts still hold the walks"
            self.dense.put(key, dense, self._size)
        return key, dense

    def _as_array(self, mask: _Mask) -> npt.NDArray[np.bool_] | None:
        """Return a mask as a bool array, shape (size,); ``None`` if its walk was dropped."""
        number, not_allowed, others, bits = mask
        if number is not None:
            walk = self._walks.get(number)
            if walk is None:
                return None
            dense = walk.inside
            dense[not_allowed] = False
            if bits is not None:
                dense |= self._unpacked(bits)
        elif bits is not None:
            dense = self._unpacked(bits)
        else:
            dense = np.zeros(self._size, np.bool_)
        for ids in others:
            dense[ids] = True
        dense.flags.writeable = False
        return dense

    def _unpacked(self, bits: Bits) -> npt.NDArray[np.bool_]:
        return np.unpackbits(bits, count=self._size, bitorder="little").view(np.bool_)

    def _assemble(self, parts: _Parts) -> tuple[_Mask, int]:
        """Return a mask, and the number of bytes of its arrays that no other mask shares."""
        short, bits = united(parts.sets)
        few = concatenated([np.array(parts.few, np.int32), *parts.arrays, *short])
        own_bytes = few.nbytes + (0 if bits is None else bits.nbytes)
        if not parts.lexemes:
            return (None, NO_IDS, (few,), bits), own_bytes
        main = max(parts.lexemes, key=lambda part: part.walk.count)
        others, not_allowed = [few], NO_IDS
        for part in parts.lexemes:
            # Many masks differ only in the walk of the main lexeme, and share these arrays.
            key = (part.key(), part is main)
            arrays = self._arrays.get(key)
            if arrays is None:
                arrays = self._arrays_of(part, part is not main)
                size = sum(ids.nbytes for ids in arrays)
                self._arrays.put(key, arrays, size + MASK_OVERHEAD)
                own_bytes += size
            ids, excepted = arrays
            others.append(ids)
            if part is main:
                not_allowed = excepted
        self._walks[main.walk.number] = main.walk
        return (main.walk.number, not_allowed, tuple(others), bits), own_bytes

    def _arrays_of(self, part: _Part, with_inside: bool) -> tuple[Ids, Ids]:
        """Return the leaving tokens of a part that are allowed, and its exceptions."""
        excepted = concatenated(
            [
                *(self.trie.tokens_from(vertex) for vertex in part.excepted_vertices),
                np.frombuffer(part.excepted_ids, np.int32),
            ]
        )
        found: list[Ids] = []
        if part.leaving is not None:
            found.append(part.leaving.tokens(part.suffixes))
        if with_inside:
            found.append(np.flatnonzero(part.walk.inside).astype(np.int32))
        return _without(concatenated(found), excepted), excepted

    def _collect(self, state: Node, parts: _Parts) -> None:
        configurations = all_configurations(state)
        if configurations is None:
            parts.few += self._trie_walk.tokens_by_state(state)
            return
        for configuration in configurations:
            self._collect_configuration(configuration, parts)

    def _collect_configuration(self, configuration: Configuration, parts: _Parts) -> None:
        excluding = without_exclusion(configuration)
        if excluding is not None:
            parts.arrays.append(self._without_excluded(*excluding))
            return
        head, following = configuration
        if isinstance(head, Lexed):
            self._collect_lexed(head, following, parts)
            return
        if isinstance(head, EncodedText) and is_narrow_quote(head.text):
            parts.few += self._trie_walk.tokens(head, stack=following)
            return
        split = split_lexeme(configuration)
        if split is None or self._lexemes.is_narrow(split):
            node, stack = configuration
            parts.few += self._trie_walk.tokens(node, stack=stack)
            return
        # Only captures are checked with the whole state.
        state = joined(configuration) if split.captures else configuration[0]
        walk = self._lexemes.walk(split.prefix, split.lexeme)
        continuation = split.continuation
        leaving, suffixes = None, NO_SUFFIXES
        if continuation is not None:
            leaving = walk.leaving(continuation.first_bytes)
            suffixes = self._accepted_suffixes(state, split, continuation, leaving, parts.few)
        excepted = self._exceptions(state, split, walk, parts.few)
        parts.lexemes.append(_Part(walk, leaving, suffixes, *excepted))
        if continuation is not None and split.prefix.nullable and split.lexeme.nullable:
            self._collect_after_empty_lexeme(state, split, continuation, parts)

    def _collect_lexed(self, state: Lexed, stack: Stack, parts: _Parts) -> None:
        """Collect the tokens of a grammar over lexemes, and of what follows it."""
        tail = None if stack is None else joined(stack)
        if tail is not None and state.nullable:
            self._collect(tail, parts)
        lexicon = state.lexicon
        walks = self._trie_walk.lexer_walks
        if tail is None and not lexicon.may_block and not lexicon.nested:
            parts.sets += allowed_tokens(walks, state)
            return
        for node in state.nested_texts:
            self._collect(node if tail is None else concatenation(node, tail), parts)
        for walk, before in walks.walks(state):
            parts.sets.append(walk.live_tokens(before, walks) if lexicon.may_block else walk.tokens)
            if lexicon.nested:
                self._collect_nested(walk, before, tail, parts)
            if tail is None:
                continue
            for complete in walk.ends(walks):
                if any(after.nullable for after in before.after(complete)):
                    found = exits(walk, walks, complete, tail.first_bytes)
                    parts.arrays.append(found.tokens(found.suffixes.accepted(tail)))

    def _collect_nested(
        self, walk: LexerWalk, before: Lexed, tail: Node | None, parts: _Parts
    ) -> None:
        """Collect the tokens that begin a nested language after a lexeme."""
        for group in walk.groups:
            for after in before.after(group.complete):
                assert isinstance(after, Lexed)
                for node in after.nested_texts:
                    node = node if tail is None else concatenation(node, tail)
                    found = leaving(group, self.trie, node.first_bytes)
                    parts.arrays.append(found.tokens(found.suffixes.accepted(node)))

    def _collect_after_empty_lexeme(
        self, state: Node, split: LexemeSplit, continuation: Node, parts: _Parts
    ) -> None:
        """Collect the tokens that the continuation allows where the lexeme is empty."""
        if not split.captures:
            self._collect(continuation, parts)
        elif split.captures[-1].lexeme is not split.lexeme:
            # The default does not know the word.
            _, allowed = self._mask_of(self._parts(continuation))
            parts.few += self._checked(state, np.flatnonzero(allowed).astype(np.int32))
        # Else the lexeme is all that is to be captured, and captured words are not empty.

    def _accepted_suffixes(
        self,
        state: Node,
        split: LexemeSplit,
        continuation: Node,
        leaving: LeavingTokens,
        few: list[int],
    ) -> frozenset[int]:
        """Return the numbers of the suffixes that are accepted without regard to captured words.

        Tokens with context-dependent suffixes are checked; those allowed are added to ``few``.
        """
        accepted = leaving.suffixes.accepted(continuation)
        for capture in split.captures:
            dependent = accepted & leaving.suffixes.context_dependent(capture.dispatch)
            if dependent:
                few += self._checked(state, leaving.tokens(dependent))
                accepted -= dependent
        return accepted

    def _exceptions(
        self, state: Node, split: LexemeSplit, walk: LexemeWalk, few: list[int]
    ) -> tuple[tuple[int, ...], bytes]:
        """Check the tokens that complete an exception; those allowed are added to ``few``.

        Returns:
            The tokens that were checked: vertices at or below which all tokens are, and the bytes
            of an array of ids.
        """
        if not split.captures:
            return NO_EXCEPTIONS
        words = None if split.continuation is None else split.captures[-1].exceptions()
        if words is None or (words and walk.leads is None):
            checked = walk.leaving_ids()
            few += self._checked(state, checked)
            return (), checked.tobytes()
        if not words or walk.leads is None:
            return NO_EXCEPTIONS
        spelled, others = self._endings(walk.leads, tuple(words))
        for text, vertex in spelled:
            node = state.compute_word_derivative(text)
            if node is not EMPTY:
                self.trie.add_tokens_at(vertex, few)
                few += self._trie_walk.tokens(node, vertex)
        checked = concatenated([walk.ending(word) for word in others])
        few += self._checked(state, checked)
        return tuple(vertex for _, vertex in spelled), checked.tobytes()

    def _endings(self, leads: Sequence[bytes], words: tuple[str, ...]) -> _Endings:
        """Return where tokens may complete words after one of the leads, closing quote included."""
        key = (tuple(leads), words)
        known = self._known_endings.get(key)
        if known is None:
            spelled: list[tuple[bytes, int]] = []
            others: list[str] = []
            for word in words:
                plain = _only_spelling(word)
                if plain is None:
                    others.append(word)
                    continue
                for lead in leads:
                    vertex = self.trie.vertex(lead + plain)
                    if vertex is not None:
                        spelled.append((lead + plain, vertex))
            known = tuple(spelled), tuple(others)
            # Long lists contain the names written so far, and do not repeat.
            if len(words) <= MAX_ENDING_WORDS:
                self._known_endings.put(key, known)
        return known

    def _without_excluded(self, wider: Node, excluding: Exclusion) -> Ids:
        """Return the tokens of the wider state that do not complete an excluded word."""
        allowed = np.flatnonzero(self.mask(wider)[1]).astype(np.int32)
        vertices = self._trie_walk.excluded_vertices(excluding)
        return _without(allowed, concatenated([self.trie.tokens_from(v) for v in vertices]))

    def _checked(self, state: Node, token_ids: Ids) -> list[int]:
        """Return the tokens after which a state is not empty, by its derivatives."""
        forms = self._forms
        return [
            i
            for i in token_ids.tolist()
            if state.compute_word_derivative(forms[i] or b"") is not EMPTY
        ]


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=DIGEST_BYTES).digest()


def _without(ids: Ids, excepted: Ids) -> Ids:
    return np.setdiff1d(ids, excepted) if len(excepted) else ids


def _only_spelling(word: str) -> bytes | None:
    """Return the spelling of a word in a JSON string and the quote; ``None`` if it has several."""
    if word.isascii() and word.isprintable() and '"' not in word and "\\" not in word:
        return word.encode() + b'"'
    return None
