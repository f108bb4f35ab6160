"""Which kind of walk suits a lexeme; the walks of a vocabulary, each made once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from state_machines.caches import LruCache
from state_machines.grammar.encoding import JSON_STRING, RAW, EncodedText, Spelling, encoded
from state_machines.grammar.node import EPSILON, Node, leading_bytes
from state_machines.grammar.nodes import concatenation
from state_machines.grammar.until import UntilText
from state_machines.limits import LIMITS
from state_machines.masks.lexeme_walk import (
    Beyond,
    LexemeWalk,
    Suffixes,
    VertexWalk,
    vertex_walk,
)
from state_machines.masks.text_walks import StringTokens, TextWalk
from state_machines.masks.token_trie import Ids, TokenTrie, joined
from state_machines.masks.walks_by_text import WalksByText

__all__ = ["Lexemes"]

_Kind: TypeAlias = "tuple[Node, Spelling, bytes]"


class Lexemes:
    """The lexemes of all schemas over one vocabulary.

    A walk is forgotten with the language of characters that it is of.
    """

    def __init__(self, trie: TokenTrie, vocabulary_size: int) -> None:
        self._trie = trie
        self._size = vocabulary_size
        self._walks: WalksByText[_Kind, LexemeWalk] = WalksByText(LIMITS.lexeme_walk_bytes)
        self._near: LruCache[Node, None] = LruCache(LIMITS.bounded_texts)
        self._strings: LruCache[int, StringTokens] = LruCache(LIMITS.json_string_starts)
        # Every schema has strings: what takes long about them is done before the first mask.
        self._suffixes = Suffixes(trie.after_each(ord('"')))
        self._strings.put(0, StringTokens(trie, vocabulary_size, self._suffixes))

    def walk(self, before: Node, text: EncodedText) -> LexemeWalk:
        """Return the walk of a text with something before it."""
        if before is EPSILON and _is_string(text):
            return self._text(0, text.text)
        if isinstance(text.text, UntilText) and text.spelling is RAW:
            return self._until(before, text.text, text.terminator)
        kind = (before, text.spelling, text.terminator)
        walk = self._walks.get(text.text, kind)
        if walk is None:
            walk = self._walks.put(text.text, kind, self._make(before, text))
        return walk

    def _until(self, before: Node, text: UntilText, terminator: bytes) -> LexemeWalk:
        """Return the walk of a free text, of which there is one for all bounds that are far."""
        near = text.near(int(self._trie.characters.max(initial=0)))
        self._near.put(near, None)
        kind = (before, RAW, terminator)
        walk = self._walks.get(near, kind)
        if walk is None:
            walk = self._walks.put(near, kind, self._make_until(before, near, terminator))
        return walk

    def _make_until(self, before: Node, text: UntilText, terminator: bytes) -> LexemeWalk:
        if before is not EPSILON or terminator or text.most is not None:
            return self._make(before, encoded(text, RAW, terminator))
        whole = text.at_any_length()
        if whole is not text:
            # The bound only says where the text may end.
            walk = self._until(EPSILON, whole, b"")
            least = text.least + (0 if text.wanted is None else len(text.wanted))
            assert isinstance(walk, VertexWalk)
            return walk.ending_late(least, is_over=text.wanted is not None)
        if text.wanted is not None:
            # Texts up to any of the same strings are one text, but for how they end.
            walk = self._until(EPSILON, text.without_end(), b"")
            assert isinstance(walk, VertexWalk)
            last = text.wanted.encode()[-1]
            return walk.ending_at(
                [v for v in walk.beyond_exits(last) if text.ends_with(self._trie.text(v))]
            )
        return self._make(EPSILON, encoded(text, RAW))

    def _make(self, before: Node, text: Node) -> LexemeWalk:
        if isinstance(text, EncodedText) and _is_string(text):
            leads = _words(before)
            if leads is not None:
                return self._led(leads, text.text)
        return vertex_walk(concatenation(before, text), self._trie, self._size)

    def _led(self, leads: list[bytes], text: Node) -> LexemeWalk:
        trie = self._trie
        inside = np.zeros(self._size, np.bool_)
        walks = []
        for lead in leads:
            path = trie.path(lead)
            for vertex in path:
                inside[trie.tokens_at(vertex)] = True
            end = path[-1] if path else 0
            if len(path) == len(lead) and trie.has_children(end):
                walks.append(self._text(end, text))
        for walk in walks:
            inside |= walk.inside
        return _LedWalk(inside, walks, leads, self._suffixes)

    def _text(self, start: int, text: Node) -> TextWalk:
        tokens = self._strings.get(start)
        if tokens is None:
            made = StringTokens(self._trie.below(start), self._size, self._suffixes)
            tokens = self._strings.put(start, made)
        return tokens.walk(text)


class _LedWalk(LexemeWalk):
    """A text with one of several byte strings before it."""

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

    def beyond(self, first: int) -> Beyond:
        """Return the tokens that go on beyond the string."""
        del first
        return self

    def tokens(self, numbers: Iterable[int]) -> Ids:
        """Return the tokens that go on beyond the string with suffixes of the given numbers."""
        return joined([walk.tokens(numbers) for walk in self._walks])

    def leaving_ids(self) -> Ids:
        """Return all tokens that close the string, whatever follows."""
        return joined([walk.leaving_ids() for walk in self._walks])

    def ending(self, word: str) -> Ids:
        """Return the tokens that write the whole string, in any spelling, and close it."""
        return joined([walk.ending(word) for walk in self._walks])


def _is_string(text: EncodedText) -> bool:
    return text.spelling is JSON_STRING and text.terminator == b'"'


def _words(node: Node) -> list[bytes] | None:
    """Return the words of a language that has few."""
    words: list[bytes] = []
    layer = [(b"", node)]
    while layer:
        words.extend(prefix for prefix, state in layer if state.nullable)
        layer = [
            (prefix + bytes((byte,)), state.derivative(byte))
            for prefix, state in layer
            for byte in leading_bytes(state)
        ]
        if len(words) + len(layer) > LIMITS.json_string_leads:
            return None
    return words
