"""Masks of recursive rules over bytes.

A state is a union of concatenations. Up to a head that is required, tokens do not depend on what
follows it. So these heads are walked once, and states that differ in the rest share the walk, from
whose last vertices the rest is walked. XGrammar divides tokens in the same way (Dong et al.,
"XGrammar: Flexible and Efficient Structured Generation Engine for Large Language Models", MLSys
2025, section 3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from state_machines.budgets import spend
from state_machines.caches import WeakKeyLruCache
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.node import EPSILON, Lifetime, Node
from state_machines.masks.descent import Descents
from state_machines.masks.stack_automaton import StackAutomaton, segments
from state_machines.masks.token_sets import TokenSet, packed
from state_machines.masks.token_trie import Ids

_AUTOMATON_BYTES = 32 << 20
"""Bytes of automata and walks; an automaton of more is made anew."""

_WALK_BYTES = 1_000
"""Approximate bytes of a walk beside its arrays."""


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
        return _WALK_BYTES + self.tokens.nbytes + self.ends.nbytes


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
