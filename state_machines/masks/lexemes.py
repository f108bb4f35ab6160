"""The lexeme walks of a vocabulary, and the kind of walk that suits a lexeme."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from state_machines.caches import LruCache, WeakKeyLruCache
from state_machines.grammar.configurations import MAX_PREFIX_BYTES, LexemeSplit
from state_machines.grammar.encoding import JSON_STRING, RAW, EncodedText, Spelling, encoded
from state_machines.grammar.node import EPSILON, Node, leading_bytes
from state_machines.grammar.nodes import concatenation
from state_machines.grammar.until import UntilText
from state_machines.limits import LIMITS
from state_machines.masks.lexeme_walk import (
    LeavingTokens,
    LexemeWalk,
    Suffixes,
    VertexWalk,
    WalkCache,
    vertex_walk,
)
from state_machines.masks.substring_walk import Quote, SubstringWalk
from state_machines.masks.text_walks import StringTokens, TextWalk
from state_machines.masks.token_trie import Ids, TokenTrie, concatenated

_NARROW_LEXEMES = 512
"""Lexemes for which it is stored whether few tokens begin them."""

_JSON_STRING_STARTS = 16
"""States within an escape or a character in which a walk of JSON strings may start."""

_JSON_STRING_LEADS = 16
"""Byte strings that may precede the text of a JSON string."""

_BOUNDED_TEXTS = 256
"""Texts with clipped bounds that are held; no state holds them."""

MIN_LEXEME_TOKENS = 256
"""Tokens that a lexeme may begin with, from which on its walk is cached for all schemas."""

MAX_BEGINNINGS = 96
"""Beginnings, of :data:`MAX_PREFIX_BYTES` characters, up to which a text is narrow."""

_Key: TypeAlias = "tuple[Node, Spelling, bytes]"


class Lexemes:
    """The lexemes of all schemas over one vocabulary.

    A walk is dropped together with the language of code points that its lexeme encodes.
    """

    def __init__(self, trie: TokenTrie, vocabulary_size: int) -> None:
        self._trie = trie
        self._size = vocabulary_size
        self._walks: WalkCache[_Key, LexemeWalk] = WalkCache(LIMITS.lexeme_walk_bytes)
        self._near: LruCache[Node, None] = LruCache(_BOUNDED_TEXTS)
        self._narrow: WeakKeyLruCache[Node, bool] = WeakKeyLruCache(_NARROW_LEXEMES)
        self._strings: LruCache[int, StringTokens] = LruCache(_JSON_STRING_STARTS)
        # Every schema has strings, so their tables are built before the first mask.
        self._suffixes = Suffixes(trie.after_each(ord('"')))
        self._strings.put(0, StringTokens(trie, vocabulary_size, self._suffixes))

    def is_narrow(self, split: LexemeSplit) -> bool:
        """Whether few tokens stay inside a lexeme, so that it need not be walked as such."""
        if split.is_any_text:
            return False
        first = split.prefix.first_bytes
        if split.prefix.nullable:
            first |= split.lexeme.first_bytes
        if self._trie.count_from_root(first) < MIN_LEXEME_TOKENS:
            return True
        text = split.lexeme.text
        quote = Quote.of(text)
        if quote is not None:
            return quote.is_narrow
        known = self._narrow.get(text)
        return self._narrow.put(text, _has_few_beginnings(text)) if known is None else known

    def walk(self, prefix: Node, lexeme: EncodedText) -> LexemeWalk:
        """Return the walk of a lexeme after a prefix."""
        if prefix is EPSILON and _is_string(lexeme):
            return self._string_walk(0, lexeme.text)
        if isinstance(lexeme.text, UntilText) and lexeme.spelling is RAW:
            return self._until_walk(prefix, lexeme.text, lexeme.terminator)
        key = (prefix, lexeme.spelling, lexeme.terminator)
        walk = self._walks.get(lexeme.text, key)
        if walk is None:
            walk = self._walks.put(lexeme.text, key, self._make(prefix, lexeme))
        return walk

    def _until_walk(self, prefix: Node, text: UntilText, terminator: bytes) -> LexemeWalk:
        """Return the walk of a free text; texts share it whose bounds no token can reach."""
        near = text.near(int(self._trie.characters.max(initial=0)))
        self._near.put(near, None)
        key = (prefix, RAW, terminator)
        walk = self._walks.get(near, key)
        if walk is None:
            walk = self._walks.put(near, key, self._make_until(prefix, near, terminator))
        return walk

    def _make_until(self, prefix: Node, text: UntilText, terminator: bytes) -> LexemeWalk:
        if prefix is not EPSILON or terminator or text.max_chars is not None:
            return self._make(prefix, encoded(text, RAW, terminator))
        unbounded = text.without_min_chars()
        if unbounded is not text:
            # The lower bound only restricts where the text may end.
            walk = self._until_walk(EPSILON, unbounded, b"")
            min_chars = text.min_chars + (0 if text.wanted is None else len(text.wanted))
            assert isinstance(walk, VertexWalk)
            return walk.ending_late(min_chars, is_prefix_free=text.wanted is not None)
        if text.wanted is not None:
            # Texts up to any of the same strings differ only in where they end.
            walk = self._until_walk(EPSILON, text.without_end(), b"")
            assert isinstance(walk, VertexWalk)
            last = text.wanted.encode()[-1]
            return walk.ending_at(
                [v for v in walk.vertices_beyond(last) if text.ends_with(self._trie.text(v))]
            )
        return self._make(EPSILON, encoded(text, RAW))

    def _make(self, prefix: Node, lexeme: Node) -> LexemeWalk:
        if isinstance(lexeme, EncodedText) and _is_string(lexeme):
            leads = _words(prefix)
            if leads is not None:
                return self._led_walk(leads, lexeme.text)
        if isinstance(lexeme, EncodedText) and lexeme.spelling is RAW and not lexeme.terminator:
            quote, raw_leads = Quote.of(lexeme.text), _words(prefix)
            if quote is not None and raw_leads is not None:
                return self._quote_walk(raw_leads, quote)
        return vertex_walk(concatenation(prefix, lexeme), self._trie, self._size)

    def _quote_walk(self, leads: list[bytes], quote: Quote) -> VertexWalk:
        """Return the walk of a quote in plain text after one of several byte strings."""
        trie = self._trie
        inside = np.zeros(self._size, np.bool_)
        exits: list[Ids] = []
        for lead in leads:
            path = trie.path(lead)
            inside[trie.tokens_at_all(np.array(path, np.int32))] = True
            if len(path) < len(lead):
                continue
            start = path[-1] if path else 0
            found = self._substrings.reached(quote, start)
            # The vertex of an empty lexeme without a prefix is no exit.
            found.is_live[start] = False
            found.ends[0] = False
            inside[trie.tokens_at_all(np.flatnonzero(found.is_live))] = True
            exits.append(np.flatnonzero(found.ends).astype(np.int32))
        return VertexWalk(inside, np.unique(concatenated(exits)).astype(np.int32), trie)

    @cached_property
    def _substrings(self) -> SubstringWalk:
        return SubstringWalk(self._trie)

    def _led_walk(self, leads: list[bytes], text: Node) -> LexemeWalk:
        trie = self._trie
        inside = np.zeros(self._size, np.bool_)
        walks = []
        for lead in leads:
            path = trie.path(lead)
            for vertex in path:
                inside[trie.tokens_at(vertex)] = True
            end = path[-1] if path else 0
            if len(path) == len(lead) and trie.has_children(end):
                walks.append(self._string_walk(end, text))
        for walk in walks:
            inside |= walk.inside
        return _LedWalk(inside, walks, leads, self._suffixes)

    def _string_walk(self, start: int, text: Node) -> TextWalk:
        tokens = self._strings.get(start)
        if tokens is None:
            made = StringTokens(self._trie.below(start), self._size, self._suffixes)
            tokens = self._strings.put(start, made)
        return tokens.walk(text)


class _LedWalk(LexemeWalk):
    """The text of a JSON string after one of several byte strings."""

    __slots__ = ("_walks", "leads", "suffixes")

    def __init__(
        self,
        inside: npt.NDArray[np.bool_],
        walks: list[TextWalk],
        leads: list[bytes],
        suffixes: Suffixes,
    ) -> None:
        super().__init__(inside)
        self.suffixes = suffixes
        self._walks = walks
        self.leads = leads

    def leaving(self, first: int) -> LeavingTokens:
        """Return the tokens that leave the string."""
        del first
        return self

    def tokens(self, numbers: Iterable[int]) -> Ids:
        """Return the tokens that leave the string with suffixes of the given numbers."""
        return concatenated([walk.tokens(numbers) for walk in self._walks])

    def leaving_ids(self) -> Ids:
        """Return the tokens that close the string."""
        return concatenated([walk.leaving_ids() for walk in self._walks])

    def ending(self, word: str) -> Ids:
        """Return the tokens that write the whole string, in any spelling, and close it."""
        return concatenated([walk.ending(word) for walk in self._walks])


def _is_string(text: EncodedText) -> bool:
    return text.spelling is JSON_STRING and text.terminator == b'"'


def _has_few_beginnings(text: Node) -> bool:
    """Whether a language of code points has at most :data:`MAX_BEGINNINGS` beginnings."""
    pending = [(text, 0)]
    beginnings = 0
    while pending:
        node, depth = pending.pop()
        for characters, target in node.transitions:
            beginnings += len(characters)
            if beginnings > MAX_BEGINNINGS:
                return False
            if depth < MAX_PREFIX_BYTES - 1:
                pending.extend((target, depth + 1) for _ in range(len(characters)))
    return True


def _words(node: Node) -> list[bytes] | None:
    """Return the words of a byte language; ``None`` if it has more than the limit."""
    words: list[bytes] = []
    layer = [(b"", node)]
    while layer:
        words.extend(prefix for prefix, state in layer if state.nullable)
        layer = [
            (prefix + bytes((byte,)), state.derivative(byte))
            for prefix, state in layer
            for byte in leading_bytes(state)
        ]
        if len(words) + len(layer) > _JSON_STRING_LEADS:
            return None
    return words
