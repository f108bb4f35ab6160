"""States after tokens, where bytes alone do not decide: spelled tokens and limits on tokens."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from state_machines.budgets import recursion_budget, spend, step_budget
from state_machines.caches import WeakKeyLruCache
from state_machines.completion.completion import Completion
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.deep import word_derivative
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.symbols import byte_ranges
from state_machines.limits import LIMITS
from state_machines.masks.automaton import Automaton, states_at_vertices
from state_machines.masks.mask_store import MaskStore
from state_machines.masks.spelled_tokens import SpelledTokens
from state_machines.vocabulary import Vocabulary

_LIMITED_STATES = 16_384
"""States of the automaton of a state that limits tokens."""

Mask = npt.NDArray[np.bool_]

_RECURSION_BUDGET = recursion_budget()


class _TooManyStates(Exception):
    """An automaton has more than ``_LIMITED_STATES`` states."""


class _SmallAutomaton(Automaton):
    def expand(self, number: int) -> None:
        if len(self.nodes) > _LIMITED_STATES:
            raise _TooManyStates
        super().expand(number)


class TokenSteps:
    """Computes states after tokens, and masks of machines that limit tokens. Thread-safe."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._forms = vocabulary.token_bytes
        self._ends = sorted(vocabulary.end_token_ids)
        self._store = MaskStore.of(vocabulary)
        self._spelled = SpelledTokens.of(vocabulary)
        self._completion = Completion.of(vocabulary)
        self._sizes = np.array([len(form or b"") for form in self._forms], np.int32)
        self._masks: WeakKeyLruCache[Node, Mask] = WeakKeyLruCache(LIMITS.dense_mask_bytes)

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> TokenSteps:
        """Return the object of a vocabulary, made on first use and kept as long as it lives."""
        with _KNOWN_LOCK:
            known = _KNOWN.get(vocabulary)
            if known is None:
                known = _KNOWN[vocabulary] = cls(vocabulary)
            return known

    def after(self, state: Node, token_id: int) -> Node:
        """Return the state after a token that is not an end token; :data:`EMPTY` if refused."""
        return self.completed(state, word_derivative(state, self._forms[token_id] or b""), token_id)

    def completed(self, state: Node, target: Node, token_id: int) -> Node:
        """Return the state after a token.

        Args:
            state: The state before it.
            target: The derivative by the bytes of the token.
            token_id: The token.
        """
        return self._completion.after_token(state, target, token_id)

    def allowed(self, state: Node, steps: int | None = None) -> Mask:
        """Return the mask of a state of a machine that limits tokens, as :meth:`MaskStore.allowed`.

        Of more than ``LIMITS.narrowed_tokens`` tokens that lead to too many states, the longest
        are left out.
        """
        known = self._masks.get(state)
        if known is None:
            with step_budget(LIMITS.mask_steps if steps is None else steps), _RECURSION_BUDGET:
                known = self._computed(state)
            known.flags.writeable = False
            self._masks.put(state, known, known.nbytes)
        return known

    def _computed(self, state: Node) -> Mask:
        try:
            mask = self._by_automaton(state)
        except _TooManyStates:
            mask = self._one_by_one(state)
        mask[self._ends] = state.nullable
        if not mask.any():
            # The plan may be shorter than what is found for the state after its first token.
            first = self._completion.plan(state).first
            if first is not None:
                mask[first] = True
        return mask

    def _by_automaton(self, state: Node) -> Mask:
        mask = np.zeros(len(self._forms), np.bool_)
        fits = self._completion.fits
        trie = self._store.trie
        automaton = _SmallAutomaton(state, byte_ranges)
        reached = states_at_vertices(automaton, trie)[trie.vertex_of]
        is_live = np.zeros(len(automaton.nodes), np.bool_)
        for number in np.unique(reached).tolist():
            node = automaton.nodes[number]
            if node.counts_tokens:
                spend()
                node = node.after_token(fits)
            is_live[number] = node is not EMPTY
        mask[trie.ids[is_live[reached]]] = True
        for target, ids in self._spelled.targets(state):
            mask[ids] |= not target.counts_tokens or target.after_token(fits) is not EMPTY
        return mask

    def _one_by_one(self, state: Node) -> Mask:
        mask = np.zeros(len(self._forms), np.bool_)
        ids = np.flatnonzero(self._store.allowed(state))
        if len(ids) > LIMITS.narrowed_tokens:
            ids = ids[np.argsort(self._sizes[ids], kind="stable")[: LIMITS.narrowed_tokens]]
        try:
            with step_budget(LIMITS.full_narrowing_steps):
                for token_id in ids.tolist():
                    spend()
                    if token_id not in self._ends:
                        mask[token_id] = self.after(state, token_id) is not EMPTY
        except GrammarBudgetError:
            # Tokens that are not decided are left out.
            pass
        return mask


_KNOWN: WeakKeyDictionary[Vocabulary, TokenSteps] = WeakKeyDictionary()
_KNOWN_LOCK = threading.Lock()
