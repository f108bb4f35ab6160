"""How near the end of an output is, in tokens of a vocabulary."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

from state_machines.completion.endings import UNWRITABLE, Cutter, Ending
from state_machines.completion.least import LeastWords
from state_machines.grammar.node import Node
from state_machines.masks.mask_store import MaskStore
from state_machines.vocabulary import Vocabulary

__all__ = ["Completion"]


class Completion:
    """What completes the states of all machines of a vocabulary. Safe to use from several threads.

    What it finds is kept with the states, as long as these live, within bounds.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._cutter = Cutter(MaskStore.of(vocabulary).trie)
        self._least = LeastWords(self._cutter)
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

        0 where it accepts; the end token is not counted.
        """
        if state.nullable:
            return 0
        with self._lock:
            return self._cutter.fewest(self._ending(state))

    def plan(self, state: Node) -> tuple[int, ...]:
        """Return tokens that complete a text from a state."""
        if state.nullable:
            return ()
        with self._lock:
            return self._cutter.cut(self._ending(state))

    def _ending(self, state: Node) -> Ending:
        return self._least.ending(state)


_COMPLETIONS: WeakKeyDictionary[Vocabulary, Completion] = WeakKeyDictionary()
_COMPLETIONS_LOCK = threading.Lock()
