"""How near the end of an output is, in tokens of a vocabulary."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from state_machines.completion.endings import UNWRITABLE, Cutter
from state_machines.completion.least import LeastWords
from state_machines.completion.outcomes import Outcomes
from state_machines.completion.search import Search, Shortest
from state_machines.errors import UnwritableTextError
from state_machines.grammar.node import EMPTY, Node
from state_machines.masks.mask_store import MaskStore
from state_machines.masks.recent import RecentWeak
from state_machines.vocabulary import Vocabulary

__all__ = ["Completion", "Shortest"]

SEARCH_STEPS = 100_000
"""Steps of a search for the fewest tokens: a fraction of a second."""

MAX_FOUND = 1024


class Completion:
    """What completes the states of all machines of a vocabulary. Safe to use from several threads.

    For a state that is not dead there is always something; it is kept with the state, as long as
    that lives, within bounds. Where the vocabulary cannot write the words that were looked at,
    others are searched for, and :class:`~state_machines.errors.UnwritableTextError` is raised if
    there are none; :class:`~state_machines.errors.GrammarBudgetError` if it takes too long.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        trie = MaskStore.of(vocabulary).trie
        self._cutter = Cutter(trie)
        self._least = LeastWords(self._cutter)
        self._search = Search(trie, self._estimate, lambda state: self._least.ending(state).flat)
        self._outcomes = Outcomes(vocabulary, trie)
        self._found: RecentWeak[Node, tuple[int, ...]] = RecentWeak(MAX_FOUND)
        self._shortest: RecentWeak[Node, tuple[int, Shortest]] = RecentWeak(MAX_FOUND)
        self._lock = threading.RLock()

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Completion:
        """Return the completion of a vocabulary, made on first use and kept as long as it lives."""
        with _COMPLETIONS_LOCK:
            completion = _COMPLETIONS.get(vocabulary)
            if completion is None:
                completion = _COMPLETIONS[vocabulary] = cls(vocabulary)
            return completion

    def length(self, state: Node) -> int:
        """Return how many tokens are enough to complete a text from a state: ``len(plan(state))``.

        0 where it accepts; the end token is not counted. Fewer may do, see :meth:`shortest`.
        """
        if state.nullable:
            return 0
        with self._lock:
            fewest = self._cutter.fewest(self._least.ending(state))
            return fewest if fewest < UNWRITABLE else len(self._searched(state))

    def least(self, state: Node) -> int:
        """Return a number of tokens that every text from a state takes at least; at no cost."""
        return self._search.least(state)

    def plan(self, state: Node) -> tuple[int, ...]:
        """Return tokens that complete a text from a state, each allowed in its turn."""
        if state.nullable:
            return ()
        with self._lock:
            ending = self._least.ending(state)
            if self._cutter.fewest(ending) < UNWRITABLE:
                return self._cutter.cut(ending)
            return self._searched(state)

    def shortest(self, state: Node, *, at_most: int = 0, steps: int = SEARCH_STEPS) -> Shortest:
        """Return the fewest tokens that complete a text from a state, as far as they are found.

        The search looks no further once it has ``at_most`` tokens or fewer; it ends after about
        ``steps`` steps. ``is_exact`` tells whether there are surely no fewer.
        """
        with self._lock:
            known = self._shortest.get(state)
            if known is not None and (known[0] >= steps or known[1].is_exact):
                return known[1]
            plan = self.plan(state)
            tokens, is_exact = self._search.shortest(state, plan, at_most, steps)
            found = Shortest(plan if tokens is None else tokens, is_exact or not plan)
            if len(found.tokens) > at_most:
                self._shortest.put(state, (steps, found))
            return found

    def within(
        self, state: Node, allowed: npt.NDArray[np.bool_], most: int
    ) -> npt.NDArray[np.bool_]:
        """Return the allowed tokens after which ``most`` tokens are enough; see :class:`Guard`.

        Both masks: bool, shape (vocabulary size,). End tokens stay as they are.
        """
        with self._lock:
            return self._outcomes.within(state, allowed, most, self.length)

    def _estimate(self, state: Node) -> int:
        return 0 if state.nullable else self._cutter.fewest(self._least.ending(state))

    def _searched(self, state: Node) -> tuple[int, ...]:
        """Return tokens for a state whose short words cannot be written."""
        known = self._found.get(state)
        if known is not None:
            return known
        tokens, _ = self._search.shortest(state, None, 0, SEARCH_STEPS)
        if state is EMPTY or tokens is None:
            raise UnwritableTextError(
                "no tokens were found that complete the text",
                hint="The vocabulary lacks bytes that the grammar needs",
            )
        return self._found.put(state, tokens)


_COMPLETIONS: WeakKeyDictionary[Vocabulary, Completion] = WeakKeyDictionary()
_COMPLETIONS_LOCK = threading.Lock()
