"""Masks of grammars: of lexemes that a parser reads, and of recursive rules over bytes.

The bytes that a token adds to a lexeme, and the end of the lexeme, depend on the state of the lexer
alone. So a lexer's state is walked over the vocabulary's trie once. The result is the tokens that
stay inside the lexeme, and the vertices after the lexeme, grouped by the terminals that match it.
For each group these terminals advance the parser. It then allows some terminals, which give the
lexer's next state, and that is walked below the vertices of the group. Walks form a tree below the
walk of a state. The parser selects branches of the tree; a branch is walked once for all states of
the parser.

A state of recursive rules is a union of concatenations. Up to a head that is required, tokens do
not depend on what follows it. So these heads are walked once, and states that differ in the rest
share the walk, from whose last vertices the rest is walked. XGrammar divides tokens in the same way
(Dong et al., "XGrammar: Flexible and Efficient Structured Generation Engine for Large Language
Models", MLSys 2025, section 3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from state_machines.budgets import spend
from state_machines.caches import WeakKeyLruCache
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.lexer import LexerState
from state_machines.grammar.lexicon import Lexicon
from state_machines.grammar.lexing import Lexed
from state_machines.grammar.liveness import is_live_within
from state_machines.grammar.node import EPSILON, Lifetime, Node
from state_machines.grammar.symbols import byte_set
from state_machines.masks.descent import Descents
from state_machines.masks.kernel import MANY_VERTICES, Begin, Descent, Visits
from state_machines.masks.stack_automaton import LexemeAutomaton, StackAutomaton, segments
from state_machines.masks.state_table import StateTable
from state_machines.masks.token_sets import TokenSet, digest_of, packed
from state_machines.masks.token_trie import Ids

_LEXER_WALK_BYTES = 32 << 20
"""Bytes of walks of the lexers of grammars."""

_AUTOMATON_BYTES = 32 << 20
"""Bytes of automata, with the walks of recursive rules; one of more is made anew."""

WALK_BYTES = 1_000
"""Approximate bytes of a walk beside its arrays."""


class LexemeEnds:
    """The vertices after a lexeme.

    Attributes:
        complete: The terminals that match the lexeme, as a set.
        vertices: The vertices where the next lexeme has its first byte: int32, ascending.
        first: The set of these bytes.
        key: Identifies the vertices.
        branches: The walks of the next lexeme by the lexer's state.
        leaving: What :func:`~state_machines.masks.lexeme_tokens.leaving` computed, by first bytes.
    """

    __slots__ = ("branches", "complete", "first", "key", "leaving", "vertices")

    def __init__(self, complete: int, vertices: Ids, first: int) -> None:
        self.complete = complete
        self.vertices = vertices
        self.first = first
        self.key = digest_of(vertices.tobytes())
        self.branches: dict[Node, LexerTokens] = {}
        self.leaving: dict[int, Any] = {}


class LexerTokens:
    """The walk of a lexer's state below one or several vertices of a trie.

    Attributes:
        tokens: The tokens that stay inside the lexeme or end with it.
        groups: The vertices after the lexeme.
        exits: What :func:`~state_machines.masks.lexeme_tokens.exits` found, by terminals.
    """

    def __init__(
        self, table: StateTable, begin: Begin, found: Descent, groups: list[LexemeEnds]
    ) -> None:
        self._table = table
        self._begin = begin
        self._lexers: list[tuple[int, LexerState]] = [
            (number, table.nodes[number])  # type: ignore[misc]
            for number in found.reached
        ]
        self.tokens = found.tokens
        self.groups = groups
        self._unsafe: list[tuple[int, LexerState]] | None = None
        self._ends: dict[int, Ids] | None = None
        self._live: dict[tuple[int, ...], TokenSet] = {}
        self.exits: dict[int, Any] = {}

    @property
    def weight(self) -> int:
        """The approximate size in bytes."""
        arrays = [self._begin.vertices, *(each.vertices for each in self.groups)]
        return WALK_BYTES + self.tokens.nbytes + sum(found.nbytes for found in arrays)

    def ends(self, walks: LexerWalks) -> dict[int, Ids]:
        """Return the vertices where the lexeme may end, by the terminals that match it."""
        found = self._ends
        if found is None:
            vertices, states = walks.visits(self._table, self._begin)
            parts: dict[int, list[Ids]] = {}
            for number in np.flatnonzero(np.bincount(states)).tolist():
                lexer = self._table.nodes[number]
                if isinstance(lexer, LexerState) and lexer.complete:
                    parts.setdefault(lexer.complete, []).append(vertices[states == number])
            found = self._ends = {
                complete: np.unique(np.concatenate(each)).astype(np.int32)
                for complete, each in parts.items()
            }
        return found

    def live_tokens(self, before: Lexed, walks: LexerWalks) -> TokenSet:
        """Return the tokens after which a text follows, where not all states have one.

        Args:
            before: The state of the grammar before the lexeme.
            walks: The walks of the trie.
        """
        unsafe = self._unsafe
        if unsafe is None:
            safe_ends = before.lexicon.safe_ends
            unsafe = self._unsafe = [
                (number, lexer) for number, lexer in self._lexers if not safe_ends.is_safe(lexer)
            ]
        dead = [number for number, lexer in unsafe if not is_live_within(before, lexer)]
        if not dead:
            return self.tokens
        found = self._live.get(key := tuple(dead))
        if found is None:
            vertices, states = walks.visits(self._table, self._begin)
            is_live = ~np.isin(states, dead)
            is_live[: self._begin.is_below] = False
            found = self._live[key] = packed(walks.trie.tokens_at_all(vertices[is_live]))
        return found


class LexerWalks:
    """The walks of all lexers over one trie. Safe to use from several threads."""

    def __init__(self, descents: Descents) -> None:
        self.trie = descents.trie
        self._descents = descents
        self._by_lexicon: WeakKeyLruCache[Lexicon, _LexiconWalks] = WeakKeyLruCache(
            _LEXER_WALK_BYTES
        )
        self._automata: WeakKeyLruCache[Lexicon, LexemeAutomaton] = WeakKeyLruCache(
            _AUTOMATON_BYTES
        )

    def tokens(self, state: Lexed) -> list[TokenSet] | None:
        """Return sets of the tokens that a state allows.

        ``None`` without the kernel, if the grammar has terminals or ignored lexemes that the kernel
        does not know, or if its automaton has no room.
        """
        lexicon = state.lexicon
        if not self._descents.has_kernel or lexicon.nested or lexicon.ignores_once:
            return None
        found: list[TokenSet] = []
        for walk, _ in self.roots(state):
            found.append(walk.live_tokens(state, self))
            if walk.groups:
                beyond = self._beyond(lexicon, state.parser, walk.groups)
                if beyond is None:
                    return None
                found.append(beyond)
        return found

    def _beyond(self, lexicon: Lexicon, parser: Node, groups: list[LexemeEnds]) -> TokenSet | None:
        """Return the tokens that continue behind the end of a lexeme.

        Returns:
            ``None`` if the automaton has no room for their states.
        """
        ends = [(group.complete, group.vertices) for group in groups]
        # No other thread may use an automaton meanwhile, and a lock must not be held, since a
        # checkpoint of the budget can block this thread. So it is taken out of the cache.
        taken = self._automata.pop(lexicon)
        for automaton in (taken, None):
            known = LexemeAutomaton(lexicon) if automaton is None else automaton
            found = None
            try:
                found = self._descents.descend_lexemes(known, parser, ends)
            finally:
                # One without room is made anew.
                if (found is not None or known is taken) and known.weight <= _AUTOMATON_BYTES:
                    self._automata.put(lexicon, known, known.weight)
            if found is not None or automaton is None:
                return found
        return None

    def walks(self, state: Lexed, vertex: int = 0) -> Iterator[tuple[LexerTokens, Lexed]]:
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

    def roots(self, state: Lexed, vertex: int = 0) -> Iterator[tuple[LexerTokens, Lexed]]:
        """Yield the walk of a lexer's state below a vertex, if a lexeme may follow."""
        if isinstance(state.lexer, LexerState):
            root = np.array([vertex], np.int32)
            yield self._find(state, state.lexer, root, b"%d" % vertex, is_below=True), state

    def branches(self, group: LexemeEnds, after: Lexed) -> Iterator[tuple[LexerTokens, Lexed]]:
        """Yield the walk of the lexeme that begins at the vertices of a group, if one may."""
        lexer = after.lexer
        if isinstance(lexer, LexerState) and lexer.first_bytes & group.first:
            branch = group.branches.get(lexer)
            if branch is None:
                beginning = lexer.beginning_with(group.first)
                branch = self._find(after, beginning, group.vertices, group.key)
                group.branches[lexer] = branch
            yield branch, after

    def _find(
        self, state: Lexed, lexer: Node, vertices: Ids, key: bytes, is_below: bool = False
    ) -> LexerTokens:
        known = self._by_lexicon.get(state.lexicon)
        if known is None:
            known = self._by_lexicon.put(state.lexicon, _LexiconWalks(), WALK_BYTES)
        walk = known.walks.get((lexer, key))
        if walk is None:
            table = known.table
            with table.lock:
                number = table.number(lexer)
                begin = Begin(vertices, number, longest=True, is_below=is_below)
                walk = self._walk(table, begin)
            known.walks[lexer, key] = walk
            known.weight += walk.weight
            weight = known.weight + table.weight
            if weight > _LEXER_WALK_BYTES:
                # One grammar's walks fill the cache, so they are made anew from here on.
                known = _LexiconWalks()
            self._by_lexicon.put(state.lexicon, known, weight)
        return walk

    def _walk(self, table: StateTable, begin: Begin) -> LexerTokens:
        found = self._descents.descend(table, begin)
        groups = [
            LexemeEnds(table.completes[kind], vertices, self._leading(vertices))
            for kind, vertices in found.leaving
        ]
        return LexerTokens(table, begin, found, groups)

    def _leading(self, vertices: Ids) -> int:
        """Return the set of the bytes that lead to vertices."""
        found = self.trie.byte[vertices]
        if len(found) > MANY_VERTICES:
            return byte_set(np.flatnonzero(np.bincount(found)).tolist())
        return byte_set(set(found.tobytes()))

    def visits(self, table: StateTable, begin: Begin) -> Visits:
        """Return all vertices that a walk visits, with the numbers of their states."""
        with table.lock:
            return self._descents.visits(table, begin)


