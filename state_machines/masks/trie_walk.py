"""The walk of a node over a trie, vertex by vertex, for what few tokens suit.

A node is walked as it is written: a sequence is its head, and then its tail wherever the head may
end. What a head makes of a vertex does not depend on the tail, so it is remembered and serves every
state in which the same head comes before something else; no node is made for the rest of a text.

Where it turns out that many tokens suit, the node is walked over the whole trie instead, as an
automaton; but not where it has nearly as many states as there are vertices.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from state_machines.budgets import spend
from state_machines.caches import WeakKeyLruCache
from state_machines.grammar.capture import Captured, Continuation
from state_machines.grammar.encoding import EncodedText, Spelling
from state_machines.grammar.exclusion import Exclusion
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EMPTY, Node, Transitions
from state_machines.grammar.nodes import Concatenation, Literal, Union
from state_machines.grammar.symbols import byte_ranges, bytes_in
from state_machines.limits import LIMITS
from state_machines.masks.automaton import Automaton, states_at_vertices
from state_machines.masks.token_trie import TokenTrie
from state_machines.masks.ways import Tail, joined

__all__ = ["TrieWalk"]

MANY_VISITS = 256
"""Visits that are counted as work at once."""

PATIENCE = 16 * MANY_VISITS
"""Visits after which a walk from the root goes on as an automaton's."""

MANY_READINGS = 8
"""Visits of a vertex, on average, from which on a state is walked as a whole."""

_Kind: TypeAlias = tuple[Spelling, bytes, int]
_Reached: TypeAlias = "tuple[list[int], list[int]]"


class _TooManyStates(Exception):
    """An automaton has more states than it is good for."""


class _FewStates(Automaton):
    def expand(self, number: int) -> None:
        if len(self.nodes) > LIMITS.trie_walk_states:
            raise _TooManyStates
        super().expand(number)


class _CaptureEnd(Node):
    """Stands behind the rest of a captured text, in walks alone: what follows depends on the text.

    ``text`` was captured before ``vertex``.
    """

    __slots__ = ("text", "then", "vertex")

    def __init__(self, then: Continuation, text: bytes, vertex: int) -> None:
        super().__init__(nullable=False, min_length=0, max_length=None)
        self.then = then
        self.text = text
        self.vertex = vertex

    def compute_transitions(self) -> Transitions:
        raise NotImplementedError  # pragma: no cover - walks replace it by what follows


