"""The tokens of texts that may end anywhere or at a mark, and of texts without headings.

A heading (:mod:`state_machines.grammar.line_starts`) is longer than almost all tokens, so most
vocabularies have no token that completes one. Then a text without headings has the tokens of the
text with them, whatever its headings are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from state_machines.budgets import spend
from state_machines.caches import WeakKeyLruCache
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.line_starts import TextWithoutHeadings
from state_machines.grammar.node import EMPTY, Node
from state_machines.masks.lexeme_tokens import FEW_BYTES, NO_VERTICES, LexemeTokens
from state_machines.masks.token_sets import TokenSet, packed, without
from state_machines.masks.token_trie import Ids, TokenTrie, concatenated

_LINE_FEED = ord("\n")

_HEADINGS = 256
"""Headings, and beginnings of them, for which it is stored whether a token completes one."""


class HeadingWalks:
    """Searches a vocabulary for tokens that complete a heading."""

    def __init__(self, trie: TokenTrie) -> None:
        self._trie = trie
        self._at_root: WeakKeyLruCache[Node, bool] = WeakKeyLruCache(_HEADINGS)
        self._in_token: WeakKeyLruCache[Node, bool] = WeakKeyLruCache(_HEADINGS)

    def may_complete(self, text: TextWithoutHeadings) -> bool:
        """Whether a token may complete the current line's heading, or a heading inside it."""
        if text.line is not EMPTY:
            known = self._at_root.peek(text.line)
            if known is None:
                known = self._at_root.put(text.line, self._completes(0, text.line))
            if known:
                return True
        known = self._in_token.peek(text.headings)
        if known is None:
            found = any(self._completes(v, text.headings) for v in self._deep_line_feeds(text))
            known = self._in_token.put(text.headings, found)
        return known

    def ends(self, text: TextWithoutHeadings, exits: Ids) -> list[int]:
        """Return the vertices where a text that ends with a line may end and another part begin.

        Args:
            text: The text.
            exits: The vertices where the text may end if lines do not matter: int32.
        """
        trie = self._trie
        exits = exits[(trie.byte[exits] == _LINE_FEED) & (self._heights[exits] > 0)]
        node = encoded(text, RAW)
        return [v for v in exits.tolist() if node.compute_word_derivative(trie.text(v)).nullable]

    def _deep_line_feeds(self, text: TextWithoutHeadings) -> list[int]:
        """Return the line feeds behind which a token may be as long as a heading."""
        is_deep = self._heights >= text.headings.min_length
        found: list[int] = np.flatnonzero(is_deep & (self._trie.byte == _LINE_FEED)).tolist()
        return found

    @cached_property
    def _heights(self) -> Ids:
        """The bytes of the longest text below each vertex."""
        trie = self._trie
        heights: Ids = np.zeros(trie.size, np.int32)
        for first, last in zip(trie.levels[-2:0:-1], trie.levels[:1:-1], strict=True):
            parents, starts = np.unique(trie.parent[first:last], return_index=True)
            heights[parents] = np.maximum.reduceat(heights[first:last], starts) + 1
        return heights

    def _completes(self, vertex: int, heading: Node) -> bool:
        """Whether a text below a vertex has a heading at its beginning."""
        trie, heights = self._trie, self._heights
        pending = [(vertex, encoded(heading, RAW))]
        while pending:
            vertex, node = pending.pop()
            if node.nullable:
                return True
            if heights[vertex] < node.min_length:
                continue
            spend()
            first = node.first_bytes
            for child in trie.children(vertex):
                byte = trie.byte_at(child)
                if first >> byte & 1:
                    pending.append((child, node.derivative(byte)))
        return False


class FreeTextTokens(LexemeTokens):
    """The tokens of a text that may end at many vertices.

    Args:
        tokens: The tokens that stay inside the text or end with it.
        exits: The vertices where the text may end: int32.
        trie: The token trie.
    """

    __slots__ = ("exits",)

    def __init__(self, tokens: TokenSet, exits: Ids, trie: TokenTrie) -> None:
        super().__init__(tokens, NO_VERTICES, trie)
        self.exits = exits

    @property
    def weight(self) -> int:
        """The approximate size of the walk in bytes."""
        return super().weight + self.exits.nbytes

    def _sort(self, labels: Sequence[int]) -> None:
        """Find the vertices beyond the text by their bytes."""
        if len(labels) > FEW_BYTES:
            self._beyond = self._trie.children_of(self.exits)
            super()._sort(labels)
            self._beyond = NO_VERTICES
            return
        if not labels:
            return
        may_end = np.zeros(self._trie.size, np.bool_)
        may_end[self.exits] = True
        for byte in labels:
            children = self._trie.vertices_of(byte)
            self._by_byte[byte] = children[may_end[self._trie.parent[children]]]

    @classmethod
    def of(cls, vertices: Ids, may_end: npt.NDArray[np.bool_], trie: TokenTrie) -> FreeTextTokens:
        """Return the tokens of a text.

        Args:
            vertices: The vertices that the text reaches: int32.
            may_end: Whether the text may end there: bool, of the same shape.
            trie: The token trie.
        """
        return cls(packed(trie.tokens_at_all(vertices)), vertices[may_end], trie)

    def vertices_beyond(self, byte: int) -> list[int]:
        """Return the vertices outside the text that a byte leads to from where it may end."""
        trie = self._trie
        may_end = np.zeros(trie.size, np.bool_)
        may_end[0] = True
        may_end[self.exits] = True
        children = trie.vertices_of(byte)
        outside = may_end[trie.parent[children]] & ~may_end[children]
        return children[outside].tolist()  # type: ignore[no-any-return]

    def ending_at(self, exits: list[int]) -> FreeTextTokens:
        """Return the tokens of a text that also reaches some vertices, and ends only there."""
        ends = np.array(exits, np.int32)
        tokens = packed(concatenated([self.tokens.ids, self._trie.tokens_at_all(ends)]))
        return FreeTextTokens(tokens, ends, self._trie)

    def ending_late(self, min_chars: int, *, is_prefix_free: bool) -> FreeTextTokens:
        """Return the tokens where the text ends after at least ``min_chars`` characters.

        Args:
            min_chars: Number of characters that begin before the end.
            is_prefix_free: Whether no word of the language begins another one. Then a word that
                ends too early is no beginning of a longer word.
        """
        late = self._trie.characters[self.exits] >= min_chars
        tokens = self.tokens
        if is_prefix_free:
            tokens = without(tokens, self._trie.tokens_at_all(self.exits[~late]))
        return FreeTextTokens(tokens, self.exits[late], self._trie)
