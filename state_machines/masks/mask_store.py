"""All masks of one vocabulary: computed once a state, kept within bounds, shared by all machines.

Masks are kept compactly, and as the arrays handed out; of both, what was not used for longest is
forgotten. A state points to the mask it was given last, so that one that was met before costs next
to nothing.
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

__all__ = ["MaskStore"]


class MaskStore:
    """Computes and keeps the masks of a vocabulary. Safe to use from several threads.

    Threads may compute masks at the same time; two that ask for the same one may both compute it.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._maker = MaskMaker(vocabulary)

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> MaskStore:
        """Return the store of a vocabulary, made on first use and kept as long as it lives."""
        with _STORES_LOCK:
            store = _STORES.get(vocabulary)
            if store is None:
                store = _STORES[vocabulary] = cls(vocabulary)
            return store

    @property
    def trie(self) -> TokenTrie:
        """The tokens of the vocabulary as a trie."""
        return self._maker.trie

    def allowed(self, state: Node) -> npt.NDArray[np.bool_]:
        """Return the tokens allowed in a state: bool, shape (vocabulary size,), read-only."""
        # Fast path: lock-free, and leaves the LRU order alone.
        key = state.mask
        dense = None if key is None else self._maker.dense.peek(key)
        if dense is not None:
            return dense
        # No lock is held from here on: a checkpoint may block this thread in the midst of a mask.
        dense = None if key is None else self._maker.cached(key)
        if dense is None:
            with step_budget(LIMITS.mask_steps), recursion_budget():
                state.mask, dense = self._maker.mask(state)
        return dense


_STORES: WeakKeyDictionary[Vocabulary, MaskStore] = WeakKeyDictionary()
_STORES_LOCK = threading.Lock()
