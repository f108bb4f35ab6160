"""The masks of one vocabulary, computed once for each state and shared by all machines.

LRU caches hold masks in a compact form, and the arrays that were returned. A state stores the key
of its last mask, so the mask of a known state is one lookup.
"""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from state_machines.budgets import recursion_budget, step_budget
from state_machines.grammar.node import Node
from state_machines.limits import LIMITS
from state_machines.masks.mask_maker import MaskMaker
from state_machines.masks.token_trie import TokenTrie
from state_machines.vocabulary import Vocabulary


class MaskStore:
    """Computes and caches the masks of a vocabulary. Safe to use from several threads.

    Threads compute masks concurrently; two threads may both compute the same mask.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._maker = MaskMaker(vocabulary)

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> MaskStore:
        """Return the store of a vocabulary. It is created on first use and lives as long."""
        with _STORES_LOCK:
            store = _STORES.get(vocabulary)
            if store is None:
                store = _STORES[vocabulary] = cls(vocabulary)
            return store

    @property
    def trie(self) -> TokenTrie:
        """The tokens of the vocabulary as a trie."""
        return self._maker.trie

    def allowed(self, state: Node, steps: int | None = None) -> npt.NDArray[np.bool_]:
        """Return the tokens allowed in a state: bool, shape (vocabulary size,), read-only.

        Args:
            state: The state.
            steps: Work budget of a mask that is not cached; by default ``LIMITS.mask_steps``.

        Raises:
            GrammarBudgetError: Computing the mask takes more steps.
        """
        # Fast path: lock-free, and leaves the LRU order alone.
        key = state.mask
        dense = None if key is None else self._maker.dense.peek(key)
        if dense is not None:
            return dense
        # No lock may be held here: a checkpoint can block this thread while it computes a mask.
        dense = None if key is None else self._maker.cached(key)
        if dense is None:
            with step_budget(LIMITS.mask_steps if steps is None else steps), recursion_budget():
                state.mask, dense = self._maker.mask(state)
        return dense


_STORES: WeakKeyDictionary[Vocabulary, MaskStore] = WeakKeyDictionary()
_STORES_LOCK = threading.Lock()
