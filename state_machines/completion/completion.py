"""How near the end of an output is, in tokens of a vocabulary."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from state_machines.budgets import recursion_budget, step_budget
from state_machines.caches import WeakKeyLruCache
from state_machines.completion.cutter import UNWRITABLE, Cutter
from state_machines.completion.least import LeastWords
from state_machines.completion.outcomes import Outcomes
from state_machines.completion.plan import COMPLETE, Plan
from state_machines.completion.search import Search, Shortest
from state_machines.errors import GrammarBudgetError, UnwritableTextError
from state_machines.grammar.node import EMPTY, Node
from state_machines.limits import LIMITS
from state_machines.masks.mask_store import MaskStore
from state_machines.vocabulary import Vocabulary

__all__ = ["Completion", "Shortest"]

_RECURSION_BUDGET = recursion_budget()


class Completion:
    """What completes the states of all machines of a vocabulary. Safe to use from several threads.

    For a state that is not dead there is always something; it is kept with the state, as long as
    that lives, within bounds. Where the vocabulary cannot write the words that were looked at,
    others are searched for, and :class:`~state_machines.errors.UnwritableTextError` is raised if
    there are none; :class:`~state_machines.errors.GrammarBudgetError` if it takes more than
    ``steps`` steps.

    No lock is held while a plan is made: two threads that ask for the same one may both make it.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        trie = MaskStore.of(vocabulary).trie
        self._cutter = Cutter(trie)
        self._least = LeastWords(self._cutter)
        self._search = Search(trie, self._estimate, self._first_byte)
        self._outcomes = Outcomes(vocabulary, trie)
        self._found: WeakKeyLruCache[Node, tuple[int, ...]] = WeakKeyLruCache(
            LIMITS.completion_tokens
        )
        self._shortest: WeakKeyLruCache[Node, tuple[int, Shortest]] = WeakKeyLruCache(
            LIMITS.completion_tokens
        )

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Completion:
        """Return the completion of a vocabulary, made on first use and kept as long as it lives."""
        with _COMPLETIONS_LOCK:
            completion = _COMPLETIONS.get(vocabulary)
            if completion is None:
                completion = _COMPLETIONS[vocabulary] = cls(vocabulary)
            return completion

    def way(self, state: Node, *, steps: int = LIMITS.plan_steps) -> Plan:
        """Return a plan that completes a text from a state, its tokens not listed yet.

        Raises:
            GrammarBudgetError: No plan was found within ``steps`` steps.
            UnwritableTextError: The vocabulary cannot write any.
        """
        if state.nullable:
            return COMPLETE
        with step_budget(steps), _RECURSION_BUDGET:
            ending = self._least.ending(state, steps)
            length = self._cutter.fewest(ending)
            if length < UNWRITABLE:
                return Plan.of_ending(self._cutter, ending, length)
            return Plan(self._searched(state, steps))

    def length(self, state: Node, *, steps: int = LIMITS.plan_steps) -> int:
        """Return how many tokens are enough to complete a text from a state: ``len(plan(state))``.

        0 where it accepts; the end token is not counted. Fewer may do, see :meth:`shortest`.
        Raises as :meth:`way`.
        """
        return self.way(state, steps=steps).length

    def least(self, state: Node) -> int:
        """Return a number of tokens that every text from a state takes at least; at no cost."""
        return self._search.least(state)

    def plan(self, state: Node) -> tuple[int, ...]:
        """Return tokens that complete a text from a state, each allowed in its turn."""
        return self.way(state).tokens

    def shortest(
        self, state: Node, *, at_most: int = 0, steps: int = LIMITS.token_search_steps
    ) -> Shortest:
        """Return the fewest tokens that complete a text from a state, as far as they are found.

        The search looks no further once it has ``at_most`` tokens or fewer; it ends after about
        ``steps`` steps. ``is_exact`` tells whether there are surely no fewer.
        """
        known = self._shortest.get(state)
        if known is not None and (known[0] >= steps or known[1].is_exact):
            return known[1]
        plan = self.way(state)
        tokens, is_exact = self._search.shortest(state, plan.length, at_most, steps)
        found = Shortest(plan if tokens is None else Plan(tokens), is_exact or not plan.length)
        if found.length > at_most:
            self._shortest.put(state, (steps, found), 1 + (0 if tokens is None else len(tokens)))
        return found

    def within(
        self,
        state: Node,
        allowed: npt.NDArray[np.bool_],
        most: int,
        *,
        steps: int = LIMITS.full_narrowing_steps,
    ) -> npt.NDArray[np.bool_]:
        """Return the allowed tokens after which ``most`` tokens are enough; see :class:`Guard`.

        Both masks: bool, shape (vocabulary size,). End tokens stay as they are. Tokens for
        which ``steps`` steps are not enough are left out.
        """

        def length(after: Node) -> int:
            return self.length(after, steps=steps)

        return self._outcomes.within(state, allowed, most, length, steps)

    def _estimate(self, state: Node) -> int:
        if state.nullable:
            return 0
        return self._cutter.fewest(self._least.ending(state, LIMITS.plan_steps))

    def _first_byte(self, state: Node) -> bytes:
        return self._least.ending(state, LIMITS.plan_steps).first

    def _searched(self, state: Node, steps: int) -> tuple[int, ...]:
        """Return tokens for a state whose short words cannot be written."""
        known = self._found.get(state)
        if known is not None:
            return known
        tokens, is_exact = self._search.shortest(
            state, None, 0, min(steps, LIMITS.token_search_steps)
        )
        if state is EMPTY or tokens is None:
            if not is_exact and steps < LIMITS.token_search_steps:
                raise GrammarBudgetError("no tokens were found in time", budget=steps)
            raise UnwritableTextError(
                "no tokens were found that complete the text",
                hint="The vocabulary lacks bytes that the grammar needs",
            )
        return self._found.put(state, tokens, 1 + len(tokens))


_COMPLETIONS: WeakKeyDictionary[Vocabulary, Completion] = WeakKeyDictionary()
_COMPLETIONS_LOCK = threading.Lock()
