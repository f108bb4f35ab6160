"""Masks of grammars over lexemes: walks of the lexer, which states of the parser share.

Which bytes a token adds to a lexeme, and where the lexeme ends, depends on the state of the lexer
alone. So a lexer's state is walked over the vocabulary's trie once. The result is the tokens that
stay inside the lexeme, and the vertices at which tokens go on after it, grouped by the terminals of
which the lexeme may be. For each group the parser is advanced by these terminals. It then allows
some terminals, which give the lexer's next state, and the vertices of the group are walked with
that. Walks form a tree below the walk of a state. The parser only decides which of its branches
count; a branch is walked once for all states of the parser.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from state_machines.budgets import spend
from state_machines.caches import WeakKeyLruCache
from state_machines.grammar.lexer import LexerState
from state_machines.grammar.lexing import Lexed, Lexicon
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.symbols import byte_set, bytes_in
from state_machines.limits import LIMITS
from state_machines.masks.automaton import KERNEL, Kernel
from state_machines.masks.lexer_automaton import LexerAutomaton, descend
from state_machines.masks.token_trie import Ids, TokenTrie

FEW_TOKENS = 64
"""Tokens below the vertices of a walk up to which it is made vertex by vertex."""

VISITS_PER_STEP = 256
"""Vertices of a walk that are charged as one step."""

DIGEST_BYTES = 20
"""Length of the digests of sets of tokens."""

WALK_BYTES = 1_000
"""Approximate bytes of a walk beside its arrays."""


class Group:
    """The vertices after a lexeme.

    Attributes:
        complete: The terminals of which the lexeme may be, as a set.
        vertices: The vertices where the next lexeme has its first byte: int32, ascending.
        first: The set of these bytes.
        key: Identifies the vertices.
        branches: The walks of the next lexeme by the lexer's state.
        leaving: What :func:`~state_machines.masks.lexer_exits.leaving` computed, by first bytes.
    """

    __slots__ = ("branches", "complete", "first", "key", "leaving", "vertices")

    def __init__(self, complete: int, vertices: Ids, first: int) -> None:
        self.complete = complete
        self.vertices = vertices
        self.first = first
        self.key = digest_of(vertices)
        self.branches: dict[Node, LexerWalk] = {}
        self.leaving: dict[int, Any] = {}


class LexerWalk:
    """The walk of a lexer's state below one or several vertices of a trie.

    Args:
        ids: The tokens that stay inside the lexeme or end with it: int32.
        groups: The vertices after the lexeme.
        vertices: The vertices that were reached: int32.
        states: Their states, as indices of ``lexers``: int32.
        lexers: States of the lexer.
        skipped: Number of vertices that the walk begins at, and whose own tokens it has not.
    """

    __slots__ = (
        "_lexers",
        "_skipped",
        "_states",
        "_vertices",
        "digest",
        "exits",
        "groups",
        "ids",
    )

    def __init__(
        self,
        ids: Ids,
        groups: list[Group],
        vertices: Ids,
        states: Ids,
        lexers: Sequence[Node],
        skipped: int,
    ) -> None:
        self.ids = ids
        self.digest = digest_of(ids)
        self.groups = groups
        self._vertices = vertices
        self._states = states
        self._lexers = lexers
        self._skipped = skipped
        self.exits: dict[int, Any] = {}

    @property
    def weight(self) -> int:
        """The approximate size in bytes."""
        arrays = [self.ids, self._vertices, self._states, *(each.vertices for each in self.groups)]
        return WALK_BYTES + sum(found.nbytes for found in arrays)

    def ends(self) -> Iterator[tuple[int, Ids]]:
        """Yield the vertices where the lexeme may end, by the terminals of which it may be."""
        kinds = [lexer.complete if isinstance(lexer, LexerState) else 0 for lexer in self._lexers]
        return _by_kind(self._vertices, self._states, kinds)

    def live_ids(self, before: Lexed, trie: TokenTrie) -> Ids:
        """Return the tokens after which a text follows, where not all states have one.

        Args:
            before: The state of the grammar before the lexeme.
            trie: The trie of the walk.
        """
        is_live = np.array([before.is_live_within(lexer) for lexer in self._lexers], np.bool_)
        if is_live.all():
            return self.ids
        begun = self._vertices[self._skipped :]
        return trie.tokens_at_all(begun[is_live[self._states[self._skipped :]]])


def digest_of(numbers: Ids) -> bytes:
    """Return a digest that is equal for equal arrays."""
    return blake2b(numbers.tobytes(), digest_size=DIGEST_BYTES).digest()


class LexerWalks:
    """The walks of all lexers over one trie. Safe to use from several threads."""

    def __init__(self, trie: TokenTrie, kernel: Kernel | None = KERNEL) -> None:
        self._trie = trie
        self._kernel = kernel
        self._by_lexicon: WeakKeyLruCache[Lexicon, _KnownWalks] = WeakKeyLruCache(
            LIMITS.lexer_walk_bytes
        )

    def walks(self, state: Lexed, vertex: int = 0) -> Iterator[tuple[LexerWalk, Lexed]]:
        """Yield the walks whose tokens a state allows below a vertex.

        Each walk comes with the parser's state before its lexeme.
        """
        pending = list(self.roots(state, vertex))
        seen = set(pending)
        while pending:
            walk, before = pending.pop()
            spend()
            yield walk, before
            for group in walk.groups:
                for after in before.after(group.complete):
                    assert isinstance(after, Lexed)
                    for pair in self.branches(group, after):
                        if pair not in seen:
                            seen.add(pair)
                            pending.append(pair)

    def roots(self, state: Lexed, vertex: int = 0) -> Iterator[tuple[LexerWalk, Lexed]]:
        """Yield the walks of the parts of a lexer's state below a vertex."""
        root = np.array([vertex], np.int32)
        for part in state.lexer_parts:
            yield self._find(state, part, root, b"%d" % vertex, is_below=True), state

    def branches(self, group: Group, after: Lexed) -> Iterator[tuple[LexerWalk, Lexed]]:
        """Yield the walks of the lexeme that begins at the vertices of a group."""
        for part in after.lexer_parts:
            if part.first_bytes & group.first:
                branch = group.branches.get(part)
                if branch is None:
                    branch = self._find(after, part, group.vertices, group.key)
                    group.branches[part] = branch
                yield branch, after

    def _find(
        self, state: Lexed, lexer: Node, begin: Ids, begin_key: bytes, is_below: bool = False
    ) -> LexerWalk:
        known = self._by_lexicon.get(state.lexicon)
        if known is None:
            known = self._by_lexicon.put(state.lexicon, _KnownWalks(), WALK_BYTES)
        key = (lexer, begin_key)
        walk = known.walks.get(key)
        if walk is None:
            walk = known.walks[key] = self._walk(state, lexer, begin, is_below)
            known.weight += walk.weight
            if known.weight > LIMITS.lexer_walk_bytes:
                # One grammar's walks fill the cache, so they are made anew from here on.
                known.walks = {}
                known.weight = WALK_BYTES
            self._by_lexicon.put(state.lexicon, known, known.weight)
        return walk

    def _walk(self, state: Lexed, lexer: Node, begin: Ids, is_below: bool) -> LexerWalk:
        """Walk a lexer's state.

        Args:
            state: The state of the grammar.
            lexer: The lexer's state, or a part of it.
            begin: The vertices to begin at.
            is_below: Whether the state is that at these vertices, or that at their parents.
        """
        trie = self._trie
        longest = state.lexicon.is_greedy
        if int((trie.high[begin] - trie.low[begin]).sum()) <= FEW_TOKENS:
            return _walk_few(trie, state, lexer, begin.tolist(), is_below)
        automaton = LexerAutomaton(lexer)
        automaton.expand(1)
        if is_below:
            entries = begin, np.ones(len(begin), np.int32)
        else:
            targets = automaton.table()[1]
            states = targets[trie.byte[begin]]
            live = states > 0
            entries = begin[live], states[live]
        vertices, states, leaving, left = descend(trie, automaton, entries, longest, self._kernel)
        spend(1 + len(vertices) // VISITS_PER_STEP)
        ids = trie.tokens_at_all(vertices[len(begin) :] if is_below else vertices)
        complete = [
            node.complete if isinstance(node, LexerState) else 0 for node in automaton.nodes
        ]
        groups = [
            Group(kind, after, byte_set(np.flatnonzero(np.bincount(trie.byte[after])).tolist()))
            for kind, found in _by_kind(leaving, left, complete)
            for after in (found if longest else _distinct(found, trie.size),)
        ]
        skipped = len(begin) if is_below else 0
        return LexerWalk(ids, groups, vertices, states, automaton.nodes, skipped)


class _KnownWalks:
    """The walks of one lexicon by lexer state and vertices."""

    __slots__ = ("walks", "weight")

    def __init__(self) -> None:
        self.walks: dict[tuple[Node, bytes], LexerWalk] = {}
        self.weight = WALK_BYTES


def _walk_few(
    trie: TokenTrie, state: Lexed, start: Node, begin: list[int], is_below: bool
) -> LexerWalk:
    """Walk a lexer's state, vertex by vertex."""
    longest = state.lexicon.is_greedy
    ids: list[int] = []
    vertices: list[int] = []
    lexers: list[Node] = []
    leaving: dict[int, tuple[list[int], int]] = {}
    pending: list[tuple[int, Node]] = []
    if is_below:
        pending = [(vertex, start) for vertex in begin]
    else:
        for vertex in begin:
            target = start.derivative(trie.byte_at(vertex))
            if target is not EMPTY:
                trie.add_tokens_at(vertex, ids)
                pending.append((vertex, target))
    for vertex, lexer in pending:
        complete = lexer.complete if isinstance(lexer, LexerState) else 0
        vertices.append(vertex)
        lexers.append(lexer)
        if not trie.has_children(vertex):
            continue
        below = trie.bytes_below(vertex)
        live = lexer.first_bytes & below
        for byte in bytes_in(live):
            child = trie.child(vertex, byte, ids)
            pending.append((child, lexer.derivative(byte)))
        beyond = below & ~live if longest else below
        if complete and beyond:
            found, first = leaving.get(complete) or ([], 0)
            found += [trie.child(vertex, byte, []) for byte in bytes_in(beyond)]
            leaving[complete] = found, first | beyond
    groups = [
        Group(complete, np.array(sorted(found), np.int32), first)
        for complete, (found, first) in leaving.items()
    ]
    numbers = {lexer: number for number, lexer in enumerate(dict.fromkeys(lexers))}
    return LexerWalk(
        np.array(ids, np.int32),
        groups,
        np.array(vertices, np.int32),
        np.array([numbers[lexer] for lexer in lexers], np.int32),
        list(numbers),
        len(begin) if is_below else 0,
    )


def _by_kind(vertices: Ids, states: Ids, kinds: list[int]) -> Iterator[tuple[int, Ids]]:
    """Yield the vertices by the kind of their states; those of kind 0 are left out."""
    present = np.flatnonzero(np.bincount(states)).tolist()
    by_kind: dict[int, list[int]] = {}
    for state in present:
        if kinds[state]:
            by_kind.setdefault(kinds[state], []).append(state)
    for kind, members in by_kind.items():
        if len(members) == len(present):
            yield kind, vertices
            continue
        wanted = np.zeros(len(kinds), np.bool_)
        wanted[members] = True
        yield kind, vertices[wanted[states]]


def _distinct(vertices: Ids, size: int) -> Ids:
    """Return the distinct vertices of a trie of some size, ascending."""
    is_present = np.zeros(size, np.bool_)
    is_present[vertices] = True
    return np.flatnonzero(is_present).astype(np.int32)
