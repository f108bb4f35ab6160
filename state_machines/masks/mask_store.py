"""The masks of one vocabulary, computed once for each state and shared by all machines.

LRU caches hold masks in a compact form, and the arrays that were returned. A state stores the key
of its last mask, so the mask of a known state is one lookup.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from time import perf_counter
from typing import Any, NamedTuple
from weakref import ref

import numpy as np
import numpy.typing as npt

from state_machines.budgets import derivative_budget
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.node import Node
from state_machines.limits import LIMITS
from state_machines.masks.mask_maker import MaskMaker
from state_machines.masks.token_trie import TokenTrie
from state_machines.vocabulary import PerVocabulary, Vocabulary

_MASK_COSTS = 256
"""States whose masks' costs are kept."""


class MaskCost(NamedTuple):
    """The cost of computing a mask.

    Attributes:
        routes: How the parts of the state were walked; :mod:`state_machines.masks` has their table.
        rows: Rows of automata that the walks asked for and that were computed. If several threads
            compute masks, some of these rows and of the vertices may be theirs.
        vertices: Visits of vertices of the vocabulary's trie.
        steps: Steps of the work budget; see :mod:`state_machines.budgets`.
        seconds: Elapsed time.
    """

    routes: tuple[str, ...]
    rows: int
    vertices: int
    steps: int
    seconds: float


class MaskStore(PerVocabulary):
    """Computes and caches the masks of a vocabulary. Safe to use from several threads.

    Threads compute masks concurrently; two threads may both compute the same mask.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._maker = MaskMaker(vocabulary)
        self._quotes = self._maker.quotes
        self._costs: deque[tuple[Any, ...]] = deque(maxlen=_MASK_COSTS)
        """Weak references to states, each with the fields of a :class:`MaskCost`."""

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
        key = state.mask
        if key is None:
            dense = self._quotes.mask(state, steps)
        else:
            # Fast path: lock-free, and leaves the LRU order alone.
            dense = self._maker.dense.peek(key)
            if dense is None:
                dense = self._maker.cached(key)
        # No lock may be held here: a checkpoint can block this thread while it computes a mask.
        if dense is None:
            dense = self._compute(state, LIMITS.mask_steps if steps is None else steps)
        return dense

    def _compute(self, state: Node, steps: int) -> npt.NDArray[np.bool_]:
        start = perf_counter()
        routes: list[str] = []
        rows, vertices = self._maker.rows, self._maker.vertices
        budget = derivative_budget(steps)
        with budget:
            state.mask, dense = self._maker.mask(state, routes)
        seconds = perf_counter() - start
        walked = self._maker.rows - rows, self._maker.vertices - vertices
        self._costs.append((ref(state), tuple(routes), *walked, budget.steps_taken, seconds))
        return dense

    def cost(self, state: Node) -> MaskCost | None:
        """Return the cost of a state's mask; ``None`` if it was not computed, or not recently.

        Masks within quotes are not stored, so their cost is measured here.
        """
        for key, *cost in reversed(self._costs.copy()):
            if key() is state:
                return MaskCost(*cost)
        start = perf_counter()
        with suppress(GrammarBudgetError):
            if state.mask is None and self._quotes.mask(state) is not None:
                return MaskCost(("quote",), 0, 0, 0, perf_counter() - start)
        return None