class TrieWalk:
    """Walks nodes over one trie. Safe to use from several threads at once."""

    def __init__(self, trie: TokenTrie) -> None:
        self._trie = trie
        self._heads: WeakKeyLruCache[Node, dict[_Kind, _Reached]] = WeakKeyLruCache(
            LIMITS.head_walks
        )

    def tokens(self, start: Node, vertex: int = 0, *, tail: Tail = None) -> list[int]:
        """Return the ids of the tokens below a vertex that a node and its tail can begin with.

        Some may be in it more than once.
        """
        trie = self._trie
        bytes_below, child_by, has_children = trie.bytes_below, trie.child, trie.has_children
        found: list[int] = []
        whole = (start, tail)
        stack: list[tuple[Node, Tail, int]] = [(start, tail, vertex)]
        visits = 0
        visited: set[int] | None = None
        while stack:
            visits += 1
            if not visits % MANY_VISITS:
                spend(MANY_VISITS)
                if visited is not None and len(visited) < MANY_VISITS // MANY_READINGS:
                    return self.tokens_by_state(joined(whole), vertex)
                visited = set()
                if visits == PATIENCE and not vertex:
                    suiting = self._suiting(joined(whole))
                    if suiting is not None:
                        return suiting
            node, tail, at = stack.pop()
            if visited is not None:
                visited.add(at)
            while type(node) is Concatenation:
                tail = (node.tail, tail)
                node = node.head
            kind = type(node)
            if kind is Literal:
                end = trie.follow(node.text, at, found)  # type: ignore[attr-defined]
                if tail is not None and end is not None and has_children(end):
                    stack.append((*tail, end))
                continue
            # With exceptions, not even the tokens that end with the captured text are sure.
            if kind is Captured and not node.then.has_exceptions:  # type: ignore[attr-defined]
                behind = _CaptureEnd(node.then, node.text, at)  # type: ignore[attr-defined]
                stack.append((node.rest, (behind, tail), at))  # type: ignore[attr-defined]
                continue
            if kind is _CaptureEnd:
                if at != node.vertex:  # type: ignore[attr-defined]
                    spend()
                    stack.append((self._after_capture(node, at), tail, at))  # type: ignore[arg-type]
                continue
            if tail is not None and node.nullable and kind is not Union:
                stack.append((*tail, at))
            first = node._first
            if first is None:
                first = node.first_bytes
            first &= bytes_below(at)
            if not first:
                if kind is Union and tail is not None and node.nullable:
                    stack.append((*tail, at))
            elif kind is Union:
                stack.extend((member, tail, at) for member in node.members)  # type: ignore[attr-defined]
            elif isinstance(node, Lazy) and kind is not EncodedText:
                spend()
                stack.append((node.expansion, tail, at))
            elif tail is not None and isinstance(node, EncodedText):
                ids, ends = self._head(node, at)
                found += ids
                stack.extend((*tail, end) for end in ends)
            else:
                for byte in bytes_in(first):
                    child = child_by(at, byte, found)
                    if has_children(child):
                        stack.append((node.derivative(byte), tail, child))
        return found

    def _after_capture(self, end: _CaptureEnd, vertex: int) -> Node:
        """Return what follows a captured text that ends at a vertex."""
        trie = self._trie
        written = trie.text(vertex)[len(trie.text(end.vertex)) :]
        return end.then.after(end.text + written)

    def parting(self, start: Exclusion) -> list[int]:
        """Return the vertices at which an exclusion ends and the language without it would not."""
        trie = self._trie
        found: list[int] = []
        stack: list[tuple[Exclusion, int]] = [(start, 0)]
        while stack:
            node, at = stack.pop()
            spend()
            for byte in bytes_in(node.body.first_bytes & node.shared_bytes & trie.bytes_below(at)):
                child = trie.child(at, byte, [])
                target = node.derivative(byte)
                if target is EMPTY:
                    found.append(child)
                elif isinstance(target, Exclusion):
                    stack.append((target, child))
        return found

    def tokens_by_state(self, start: Node, vertex: int = 0) -> list[int]:
        """Return the same of a node as it is, by the one state that each vertex has.

        That is quicker for ambiguous states: each of their readings would come to a vertex by
        itself.
        """
        trie = self._trie
        found: list[int] = []
        stack = [(start, vertex)]
        visits = 0
        while stack:
            visits += 1
            if visits == PATIENCE and not vertex:
                suiting = self._suiting(start)
                if suiting is not None:
                    return suiting
            node, at = stack.pop()
            first = node.first_bytes & trie.bytes_below(at)
            spend(1 + first.bit_count() // 8)
            for byte in bytes_in(first):
                child = trie.child(at, byte, found)
                if trie.has_children(child):
                    stack.append((node.derivative(byte), child))
        return found

    def _suiting(self, node: Node) -> list[int] | None:
        """Return the ids of the tokens that a node can begin with; ``None``: too many states."""
        try:
            states = states_at_vertices(_FewStates(node, byte_ranges), self._trie)
        except _TooManyStates:
            return None
        live = np.flatnonzero(states)[1:]
        return self._trie.tokens_at_all(live).tolist()  # type: ignore[no-any-return]

    def _head(self, head: EncodedText, vertex: int) -> _Reached:
        """Return the tokens below a vertex that a head allows, and the vertices where it may end.

        Of these vertices, only those below the first where tokens go on.
        """
        # By the language alone: it may outlive the schema.
        kind = (head.spelling, head.terminator, vertex)
        known = self._heads.get(head.text)
        if known is None:
            known = self._heads.put(head.text, {})
        reached = known.get(kind)
        if reached is None:
            reached = known[kind] = self._walk_head(head, vertex)
        return reached

    def _walk_head(self, head: Node, vertex: int) -> _Reached:
        trie = self._trie
        found: list[int] = []
        ends: list[int] = []
        stack = [(head, vertex)]
        visits = 0
        while stack:
            visits += 1
            if not visits % MANY_VISITS:
                spend(MANY_VISITS)
            node, at = stack.pop()
            for byte in bytes_in(node.first_bytes & trie.bytes_below(at)):
                child = trie.child(at, byte, found)
                if trie.has_children(child):
                    target = node.derivative(byte)
                    if target.nullable:
                        ends.append(child)
                    stack.append((target, child))
        return found, ends
