"""All masks of one vocabulary: computed once a state, kept within bounds, shared by all machines.

Three caches, each least recently used out: lexeme walks (the dear part, shared across schemas),
what is allowed in a state (compact, forgotten with the state), and the arrays handed out (one for
each different mask).
"""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary, ref

import numpy as np
import numpy.typing as npt

from state_machines.effort import MASK_STEPS, bounded_effort
from state_machines.grammar.node import Node
from state_machines.masks.mask_maker import MaskMaker, TokenMask
from state_machines.masks.recent import Recent, RecentWeak
from state_machines.vocabulary import Vocabulary

__all__ = ["MaskStore"]

MAX_STATE_BYTES = 64 << 20
MAX_DENSE_BYTES = 48 << 20

STATE_OVERHEAD = 1500
"""Bytes that a state's own nodes and its cache entry take, roughly."""


class MaskStore:
    """Computes and keeps the masks of a vocabulary. Safe to use from several threads."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._size = vocabulary.size
        self._lock = threading.RLock()
        self._maker = MaskMaker(vocabulary)
        self._states: RecentWeak[Node, TokenMask] = RecentWeak(MAX_STATE_BYTES)
        self._dense: Recent[TokenMask, npt.NDArray[np.bool_]] = Recent(MAX_DENSE_BYTES)

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> MaskStore:
        """Return the store of a vocabulary, made on first use and kept as long as it lives."""
        with _STORES_LOCK:
            store = _STORES.get(vocabulary)
            if store is None:
                store = _STORES[vocabulary] = cls(vocabulary)
            return store

    def allowed(self, state: Node) -> npt.NDArray[np.bool_]:
        """Return the tokens allowed in a state: bool, shape (vocabulary size,), read-only."""
        with self._lock:
            mask = self._states.get(state)
            if mask is None:
                with bounded_effort(MASK_STEPS):
                    mask = self._maker.mask(state)
                self._states.put(state, mask, STATE_OVERHEAD)
            shared = None if mask.shared is None else mask.shared()
            if shared is not None:
                return shared
            dense = self._dense.put(mask, mask.dense(self._size), self._size)
            mask.shared = ref(dense)
            return dense


_STORES: WeakKeyDictionary[Vocabulary, MaskStore] = WeakKeyDictionary()
_STORES_LOCK = threading.Lock()
