"""The walk of a lexeme that few tokens suit, such as a number or a literal."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from state_machines.grammar.node import Node, live_bytes
from state_machines.grammar.symbols import ANY_BYTE
from state_machines.masks.lexeme_walk import Beyond, LexemeWalk
from state_machines.masks.token_trie import Ids, TokenTrie

__all__ = ["MAX_VISITS", "NarrowWalk"]

MAX_VISITS = 1500
"""Vertices that a walk visits one by one before whole-array operations are quicker."""


class NarrowWalk(LexemeWalk):
    """A lexeme that few tokens suit, walked vertex by vertex.

    Raises :class:`OverflowError` when they are not few.
    """

    __slots__ = ("_beyond_exits", "_exits", "_trie")

    def __init__(self, lexeme: Node, trie: TokenTrie, vocabulary_size: int) -> None:
        inside = np.zeros(vocabulary_size, np.bool_)
        self._trie = trie
        self._beyond_exits: dict[int, list[int]] = {}
        self._exits: list[int] = []
        visits = 0
        stack = [(lexeme, 0)]
        while stack:
            node, vertex = stack.pop()
            for byte, child in trie.children_in(vertex, node.first_bytes):
                visits += 1
                inside[trie.tokens_at(child)] = True
                target = node.step(byte)
                if target.nullable:
                    self._exits.append(child)
                if trie.has_children(child):
                    stack.append((target, child))
                    if target.nullable:
                        for mark, beyond in trie.children_in(child, ANY_BYTE):
                            self._beyond_exits.setdefault(mark, []).append(beyond)
            if visits > MAX_VISITS:
                raise OverflowError(f"more than {MAX_VISITS} vertices are alive")
        super().__init__(inside)

    def leaving_ids(self) -> Ids:
        """Return all tokens that end the lexeme and those that go on beyond it."""
        return self._trie.tokens_from_all(self._exits)

    def beyond(self, rest: Node) -> list[Beyond]:
        """Return the tokens whose suffix ``rest`` can begin with."""
        found = list(self._beyond(rest))
        return [Beyond.of(found)] if found else []

    def _beyond(self, rest: Node) -> Iterator[tuple[bytes, Ids]]:
        trie = self._trie
        for byte in live_bytes(rest):
            vertices = self._beyond_exits.get(byte)
            if vertices is None:
                continue
            target = rest.step(byte)
            stack = [(target, vertex, bytes((byte,))) for vertex in vertices]
            while stack:
                node, vertex, suffix = stack.pop()
                if trie.has_tokens(vertex):
                    yield suffix, trie.tokens_at(vertex)
                for mark, child in trie.children_in(vertex, node.first_bytes):
                    stack.append((node.step(mark), child, suffix + bytes((mark,))))