class _LexiconWalks:
    """The walks of one lexicon by lexer state and vertices."""

    __slots__ = ("table", "walks", "weight")

    def __init__(self) -> None:
        self.table = StateTable()
        self.walks: dict[tuple[Node, bytes], LexerTokens] = {}
        self.weight = WALK_BYTES


class _FullError(Exception):
    """An automaton has no room."""


class _StackWalk:
    """The walk of a stack below some vertices.

    Attributes:
        tokens: The tokens of the stack.
        ends: The vertices where the stack may be empty, except where all tokens below are among
            :attr:`tokens`.
        branches: The walks below these vertices, by the target that the stack below begins with.
    """

    __slots__ = ("branches", "ends", "tokens")

    def __init__(self, tokens: TokenSet, ends: Ids) -> None:
        self.tokens = tokens
        self.ends = ends
        self.branches: dict[int, _StackWalk] = {}

    @property
    def weight(self) -> int:
        """The approximate size in bytes."""
        return WALK_BYTES + self.tokens.nbytes + self.ends.nbytes


class _RuleWalks:
    """An automaton, and the walks from the root of the trie by target."""

    def __init__(self) -> None:
        self.automaton = StackAutomaton()
        self.root = _StackWalk(packed(np.zeros(0, np.int32)), np.zeros(1, np.int32))
        self.weight = 0


