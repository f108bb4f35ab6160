"""The fewest tokens that complete a text, searched for among all ways to write all words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from state_machines.best_first import Edge, Visit, best_first
from state_machines.budgets import recursion_budget, spend, step_budget
from state_machines.completion.cutter import UNWRITABLE
from state_machines.completion.plan import Plan
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.symbols import bytes_in
from state_machines.masks.token_trie import TokenTrie

__all__ = ["Search", "Shortest"]

MANY_VERTICES = 4096
"""Vertices of a trie from which on tokens are passed over that leave a state what it is."""


BYTE_STEPS = 4
HOPE_STEPS = 60
"""Steps for going on by a byte, and for looking how far away the end is from a state."""


_RECURSION_BUDGET = recursion_budget()


@dataclass(frozen=True, slots=True)
class Shortest:
    """Tokens that complete a text; ``is_exact``: surely no fewer do."""

    plan: Plan
    is_exact: bool

    @property
    def length(self) -> int:
        """The number of tokens."""
        return self.plan.length

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens; see :attr:`Plan.tokens`."""
        return self.plan.tokens


class Search:
    """Searches from states to their ends, a token a step. Safe to use from several threads.

    ``length`` gives an upper bound on the tokens from a state, by which it is chosen what is looked
    at first; ``first`` the first byte of a short text that leads to an end.
    """

    def __init__(
        self, trie: TokenTrie, length: Callable[[Node], int], first: Callable[[Node], bytes]
    ) -> None:
        self._trie = trie
        self._first = first
        self._length = length
        self._longest = max(1, len(trie.levels) - 2)
        self._is_large = trie.size > MANY_VERTICES

    def shortest(
        self, start: Node, known: int | None, at_most: int, steps: int
    ) -> tuple[tuple[int, ...] | None, bool]:
        """Return the fewest tokens from a state to an end, and whether no others are fewer.

        ``None``: there are none, or they are no fewer than are ``known``. With no more than
        ``at_most`` the search is over. It takes about ``steps`` steps of a microsecond or a few.
        """
        found: list[tuple[int, ...]] = []
        try:
            with step_budget(steps), _RECURSION_BUDGET:
                is_exact = self._improve(start, known, found, at_most, steps)
        except GrammarBudgetError:
            is_exact = False
        return found[-1] if found else None, is_exact

    def least(self, state: Node) -> int:
        """Return a number of tokens that every text from a state takes at least."""
        return _least(state, self._longest)

    def _improve(
        self,
        start: Node,
        known: int | None,
        found: list[tuple[int, ...]],
        at_most: int,
        steps: int,
    ) -> bool:
        """Add shorter and shorter ways to what was found; whether the last is the shortest."""
        fewest = known if known is not None else UNWRITABLE
        is_exact = True

        def may_improve(state: Node, tokens: int) -> bool:
            return tokens + _least(state, self._longest) < fewest

        def edges(visit: Visit[Node, int]) -> Iterator[Edge[Node, int]]:
            nonlocal fewest, is_exact, steps
            if not may_improve(visit.state, visit.cost):
                return
            targets, spent, is_whole = self._targets(visit.state, steps)
            steps -= spent
            is_exact = is_exact and is_whole
            for target, token_id in targets.items():
                spend()
                if not may_improve(target, visit.cost + 1):
                    continue
                if target.nullable:
                    found.append((*visit.path, token_id))
                    fewest = visit.cost + 1
                else:
                    yield target, token_id, 1

        def bound(state: Node) -> int:
            nonlocal steps
            # A word is read from end to end.
            steps -= HOPE_STEPS + state.min_length
            return self._hope(state)

        for visit in best_first(start, edges, bound, deepest_first=False):
            if fewest <= at_most:
                return False
            if steps <= 0 and may_improve(visit.state, visit.cost):
                return False
        return is_exact and fewest > at_most

    def _hope(self, state: Node) -> int:
        try:
            return self._length(state)
        except GrammarBudgetError:
            return 1 << 20

    def _targets(self, start: Node, steps: int) -> tuple[dict[Node, int], int, bool]:
        """Return where tokens lead from a state, with one token for each; the steps; if all."""
        trie = self._trie
        targets: dict[Node, int] = {}
        stack = [(start, 0)]
        spent = 0
        is_whole = True
        while stack:
            node, vertex = stack.pop()
            # A text that is remembered leads to as many states as there are tokens.
            ahead = None
            if self._is_large and node.transient is not None:
                ahead = (*self._first(node), ord('"'))
            for byte in bytes_in(node.first_bytes & trie.bytes_below(vertex)):
                target = node.derivative(byte)
                if target is EMPTY:
                    continue
                spent += BYTE_STEPS
                spend()
                if self._is_large and target is node:
                    is_whole = False
                    continue
                if ahead is not None and byte not in ahead:
                    is_whole = False
                    continue
                found: list[int] = []
                child = trie.child(vertex, byte, found)
                if found and target not in targets:
                    targets[target] = found[0]
                if trie.has_children(child):
                    stack.append((target, child))
            if spent > steps:
                return targets, spent, False
        return targets, spent, is_whole


def _least(state: Node, longest: int) -> int:
    """Return a number of tokens that every word of a state takes at least."""
    return 0 if state.nullable else max(1, -(-state.min_length // longest))
