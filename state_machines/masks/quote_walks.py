"""Walks of quotes from a source, inside JSON strings and in plain text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from state_machines.masks.character_trie import CharacterTrie, Flags
from state_machines.masks.lexeme_walk import (
    NO_VERTICES,
    ClosingQuotes,
    LeavingTokens,
    LexemeWalk,
    Suffixes,
    TokensBySuffix,
)
from state_machines.masks.substring_walk import Quote, SubstringWalk
from state_machines.masks.token_sets import packed
from state_machines.masks.token_trie import Ids, TokenTrie, concatenated


class QuoteWalks:
    """Walks quotes over the tokens of one trie. Safe to use from several threads."""

    def __init__(self, trie: TokenTrie, vocabulary_size: int, closing: ClosingQuotes) -> None:
        self._trie = trie
        self._size = vocabulary_size
        self._closing = closing

    def plain(self, leads: list[bytes], quote: Quote) -> LexemeWalk:
        """Return the walk of a quote in plain text after one of several byte strings."""
        trie = self._trie
        inside: list[Ids] = []
        exits: list[Ids] = []
        for lead in leads:
            path = trie.path(lead)
            inside.append(np.array(path, np.int32))
            if len(path) < len(lead):
                continue
            start = path[-1] if path else 0
            found = self._substrings.reached(quote, start)
            # The vertex of an empty lexeme without a prefix is no exit.
            found.is_live[start] = False
            found.ends[0] = False
            inside.append(np.flatnonzero(found.is_live).astype(np.int32))
            exits.append(np.flatnonzero(found.ends).astype(np.int32))
        ends = np.unique(concatenated(exits)).astype(np.int32)
        tokens = packed(trie.tokens_at_all(concatenated(inside)))
        return LexemeWalk(tokens, trie.children_of(ends), trie)

    def string(self, quote: Quote) -> LexemeWalk:
        """Return the walk of a quote inside a JSON string, after the opening quote."""
        characters = self._characters
        return characters.walk(quote, self._size)

    @cached_property
    def _substrings(self) -> SubstringWalk:
        return SubstringWalk(self._trie)

    @cached_property
    def _characters(self) -> _Strings:
        return _Strings(self._trie, self._closing)


class _Strings:
    """The tokens inside JSON strings, by their characters."""

    def __init__(self, trie: TokenTrie, closing: ClosingQuotes) -> None:
        self.trie = CharacterTrie(trie)
        self.tokens = trie
        self._substrings = SubstringWalk(self.trie)
        suffixes = closing.suffixes
        texts = self.trie.suffixes
        self._closes: Flags = np.array([not text for text in texts], np.bool_)[self.trie.suffix]
        numbers = np.array([suffixes.numbers.get(text, -1) for text in texts], np.int32)
        beyond = np.flatnonzero(~self._closes).astype(np.int32)
        self.beyond = TokensBySuffix(beyond, numbers[self.trie.suffix[beyond]], suffixes)
        """The leaving tokens with a suffix, as indices of the trie's leaving tokens."""

    def walk(self, quote: Quote, vocabulary_size: int) -> LexemeWalk:
        """Return the walk of a quote."""
        trie = self.trie
        found = self._substrings.reached(quote)
        leaves = found.ends[trie.leaving_at]
        # Tokens that do not end in a whole character have the number after the last vertex.
        vertex_of = np.full(vocabulary_size, trie.size, np.intp)
        vertex_of[trie.whole_ids] = trie.whole_at
        inside = np.append(found.is_live, np.False_)[vertex_of]
        inside[trie.begun_ids] = found.begun
        inside[trie.leaving_ids[leaves & self._closes]] = True
        return _StringQuoteWalk(np.flatnonzero(inside).astype(np.int32), self, leaves)


class _StringQuoteWalk(LexemeWalk):
    """The walk of a quote inside a JSON string.

    Args:
        inside: The tokens that stay inside the string or close it.
        strings: The tokens of strings.
        leaves: Whether the text before the closing quote is a quote: bool, shape (leaving tokens,).
    """

    __slots__ = ("_leaves", "_strings", "suffixes")

    def __init__(self, inside: Ids, strings: _Strings, leaves: Flags) -> None:
        super().__init__(packed(inside), NO_VERTICES, strings.tokens)
        self._strings = strings
        self._leaves = np.packbits(leaves)
        self.suffixes: Suffixes = strings.beyond.suffixes

    def leaving(self, first: int) -> LeavingTokens:
        """Return the tokens that leave the string."""
        del first
        return self

    def tokens_of(self, numbers: Iterable[int]) -> Ids:
        """Return the tokens that leave the string with suffixes of the given numbers."""
        trie = self._strings.trie
        leaves = np.unpackbits(self._leaves, count=len(trie.leaving_ids)).view(np.bool_)
        found = self._strings.beyond.tokens_of(numbers)
        return trie.leaving_ids[found[leaves[found]]]
