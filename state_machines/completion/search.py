"""Search for the fewest tokens that complete a text, over all words and segmentations."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from state_machines.best_first import Edge, Visit, best_first
from state_machines.budgets import recursion_budget, spend, step_budget
from state_machines.completion.texts import UNWRITABLE
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.symbols import bytes_in
from state_machines.grammar.token_limits import Fits
from state_machines.masks.spelled_tokens import SpelledTokens
from state_machines.masks.token_trie import TokenTrie

MANY_VERTICES = 4096
"""Vertices of a trie from which on bytes that do not change the state are not followed."""


BYTE_STEPS = 4
"""Steps charged for following one byte."""

ESTIMATE_STEPS = 60
"""Steps charged for estimating the tokens from one state."""


_RECURSION_BUDGET = recursion_budget()


class TokenSearch:
    """Searches from a state to its nearest end; an edge is a token. Thread-safe.

    Args:
        trie: The tokens.
        spelled: The tokens by their spellings.
        length: Gives an upper bound on the tokens from a state, which orders the search.
        first: Gives the first byte of a short text that completes a state.
        fits: Whether a language has a word of so many tokens; for limits on tokens.
    """

    def __init__(
        self,
        trie: TokenTrie,
        spelled: SpelledTokens,
        length: Callable[[Node], int],
        first: Callable[[Node], bytes],
        fits: Fits,
    ) -> None:
        self._trie = trie
        self._spelled = spelled
        self._fits = fits
        self._first = first
        self._length = length
        self._longest = max(1, len(trie.levels) - 2)
        self._is_large = trie.size > MANY_VERTICES

    def shortest(
        self, start: Node, known: int | None, at_most: int, steps: int
    ) -> tuple[tuple[int, ...] | None, bool]:
        """Return the fewest tokens found from a state to an end, and whether that is proven.

        Args:
            start: The state.
            known: Length of a known plan, if any. Only shorter ones are looked for.
            at_most: The search stops once it has found this many tokens or fewer.
            steps: Work budget, in steps of one to a few microseconds.

        Returns:
            The tokens, or ``None`` if none, or none fewer than ``known``, were found; and whether
            it is proven that there are no fewer.
        """
        found: list[tuple[int, ...]] = []
        try:
            with step_budget(steps), _RECURSION_BUDGET:
                is_exact = self._improve(start, known, found, at_most, steps)
        except GrammarBudgetError:
            is_exact = False
        return found[-1] if found else None, is_exact

    def lower_bound(self, state: Node) -> int:
        """Return a lower bound on the tokens of every text from a state, from its length."""
        return 0 if state.nullable else max(1, -(-state.min_length // self._longest))

    def _improve(
        self,
        start: Node,
        known: int | None,
        found: list[tuple[int, ...]],
        at_most: int,
        steps: int,
    ) -> bool:
        """Append ever shorter plans to ``found``; return whether the last is the shortest."""
        fewest = known if known is not None else UNWRITABLE
        is_exact = True

        def may_improve(state: Node, tokens: int) -> bool:
            return tokens + self.lower_bound(state) < fewest

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
            # The estimate reads a whole word.
            steps -= ESTIMATE_STEPS + state.min_length
            return self._estimate(state)

        for visit in best_first(start, edges, bound, deepest_first=False):
            if fewest <= at_most:
                return False
            if steps <= 0 and may_improve(visit.state, visit.cost):
                return False
        return is_exact and fewest > at_most

    def _estimate(self, state: Node) -> int:
        try:
            return self._length(state)
        except GrammarBudgetError:
            return 1 << 20

    def _targets(self, start: Node, steps: int) -> tuple[dict[Node, int], int, bool]:
        """Return the states after one token, each with a token; the work; whether all are given."""
        trie = self._trie
        targets: dict[Node, int] = {}
        stack = [(start, 0)]
        spent = 0
        is_whole = True
        for target, ids in self._spelled.targets(start):
            spent += BYTE_STEPS
            self._add(targets, target, int(ids[0]))
        while stack:
            node, vertex = stack.pop()
            # A captured text leads to as many states as there are tokens.
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
                if found:
                    self._add(targets, target, found[0])
                if trie.has_children(child):
                    stack.append((target, child))
            if spent > steps:
                return targets, spent, False
        return targets, spent, is_whole

    def _add(self, targets: dict[Node, int], target: Node, token_id: int) -> None:
        """Add the state after a token, which limits on tokens count."""
        if target.counts_tokens:
            target = target.after_token(self._fits)
        if target is not EMPTY:
            targets.setdefault(target, token_id)
