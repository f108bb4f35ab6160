"""Tokens that complete a heading, of :mod:`state_machines.grammar.line_starts`.

A heading is longer than almost all tokens, so most vocabularies have no such token. Then a text
without headings has the tokens of the text with them, whatever its headings are.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from state_machines.budgets import spend
from state_machines.caches import WeakKeyLruCache
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.line_starts import TextWithoutHeadings
from state_machines.grammar.node import EMPTY, Node
from state_machines.masks.token_trie import Ids, TokenTrie

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
