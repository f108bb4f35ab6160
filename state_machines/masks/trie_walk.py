"""The walk of a node over a trie, vertex by vertex, for states that allow few tokens.

A concatenation is walked as its head, and as its tail from every vertex where the head may end. The
result for a head and a vertex does not depend on the tail, so it is cached and serves all states
that have this head; no node is created for the concatenation of the rest of the head and the tail.

A node that turns out to allow many tokens is walked over the whole trie as an automaton instead,
unless the automaton has about as many states as the trie has vertices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from state_machines.budgets import spend
from state_machines.caches import WeakKeyLruCache
from state_machines.grammar.configurations import Stack, joined
from state_machines.grammar.encoding import EncodedText, Spelling
from state_machines.grammar.exclusion import Exclusion
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.lexing import Lexed
from state_machines.grammar.node import EMPTY, EPSILON, Node, Transitions
from state_machines.grammar.nodes import (
    Branch,
    Concatenation,
    Literal,
    Repetition,
    SymbolNode,
    Union,
)
from state_machines.grammar.remembered import Dispatch, Remembered
from state_machines.grammar.substring import EncodedQuote
from state_machines.grammar.symbols import bytes_in
from state_machines.limits import LIMITS
from state_machines.masks.descent import Descents, below
from state_machines.masks.grammar_walks import LexerWalks
from state_machines.masks.quote_walks import quote_walk
from state_machines.masks.state_table import StateTable, TooManyStatesError

_HEAD_WALKS = 2048
"""Heads of states whose walks over the trie are stored."""

VISITS_PER_STEP = 256
"""Visits that are charged to the step budget at once."""

MAX_HEAD_VISITS = 64
"""Visits after which a head is walked as an automaton instead."""

MAX_VISITS = 16 * VISITS_PER_STEP
"""Visits after which a walk from the root continues as an automaton."""

VISITS_PER_VERTEX = 8
"""Average number of visits of a vertex from which on a state is walked as a whole."""

_SHORT_KINDS = frozenset((Branch, Repetition, SymbolNode, Union))
"""Nodes that are walked at once where their words are short: blanks, punctuation, digits."""

_MAX_SHORT = 16
"""Bytes of the words of such nodes."""

_HeadKey: TypeAlias = tuple[Spelling, bytes, int] | int
_HeadTokens: TypeAlias = "tuple[list[int], list[int]]"
"""The tokens below a vertex that a head allows, and the vertices where it may end."""


class _RememberedEnd(Node):
    """A stack symbol after a remembered word; ``written`` was read before ``vertex``."""

    __slots__ = ("dispatch", "vertex", "written")

    def __init__(self, dispatch: Dispatch, written: bytes, vertex: int) -> None:
        super().__init__(nullable=False, min_length=0, max_length=None)
        self.dispatch = dispatch
        self.written = written
        self.vertex = vertex

    def compute_transitions(self) -> Transitions:
        raise NotImplementedError  # pragma: no cover - the walk replaces it by the continuation


class TrieWalk:
    """Walks nodes over one trie. Safe to use from several threads at once."""

    def __init__(self, descents: Descents) -> None:
        self._trie = descents.trie
        self._descents = descents
        self._heads: WeakKeyLruCache[Node, dict[_HeadKey, _HeadTokens]] = WeakKeyLruCache(
            _HEAD_WALKS
        )
        self.lexer_walks = LexerWalks(descents)

    def tokens(self, start: Node, vertex: int = 0, *, stack: Stack = None) -> list[int]:
        """Return the tokens below a vertex that a node and its stack allow; ids may repeat."""
        trie = self._trie
        descend, has_children, bytes_below = trie.descend, trie.has_children, trie.bytes_below
        known_heads = self._heads.peek
        found: list[int] = []
        pending: list[tuple[Node, Stack, int]] = [(start, stack, vertex)]
        visits = 0
        visited: set[int] | None = None
        while pending:
            visits += 1
            if not visits % VISITS_PER_STEP:
                spend(VISITS_PER_STEP)
                shortcut = self._shortcut(start, stack, vertex, visits, visited)
                if shortcut is not None:
                    return shortcut
                visited = set()
            node, tail, at = pending.pop()
            if visited is not None:
                visited.add(at)
            while type(node) is Concatenation:
                tail, node = (node.tail, tail), node.head
            kind = type(node)
            if kind is Literal:
                end = trie.follow(node.text, at, found)  # type: ignore[attr-defined]
                if tail is not None and end is not None and has_children(end):
                    pending.append((*tail, end))
                continue
            if kind in _SHORT_KINDS:
                longest = node.max_length
                if longest is not None and longest <= _MAX_SHORT:
                    walks = known_heads(node)
                    walk = None if walks is None else walks.get(at)
                    ids, ends = self._short_walk(node, at) if walk is None else walk
                    found += ids
                    if tail is not None:
                        following, rest = tail
                        if node.nullable:
                            pending.append((following, rest, at))
                        for end in ends:
                            pending.append((following, rest, end))
                    continue
            if kind is Union:
                if tail is not None and node.nullable:
                    pending.append((*tail, at))
                below = bytes_below(at)
                if node.first_bytes & below:
                    members = node.members  # type: ignore[attr-defined]
                    pending += [(each, tail, at) for each in members if each.first_bytes & below]
                continue
            if kind is Remembered:
                dispatch, lexeme = node.dispatch, node.lexeme  # type: ignore[attr-defined]
                if not dispatch.has_exceptions:
                    remembered_end = _RememberedEnd(dispatch, node.written, at)  # type: ignore[attr-defined]
                    pending.append((lexeme, (remembered_end, tail), at))
                    continue
                if type(lexeme) is EncodedText:
                    pending += self._walk_remembered(node, tail, at, found)  # type: ignore[arg-type]
                    continue
            elif kind is _RememberedEnd:
                if at != node.vertex and bytes_below(at) & node.dispatch.following_bytes:  # type: ignore[attr-defined]
                    pending.append((self._after_remembered(node, at), tail, at))  # type: ignore[arg-type]
                continue
            if tail is not None and node.nullable:
                pending.append((*tail, at))
            if isinstance(node, EncodedQuote):
                quoted = quote_walk(self._descents, node, at)
                found += quoted.tokens.ids.tolist()
                if tail is not None:
                    pending += [(*tail, end) for end in quoted.ends.tolist()]
                continue
            first = node.first_bytes
            is_lazy = isinstance(node, Lazy)
            if not is_lazy and kind is not Lexed:
                for byte, child in descend(at, first, found):
                    target = node.derivative(byte)
                    if target is not EPSILON:
                        pending.append((target, tail, child))
                    elif tail is not None:
                        pending.append((*tail, child))
            elif not first & bytes_below(at):
                continue
            elif kind is EncodedText:
                assert isinstance(node, EncodedText)
                ids, ends = self._head_walk(node, at)
                found += ids
                if tail is not None:
                    pending += [(*tail, end) for end in ends]
            elif is_lazy:
                spend()
                pending.append((node.expansion, tail, at))  # type: ignore[attr-defined]
            else:
                assert isinstance(node, Lexed)
                pending.extend(self._walk_lexer(node, tail, at, found))
        self._descents.vertices += visits
        return found

    def _walk_lexer(
        self, state: Lexed, tail: Stack, vertex: int, found: list[int]
    ) -> Iterator[tuple[Node, Stack, int]]:
        """Add the tokens of a grammar over lexemes; yield where other languages begin."""
        trie = self._trie
        for node in state.nested_texts:
            yield node, tail, vertex
        for walk, before in self.lexer_walks.walks(state, vertex):
            found += walk.live_tokens(before, self.lexer_walks).ids.tolist()
            for group in walk.groups if state.lexicon.nested else ():
                for after in before.after(group.complete):
                    assert isinstance(after, Lexed)
                    for node in after.nested_texts:
                        yield from self._begin(node, tail, group.vertices.tolist(), found)
            for complete, ends in walk.ends(self.lexer_walks).items() if tail is not None else ():
                if any(after.nullable for after in before.after(complete)):
                    assert tail is not None
                    following, rest = tail
                    for end in filter(trie.has_children, ends.tolist()):
                        yield following, rest, end

    def _begin(
        self, node: Node, tail: Stack, vertices: list[int], found: list[int]
    ) -> Iterator[tuple[Node, Stack, int]]:
        """Yield what follows the first byte of a language at vertices that it leads to."""
        for vertex in vertices:
            target = node.derivative(self._trie.byte_at(vertex))
            if target is not EMPTY:
                self._trie.add_tokens_at(vertex, found)
                yield target, tail, vertex

    def _shortcut(
        self, start: Node, stack: Stack, vertex: int, visits: int, visited: set[int] | None
    ) -> list[int] | None:
        """Return the tokens by a walk of the state as a whole, if that is faster by now.

        ``visited`` are the vertices of the last ``VISITS_PER_STEP`` visits.
        """
        if visited is not None and len(visited) < VISITS_PER_STEP // VISITS_PER_VERTEX:
            return self.tokens_by_state(joined((start, stack)), vertex)
        if visits == MAX_VISITS and not vertex:
            return self._tokens_by_automaton(joined((start, stack)))
        return None

    def _walk_remembered(
        self, node: Remembered, tail: Stack, vertex: int, found: list[int]
    ) -> Iterator[tuple[Node, Stack, int]]:
        """Add the tokens within a word with exceptions; yield what follows the word, and where.

        A token that ends with the word is refused if the word is an exception.
        """
        trie = self._trie
        assert isinstance(node.lexeme, EncodedText), "checked by the caller"
        ids, ends = self._head_walk(node.lexeme, vertex)
        begin = _RememberedEnd(node.dispatch, node.written, vertex)
        refused: set[int] = set()
        for end in ends:
            is_read = trie.bytes_below(end) & node.dispatch.following_bytes
            if not is_read and not trie.has_tokens(end):
                continue
            after = self._after_remembered(begin, end)
            if after is EMPTY:
                refused.update(trie.tokens_at(end).tolist())
            elif is_read:
                yield after, tail, end
        found += [i for i in ids if i not in refused] if refused else ids

    def _after_remembered(self, end: _RememberedEnd, vertex: int) -> Node:
        """Return the continuation of a remembered word that ends at a vertex."""
        spend()
        trie = self._trie
        written = trie.text(vertex)[len(trie.text(end.vertex)) :]
        return end.dispatch.after(end.written + written)

    def excluded_vertices(self, start: Exclusion) -> list[int]:
        """Return the vertices that the body of an exclusion reaches and the exclusion does not."""
        trie = self._trie
        found: list[int] = []
        pending: list[tuple[Exclusion, int]] = [(start, 0)]
        while pending:
            node, at = pending.pop()
            spend()
            for byte in bytes_in(node.body.first_bytes & node.shared_bytes & trie.bytes_below(at)):
                child = trie.child(at, byte, [])
                target = node.derivative(byte)
                if target is EMPTY:
                    found.append(child)
                elif isinstance(target, Exclusion):
                    pending.append((target, child))
        return found

    def tokens_by_state(self, start: Node, vertex: int = 0) -> list[int]:
        """Return the same tokens as :meth:`tokens`, with one derivative at each vertex.

        Faster for ambiguous states, whose derivations would each visit a vertex again.
        """
        trie = self._trie
        found: list[int] = []
        pending = [(start, vertex)]
        visits = 0
        while pending:
            visits += 1
            if visits == MAX_VISITS and not vertex:
                by_automaton = self._tokens_by_automaton(start)
                if by_automaton is not None:
                    return by_automaton
            node, at = pending.pop()
            inner = trie.descend(at, node.first_bytes, found)
            spend(1 + len(inner) // 8)
            pending.extend((node.derivative(byte), child) for byte, child in inner)
        self._descents.vertices += visits
        return found

    def _tokens_by_automaton(self, node: Node) -> list[int] | None:
        """Return the ids of the tokens that a node allows; ``None`` if it has too many states."""
        table = StateTable(LIMITS.trie_walk_states)
        try:
            found = self._descents.descend(table, below(0, table.number(node)))
        except TooManyStatesError:
            return None
        return found.tokens.ids.tolist()  # type: ignore[no-any-return]

    def _head_walk(self, head: EncodedText, vertex: int) -> _HeadTokens:
        """Return the tokens below a vertex that a head allows, and the vertices where it ends."""
        # Cached by the language of code points, which may outlive the schema.
        key = (head.spelling, head.terminator, vertex)
        known = self._heads.get(head.text)
        if known is None:
            known = self._heads.put(head.text, {})
        walk = known.get(key)
        if walk is None:
            walk = known[key] = self._walk_bytes(head, vertex)
        return walk

    def _short_walk(self, head: Node, vertex: int) -> _HeadTokens:
        """Walk a node with short words, and store the result: many states have it."""
        known = self._heads.peek(head)
        if known is None:
            known = self._heads.put(head, {})
        ids, ends = self._walk_bytes(head, vertex)
        has_children = self._trie.has_children
        known[vertex] = ids, [end for end in ends if has_children(end)]
        return known[vertex]

    def _walk_bytes(self, head: Node, vertex: int) -> _HeadTokens:
        trie = self._trie
        found: list[int] = []
        ends: list[int] = []
        pending = [(head, vertex)]
        visits = 0
        while pending:
            visits += 1
            if visits > MAX_HEAD_VISITS:
                return self._walk_states(head, vertex)
            node, at = pending.pop()
            for byte in bytes_in(node.first_bytes & trie.bytes_below(at)):
                child = trie.child(at, byte, found)
                target = node.derivative(byte)
                if target.nullable:
                    ends.append(child)
                if trie.has_children(child):
                    pending.append((target, child))
        return found, ends

    def _walk_states(self, head: Node, vertex: int) -> _HeadTokens:
        """Walk a head as an automaton."""
        vertices, ends = self._descents.words(head, vertex)
        return self._trie.tokens_at_all(vertices).tolist(), ends.tolist()

    def ends(self, node: Node) -> list[int]:
        """Return the vertices whose bytes are a word of a node."""
        return self._walk_bytes(node, 0)[1]