class RecursiveWalks:
    """Walks the states of recursive grammars. Safe to use from several threads.

    Args:
        descents: The walks of the trie.
        scalar: Returns the tokens of a state by derivatives. It is called without a kernel, and if
            a state has too many stacks.
    """

    def __init__(self, descents: Descents, scalar: Callable[[Node], list[int]]) -> None:
        self._descents = descents
        self._scalar = scalar
        self._known: WeakKeyLruCache[Lifetime, _RuleWalks] = WeakKeyLruCache(_AUTOMATON_BYTES)

    def tokens(self, state: Node) -> list[TokenSet]:
        """Return sets of the tokens that a state with a :attr:`~Node.rule_book` allows."""
        assert state.rule_book is not None, "asked for with a rule book only"
        lifetime = state.rule_book.lifetime
        if self._descents.has_kernel:
            # No other thread may use an automaton meanwhile, and a lock must not be held, since a
            # checkpoint of the budget can block this thread. So it is taken out of the cache.
            taken = self._known.pop(lifetime)
            while True:
                known = _RuleWalks() if taken is None else taken
                try:
                    found = list(self._walk(known, state))
                except _FullError:
                    if taken is None:
                        break
                    taken = None
                    continue
                except GrammarBudgetError:
                    self._put(lifetime, known)
                    raise
                self._put(lifetime, known)
                return found
        return [packed(np.array(self._scalar(state), np.int32))]

    def _put(self, lifetime: Lifetime, known: _RuleWalks) -> None:
        weight = known.weight + known.automaton.weight
        if weight <= _AUTOMATON_BYTES:
            self._known.put(lifetime, known, weight)

    def _walk(self, known: _RuleWalks, state: Node) -> Iterator[TokenSet]:
        pending = [(known.root, state)]
        seen = set(pending)
        while pending:
            above, rest = pending.pop()
            for heads, below in segments(rest):
                spend()
                target = known.automaton.stack_target(heads)
                walk = above.branches.get(target)
                if walk is None:
                    walk = above.branches[target] = self._descend(known, above.ends, target)
                yield walk.tokens
                pair = walk, below
                if below is not EPSILON and len(walk.ends) and pair not in seen:
                    seen.add(pair)
                    pending.append(pair)

    def _descend(self, known: _RuleWalks, vertices: Ids, target: int) -> _StackWalk:
        found = self._descents.descend_stacks(known.automaton, vertices, target)
        if found is None:
            raise _FullError
        walk = _StackWalk(*found)
        known.weight += walk.weight
        return walk
