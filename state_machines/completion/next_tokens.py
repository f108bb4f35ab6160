"""The states after the tokens of a vocabulary, and the tokens that complete the text from there.

Most tokens that are allowed inside a string lead to few states. So the vocabulary is walked by an
automaton of the state, and each state that is reached is looked at once. Where a remembered text
makes every token lead to another state, tokens that stay in the text are grouped by its lexeme.
The other tokens are followed by single bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

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

Mask = npt.NDArray[np.bool_]
Value = Callable[[Node], int]
Walk = tuple[list[Node], Ids]

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
        counted: Returns the state at the end of a token; :data:`EMPTY` if the token is refused.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        store: MaskStore,
        counted: Callable[[Node], Node],
    ) -> None:
        self._forms = vocabulary.token_bytes
        self._sizes = np.array([len(form or b"") for form in self._forms], np.int32)
        self._store = store
        self._trie = store.trie
        self._counted = counted
        self._spelled = SpelledTokens.of(vocabulary)
        self._ends = np.array(sorted(vocabulary.end_token_ids), np.intp)
        self._walks: WeakKeyLruCache[Node, Walk] = WeakKeyLruCache(_WALKS)
        # With the steps that they hold for, since more steps may find fewer tokens.
        self._needed: WeakKeyLruCache[Node, tuple[int, Ids]] = WeakKeyLruCache(_WALKS)
        self._most_needed: WeakKeyLruCache[Node, int] = WeakKeyLruCache(LIMITS.completion_tokens)

    def walked(self, state: Node, max_states: int) -> Walk:
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

    def needed_after(self, state: Node, allowed: Mask, length: Value, steps: int) -> Ids:
        """Return how many tokens complete the text after each token: int32, of the mask's shape.

        Args:
            state: The state before the token.
            allowed: The tokens that are looked at: bool, shape (vocabulary size,).
            length: Returns how many tokens complete the text from a state; raises
                :class:`GrammarBudgetError` or :class:`UnwritableTextError` if that is not known.
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
        others = np.flatnonzero(open_tokens) if is_whole else self._ends
        lengths: dict[Node, int] = {EMPTY: UNKNOWN}

        def known_length(node: Node) -> int:
            found = lengths.get(node)
            if found is None:
                try:
                    found = min(length(node), UNKNOWN)
                except (GrammarBudgetError, UnwritableTextError):
                    # Later states may be cached, so they are still looked at.
                    found = UNKNOWN
                lengths[node] = found
            return found

        budget = derivative_budget(steps)
        # Undecided tokens are left out.
        with suppress(GrammarBudgetError), budget:
            for target, ids in self._spelled.targets(state):
                needed[ids] = np.minimum(needed[ids], known_length(target))
            max_tokens = LIMITS.restricted_tokens
            if np.count_nonzero(open_tokens) > FEW:
                max_tokens = self._by_groups(state, known_length, open_tokens, needed)
            self.enter_single(state, open_tokens, known_length, needed, max_tokens)
        if is_whole:
            needed.flags.writeable = False
            self._needed.put(state, (budget.granted, needed))
            most, known_most = int(needed[others].max(initial=0)), self._most_needed.peek(state)
            # A repeated search may find fewer plans; the smallest maximum is kept.
            if known_most is None or most < known_most:
                self._most_needed.put(state, most)
        return needed

    def keeps_all(self, state: Node, max_tokens: int) -> bool:
        """Whether ``max_tokens`` are known to be enough after every token but the end tokens."""
        most = self._most_needed.peek(state)
        return most is not None and most <= max_tokens

    def _by_groups(self, state: Node, length: Value, open_tokens: Mask, needed: Ids) -> int:
        """Enter the lengths of tokens that lead to few states; the others stay open.

        Returns:
            The number of other tokens to follow.
        """

        def before(rest: Node) -> Value:
            return lambda node: min(UNKNOWN, length(concatenation(node, rest)) + REMEMBERED_MARGIN)

        splits = [split_lexeme(configuration) for configuration in configurations(state)]
        remembered = [split for split in splits if split is not None and split.remembered]
        try:
            if not remembered:
                walked = self.walked(state, LIMITS.trie_walk_states)
                enter_walked(walked, open_tokens, length, needed)
                open_tokens[:] = False
                return 0
            decided = np.zeros_like(open_tokens)
            for split in remembered:
                rest = split.continuation
                if rest is None or any(c.dispatch.context_dependent(b"") for c in split.remembered):
                    continue
                nodes, after = self.walked(
                    concatenation(split.prefix, split.lexeme), LIMITS.trie_walk_states
                )
                # Where a remembered text may end, its continuation depends on the text.
                stays = np.array([node is not EMPTY and not node.nullable for node in nodes])[after]
                enter_walked((nodes, after), open_tokens & stays, before(rest), needed)
                decided |= stays
            open_tokens &= ~decided
        except TooManyStatesError:
            return LIMITS.restricted_tokens
        return REMEMBERED_ENDS

    def enter_single(
        self, state: Node, tokens: Mask, value: Value, values: Ids, max_tokens: int
    ) -> None:
        """Enter the value of the state after each token, of at most ``max_tokens`` tokens."""
        for token_id, target in self.one_by_one(state, np.flatnonzero(tokens), max_tokens):
            values[token_id] = min(values[token_id], value(target))

    # The fewest tokens to an end.

    def fewest(
        self,
        start: Node,
        known: int,
        at_most: int,
        *,
        lower_bound: Value,
        estimate: Value,
        budget: step_budget,
    ) -> tuple[tuple[int, ...] | None, bool]:
        """Search from a state to its nearest end; an edge is a token.

        Args:
            start: The state.
            known: Only plans of fewer tokens are looked for.
            at_most: The search stops once it has found this many tokens or fewer.
            lower_bound: Returns a lower bound on the tokens of every completion of a state.
            estimate: Returns the tokens of a short text that completes a state; orders the search.
            budget: The budget of the search, which ends with the best tokens found so far.

        Returns:
            The tokens, or ``None`` if none, or none fewer than ``known``, were found; and whether
            it is proven that there are no fewer.
        """
        found: tuple[int, ...] | None = None
        fewest, is_exact = known, True

        def may_improve(state: Node, tokens: int) -> bool:
            return tokens + lower_bound(state) < fewest

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
                return estimate(state)
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
            target = self._counted(target)
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


def enter_walked(walk: Walk, tokens: Mask, value: Value, values: Ids) -> None:
    """Enter the value of the state after each token into an array, unless that has less."""
    nodes, after = walk
    found = np.full(len(nodes), UNKNOWN, np.int32)
    for number in np.unique(after[tokens]).tolist():
        found[number] = value(nodes[number])
    np.minimum(values, found[after], out=values, where=tokens)
