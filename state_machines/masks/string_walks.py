"""Walks of lexemes that are almost any string: told by how they differ from one that is.

Inside strings nearly every token stays alive, and most strings of a schema differ little from the
free one: by a length, or by a few names that are taken. So the free string is walked once, and

* a :class:`LengthWalk` filters its tokens by how many characters they write;
* a :class:`DifferenceWalk` visits only the vertices where its state is another.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from state_machines.grammar.node import EMPTY, EPSILON, Node, live_bytes
from state_machines.grammar.symbols import ANY_BYTE
from state_machines.masks.lexeme_walk import FullWalk, LexemeWalk, SuffixTrie, states_at_vertices
from state_machines.masks.recent import RecentWeak
from state_machines.masks.token_trie import Ids, TokenTrie

__all__ = ["BaseWalk", "DifferenceWalk", "FreeText", "LengthWalk", "NarrowWalk"]

MAX_CONTINUATIONS = 2048

MAX_VISITS = 1500
"""Vertices that a walk visits one by one before whole-array operations are quicker."""


class BaseWalk(FullWalk):
    """The walk of a string without constraint, perhaps with something before it.

    ``states``: int32, shape (vertices,), the number of the state at every vertex, 0 where it is
    dead; ``nodes``: the states by number.
    """

    __slots__ = ("_known", "nodes", "states")

    def __init__(self, lexeme: Node, trie: TokenTrie, vocabulary_size: int) -> None:
        states, self.nodes = states_at_vertices(lexeme, trie)
        super().__init__(states, self.nodes, trie, vocabulary_size)
        self.states = states
        self._known: RecentWeak[Node, tuple[tuple[bytes, Ids], ...]] = RecentWeak(MAX_CONTINUATIONS)

    def beyond(self, rest: Node) -> Iterable[tuple[bytes, Ids]]:
        """Return (suffix, token ids) for the tokens whose suffix ``rest`` can begin with.

        Kept for the continuations asked last: all strings before one of them share the answer.
        """
        known = self._known.get(rest)
        return self._known.put(rest, tuple(super().beyond(rest))) if known is None else known


class FreeText(BaseWalk):
    """The inside of a string without constraint, with the characters that each token writes.

    ``closing``: int32, the ids of the tokens that end with the closing quote. ``written``: int32,
    shape (vocabulary size,): characters a token completes before it leaves the string;
    ``opened``: the same, one more where it ends within a character.
    """

    __slots__ = ("closing", "longest", "opened", "written")

    def __init__(self, lexeme: Node, trie: TokenTrie, vocabulary_size: int) -> None:
        super().__init__(lexeme, trie, vocabulary_size)
        states = self.states
        is_complete = states == 1
        count = np.zeros(trie.size, np.int32)
        for start, end in zip(trie.levels[1:], trie.levels[2:], strict=False):
            count[start:end] = count[trie.parent[start:end]] + is_complete[start:end]
        ends = np.fromiter((node is EPSILON for node in self.nodes), np.bool_, len(self.nodes))
        is_closed = ends[states]
        is_within = (states > 1) & ~is_closed
        self.closing: Ids = trie.ids[is_closed[trie.vertex_of]]
        self.written: Ids = np.zeros(vocabulary_size, np.int32)
        self.written[trie.ids] = count[trie.vertex_of]
        self.opened: Ids = np.zeros(vocabulary_size, np.int32)
        self.opened[trie.ids] = (count + is_within)[trie.vertex_of]
        self.longest = int(self.opened.max(initial=0))


class LengthWalk(LexemeWalk):
    """Between ``least`` and ``most`` more characters, then the closing quote."""

    __slots__ = ("_base", "_fits")

    def __init__(self, base: FreeText, least: int, most: int | None) -> None:
        fits = base.opened <= (base.longest if most is None else most)
        inside = base.inside & fits
        # Tokens that close the string must have written enough.
        inside[base.closing] &= base.written[base.closing] >= least
        super().__init__(inside)
        self._base = base
        self._fits = fits & (base.written >= least)

    def beyond(self, rest: Node) -> Iterable[tuple[bytes, Ids]]:
        """Return (suffix, token ids) for the tokens whose suffix ``rest`` can begin with."""
        for suffix, token_ids in self._base.beyond(rest):
            kept = token_ids[self._fits[token_ids]]
            if len(kept):
                yield suffix, kept


class DifferenceWalk(LexemeWalk):
    """A lexeme that soon becomes the free string wherever a token leads.

    Raises :class:`OverflowError` when it is not like that.
    """

    __slots__ = ("_base", "_own", "_refused")

    def __init__(self, lexeme: Node, base: BaseWalk, trie: TokenTrie) -> None:
        inside = base.inside.copy()
        refused: list[Ids] = []
        self._own = SuffixTrie()
        visits = 0
        stack = [(lexeme, 0)]
        while stack:
            node, vertex = stack.pop()
            known = base.nodes[base.states[vertex]]
            for byte, child in trie.children_in(vertex, _differing(node, known)):
                visits += 1
                target = node.step(byte) if node.first_bytes >> byte & 1 else EMPTY
                if target is EMPTY:
                    refused.append(trie.ids[trie.low[child] : trie.high[child]])
                    inside[refused[-1]] = False
                    continue
                inside[trie.tokens_at(child)] = True
                if trie.has_children(child):
                    stack.append((target, child))
                    if target.nullable:
                        for suffix, token_ids in trie.tokens_below(child):
                            self._own.insert(suffix, token_ids)
            if visits > MAX_VISITS:
                raise OverflowError(f"more than {MAX_VISITS} vertices differ")
        self._own.merge_ids()
        super().__init__(inside)
        self._base = base
        self._refused = np.concatenate(refused) if refused else np.zeros(0, np.int32)

    def beyond(self, rest: Node) -> Iterable[tuple[bytes, Ids]]:
        """Return (suffix, token ids) for the tokens whose suffix ``rest`` can begin with."""
        yield from self._own.accepted(rest)
        if not len(self._refused):
            yield from self._base.beyond(rest)
            return
        is_kept = np.ones(len(self.inside), np.bool_)
        is_kept[self._refused] = False
        for suffix, token_ids in self._base.beyond(rest):
            kept = token_ids[is_kept[token_ids]]
            if len(kept):
                yield suffix, kept


def _differing(node: Node, known: Node) -> int:
    """Return the bytes after which two nodes are not the same."""
    differing = 0
    seen = 0
    row = known.row
    for symbols, target in node.row:
        seen |= symbols
        for others, other in row:
            if other is target:
                symbols &= ~others
        differing |= symbols
    return differing | (known.first_bytes & ~seen)


class NarrowWalk(LexemeWalk):
    """A lexeme that few tokens suit, walked vertex by vertex.

    Raises :class:`OverflowError` when they are not few.
    """

    __slots__ = ("_beyond_exits", "_trie")

    def __init__(self, lexeme: Node, trie: TokenTrie, vocabulary_size: int) -> None:
        inside = np.zeros(vocabulary_size, np.bool_)
        self._trie = trie
        self._beyond_exits: dict[int, list[int]] = {}
        visits = 0
        stack = [(lexeme, 0)]
        while stack:
            node, vertex = stack.pop()
            for byte, child in trie.children_in(vertex, node.first_bytes):
                visits += 1
                inside[trie.tokens_at(child)] = True
                if trie.has_children(child):
                    target = node.step(byte)
                    stack.append((target, child))
                    if target.nullable:
                        for mark, beyond in trie.children_in(child, ANY_BYTE):
                            self._beyond_exits.setdefault(mark, []).append(beyond)
            if visits > MAX_VISITS:
                raise OverflowError(f"more than {MAX_VISITS} vertices are alive")
        super().__init__(inside)

    def beyond(self, rest: Node) -> Iterable[tuple[bytes, Ids]]:
        """Return (suffix, token ids) for the tokens whose suffix ``rest`` can begin with."""
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
