"""The states after the tokens of a vocabulary, and the tokens that complete the text from there.

Most tokens that are allowed inside a string lead to few states. So the vocabulary is walked by an
automaton of the state, and each state that is reached is looked at once. Where a remembered text
makes every token lead to another state, tokens that stay in the text are grouped by its lexeme.
The other tokens are followed by single bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from state_machines.budgets import derivative_budget, spend, step_budget
from state_machines.caches import WeakKeyLruCache
from state_machines.errors import GrammarBudgetError, UnwritableTextError
from state_machines.grammar.configurations import configurations, split_lexeme
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import concatenation
from state_machines.graphs import Edge, Visit, best_first
from state_machines.limits import LIMITS
from state_machines.masks.descent import states_at_vertices
from state_machines.masks.mask_store import MaskStore
from state_machines.masks.spelled_tokens import SpelledTokens
from state_machines.masks.state_table import StateTable, TooManyStatesError
from state_machines.masks.token_trie import Ids
from state_machines.vocabulary import Vocabulary

if TYPE_CHECKING:
    from state_machines.completion.completion import Completion

Mask = npt.NDArray[np.bool_]

_WALKS = 12
"""States whose next states are cached: an int32 for each token."""

FEW = 2048
"""Tokens up to which states are followed by single tokens."""

REMEMBERED_MARGIN = 3
"""Extra tokens that a remembered text may need so as not to repeat one that is taken."""

REMEMBERED_ENDS = 32
"""Tokens that end a remembered text and are followed; each of them leads to another state."""

REMEMBERED_TOKENS = 256
"""Tokens inside a remembered text that a search for the fewest tokens follows."""

VERTICES_PER_STEP = 64
"""Vertices of the trie that a search walks in one step of work."""

ESTIMATE_STEPS = 24
"""Steps charged for estimating the tokens from one state."""

UNKNOWN = int(np.iinfo(np.int32).max)
"""The number of tokens where it is not known."""


class NextTokens:
    """The states after the tokens of a vocabulary. Thread-safe.

    Args:
        vocabulary: The tokens.
        store: The masks of the vocabulary.
        completion: Makes the plans of states.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        store: MaskStore,
        completion: Completion,
    ) -> None:
        self._forms = vocabulary.token_bytes
        self._sizes = np.array([len(form or b"") for form in self._forms], np.int32)
        self._store = store
        self._trie = store.trie
        self._completion = completion
        self._spelled = SpelledTokens.of(vocabulary)
        self._ends = np.array(sorted(vocabulary.end_token_ids), np.intp)
        self._walks: WeakKeyLruCache[Node, tuple[list[Node], Ids]] = WeakKeyLruCache(_WALKS)
        self._needed: WeakKeyLruCache[Node, tuple[int, Ids]] = WeakKeyLruCache(_WALKS)

    def walked(self, state: Node, max_states: int) -> tuple[list[Node], Ids]:
        """Return states, and for each token the index of the state after it, by its bytes.

        The indices are int32, shape (vocabulary size,); index 0 is the dead state.

        Raises:
            TooManyStatesError: There are more than ``max_states``.
        """
        known = self._walks.get(state)
        if known is not None and len(known[0]) > max_states:
            # Found for a caller who allows more states.
            raise TooManyStatesError
        if known is None:
            table, trie = StateTable(max_states), self._trie
            after = np.zeros(len(self._forms), np.int32)
            after[trie.ids] = states_at_vertices(table, table.number(state), trie)[trie.vertex_of]
            known = self._walks.put(state, (table.nodes, after))
        return known

    def one_by_one(
        self, state: Node, ids: npt.NDArray[np.intp], max_tokens: int
    ) -> Iterator[tuple[int, Node]]:
        """Yield tokens, each with the state after its bytes.

        Of more than ``max_tokens`` tokens the longest are left out.
        """
        if len(ids) > max_tokens:
            ids = ids[np.argsort(self._sizes[ids], kind="stable")[:max_tokens]]
        path, text = [state], b""
        # Sorted, so that a common prefix is walked once.
        forms = self._forms
        for form, token_id in sorted((forms[i] or b"", i) for i in ids.tolist()):
            shared = 0
            while shared < len(text) and text[shared : shared + 1] == form[shared : shared + 1]:
                shared += 1
            del path[shared + 1 :]
            spend()
            for byte in form[len(path) - 1 :]:
                path.append(path[-1].derivative(byte))
            text = form
            yield token_id, path[-1]

    # The tokens that are needed after each token.

    def needed_after(self, state: Node, allowed: Mask, steps: int) -> Ids:
        """Return how many tokens complete the text after each token: int32, of the mask's shape.

        Args:
            state: The state before the token.
            allowed: The tokens that are looked at: bool, shape (vocabulary size,).
            steps: Work budget. Tokens that are not decided within it are :data:`UNKNOWN`.
        """
        # A mask that cannot be changed is that of the state.
        is_whole = not allowed.flags.writeable
        known = self._needed.get(state) if is_whole else None
        if known is not None and known[0] >= steps:
            return known[1]
        needed = np.full(len(allowed), UNKNOWN, np.int32)
        open_tokens = allowed.copy()
        if state.nullable:
            open_tokens[self._ends] = False
        lengths: dict[Node, int] = {EMPTY: UNKNOWN}

        def length(node: Node) -> int:
            found = lengths.get(node)
            if found is None:
                try:
                    counted = self._completion.counted(node)
                    found = min(self._completion.length(counted, steps=steps), UNKNOWN)
                except (GrammarBudgetError, UnwritableTextError):
                    # Later states may be cached, so they are still looked at.
                    found = UNKNOWN
                lengths[node] = found
            return found

        budget = derivative_budget(steps)
        try:
            with budget:
                for target, ids in self._spelled.targets(state):
                    needed[ids] = np.minimum(needed[ids], length(target))
                max_tokens = LIMITS.restricted_tokens
                if np.count_nonzero(open_tokens) > FEW:
                    max_tokens = self._by_groups(state, length, open_tokens, needed)
                left = np.flatnonzero(open_tokens)
                for token_id, target in self.one_by_one(state, left, max_tokens):
                    needed[token_id] = min(needed[token_id], length(target))
        except GrammarBudgetError:
            # Undecided tokens are left out.
            pass
        if is_whole:
            needed.flags.writeable = False
            self._needed.put(state, (budget.granted, needed))
        return needed

    def _by_groups(
        self, state: Node, length: Callable[[Node], int], open_tokens: Mask, needed: Ids
    ) -> int:
        """Enter the lengths of tokens that lead to few states; the others stay open.

        Returns:
            The number of other tokens to follow.
        """
        splits = [split_lexeme(configuration) for configuration in configurations(state)]
        remembered = [split for split in splits if split is not None and split.remembered]
        try:
            if not remembered:
                nodes, after = self.walked(state, LIMITS.trie_walk_states)
                found = np.full(len(nodes), UNKNOWN, np.int32)
                for number in np.unique(after[open_tokens]).tolist():
                    found[number] = length(nodes[number])
                np.minimum(needed, found[after], out=needed, where=open_tokens)
                open_tokens[:] = False
                return 0
            decided = np.zeros_like(open_tokens)
            for split in remembered:
                rest = split.continuation
                if rest is None or any(c.dispatch.context_dependent(b"") for c in split.remembered):
                    continue
                text = concatenation(split.prefix, split.lexeme)
                nodes, after = self.walked(text, LIMITS.trie_walk_states)
                # Where a remembered text may end, its continuation depends on the text.
                stays = np.array([node is not EMPTY and not node.nullable for node in nodes])[after]
                found = np.full(len(nodes), UNKNOWN, np.int32)
                for number in np.unique(after[open_tokens & stays]).tolist():
                    needed_here = length(concatenation(nodes[number], rest))
                    found[number] = min(UNKNOWN, needed_here + REMEMBERED_MARGIN)
                np.minimum(needed, found[after], out=needed, where=open_tokens & stays)
                decided |= stays
            open_tokens &= ~decided
        except TooManyStatesError:
            return LIMITS.restricted_tokens
        return REMEMBERED_ENDS

    # The fewest tokens to an end.

    def fewest(
        self, start: Node, known: int, at_most: int, budget: step_budget
    ) -> tuple[tuple[int, ...] | None, bool]:
        """Search from a state to its nearest end; an edge is a token.

        Args:
            start: The state.
            known: Only plans of fewer tokens are looked for.
            at_most: The search stops once it has found this many tokens or fewer.
            budget: The budget of the search, which ends with the best tokens found so far.

        Returns:
            The tokens, or ``None`` if none, or none fewer than ``known``, were found; and whether
            it is proven that there are no fewer.
        """
        found: tuple[int, ...] | None = None
        fewest, is_exact = known, True

        def may_improve(state: Node, tokens: int) -> bool:
            return tokens + self._completion.lower_bound(state) < fewest

        def edges(visit: Visit[Node, int]) -> Iterator[Edge[Node, int]]:
            nonlocal found, fewest, is_exact
            if not may_improve(visit.state, visit.cost):
                return
            targets, is_whole = self._targets(visit.state)
            is_exact = is_exact and is_whole
            for target, token_id in targets.items():
                spend()
                if not may_improve(target, visit.cost + 1):
                    continue
                if target.nullable:
                    found = (*visit.path, token_id)
                    fewest = visit.cost + 1
                else:
                    yield target, token_id, 1

        def bound(state: Node) -> int:
            spend(ESTIMATE_STEPS)
            try:
                return self._completion.estimate(state)
            except GrammarBudgetError:
                return UNKNOWN

        try:
            with budget:
                for _ in best_first(start, edges, bound, deepest_first=False):
                    if fewest <= at_most:
                        is_exact = False
                        break
        except GrammarBudgetError:
            is_exact = False
        return found, is_exact and fewest > at_most

    def _targets(self, state: Node) -> tuple[dict[Node, int], bool]:
        """Return the states after one token, each with a token, and whether these are all."""
        targets: dict[Node, int] = {}

        def add(target: Node, token_id: int) -> None:
            target = self._completion.counted(target)
            if target is not EMPTY:
                targets.setdefault(target, token_id)

        for target, ids in self._spelled.targets(state):
            add(target, int(ids[0]))
        allowed = self._store.allowed(state).copy()
        if state.nullable:
            allowed[self._ends] = False
        open_tokens = np.flatnonzero(allowed)
        try:
            if len(open_tokens) > FEW:
                spend(self._trie.size // VERTICES_PER_STEP)
                nodes, after = self.walked(state, LIMITS.trie_walk_states)
                # One token for each state.
                _, first = np.unique(after[open_tokens], return_index=True)
                for token_id in open_tokens[first].tolist():
                    add(nodes[after[token_id]], token_id)
                return targets, True
        except TooManyStatesError:
            # A remembered text leads to as many states as there are tokens.
            pass
        limit = FEW if len(open_tokens) <= FEW else REMEMBERED_TOKENS
        for token_id, target in self.one_by_one(state, open_tokens, limit):
            add(target, token_id)
        return targets, len(open_tokens) <= limit
