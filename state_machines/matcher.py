"""A matcher: one text being written, token by token."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from state_machines.budgets import recursion_budget, step_budget
from state_machines.errors import GrammarBudgetError, TokenRejectedError
from state_machines.grammar.deep import word_derivative
from state_machines.grammar.node import EMPTY, Node
from state_machines.limits import LIMITS
from state_machines.masks.mask_store import MaskStore
from state_machines.vocabulary import Vocabulary

__all__ = ["Matcher"]

_RECURSION_BUDGET = recursion_budget()


class MatchedMachine(Protocol):
    """A machine whose states a matcher goes through."""

    steps_taken: int
    """Steps that were computed, and are kept, since the machine let go of such."""


class Matcher:
    """Where a text stands in a machine's language, and which tokens may come next.

    Cheap to make and to copy; all matchers of a vocabulary share its masks. One matcher is for
    one thread at a time, different matchers may run in different threads.
    """

    __slots__ = ("_finished", "_machine", "_state", "_store", "vocabulary")

    def __init__(
        self, state: Node, vocabulary: Vocabulary, machine: MatchedMachine | None = None
    ) -> None:
        self.vocabulary = vocabulary
        # Held, since a machine that goes releases what its states remember of one another.
        self._machine = machine
        self._state = state
        self._store = MaskStore.of(vocabulary)
        self._finished = False

    @property
    def state(self) -> Node:
        """The language of what may still be written."""
        return self._state

    @property
    def is_accepting(self) -> bool:
        """Whether the text written so far is complete."""
        return self._state.nullable

    @property
    def is_finished(self) -> bool:
        """Whether an end token has been taken; nothing may follow."""
        return self._finished

    def allowed_tokens(self) -> npt.NDArray[np.bool_]:
        """Return which tokens may come next: bool, shape (vocabulary.size,), read-only.

        End tokens are among them exactly where the state accepts. Nothing is, once finished; nor
        where no token of the vocabulary begins what must follow.
        """
        return self._store.allowed(EMPTY if self._finished else self._state)

    def advance(self, token_id: int) -> None:
        """Take a token.

        Raises :class:`~state_machines.errors.TokenRejectedError` if it is not allowed, and
        :class:`~state_machines.errors.GrammarBudgetError` where that takes more than
        ``LIMITS.mask_steps`` steps, as for a text that a grammar reads in too
        many ways; the state is unchanged then.
        """
        state = self._after(token_id)
        if state is None:
            self._finished = True
        else:
            self._state = state

    def _after(self, token_id: int) -> Node | None:
        """Return the state after a token, ``None`` after an end token; raise as :meth:`advance`."""
        if self._finished:
            raise TokenRejectedError("the text is finished", token_id=token_id)
        if token_id in self.vocabulary.end_token_ids:
            if not self._state.nullable:
                raise TokenRejectedError(
                    f"token {token_id} ends a text that is not complete", token_id=token_id
                )
            return None
        in_range = 0 <= token_id < self.vocabulary.size
        form = self.vocabulary.token_bytes[token_id] if in_range else None
        if form is None:
            raise TokenRejectedError(f"token {token_id} is no text", token_id=token_id)
        # Fast path: a step that was taken before costs no work that would have to be bounded.
        state = self._state.known_word_derivative(form)
        if state is None:
            with step_budget(LIMITS.mask_steps):
                state = word_derivative(self._state, form)
            if self._machine is not None:
                self._machine.steps_taken += 1
        if state is EMPTY:
            raise TokenRejectedError(
                f"token {token_id} ({form!r}) cannot come here", token_id=token_id
            )
        return state

    def forced_bytes(self) -> bytes:
        """Return the bytes that must come next, as far as there is one possibility.

        Returns fewer of them where to find more takes more than
        ``LIMITS.mask_steps`` steps.
        """
        forced = bytearray()
        node = self._state
        try:
            with step_budget(LIMITS.mask_steps), _RECURSION_BUDGET:
                while not self._finished and not node.nullable:
                    text = node.leading_text
                    if not text:
                        first = node.first_bytes
                        if first & (first - 1):
                            break
                        text = bytes((first.bit_length() - 1,))
                    node = node.compute_word_derivative(text)
                    forced += text
        except GrammarBudgetError:
            pass
        return bytes(forced)

    def copy(self) -> Matcher:
        """Return an independent matcher at the same place."""
        twin = Matcher.__new__(Matcher)
        self._copy_to(twin)
        return twin

    def _copy_to(self, twin: Matcher) -> None:
        twin.vocabulary = self.vocabulary
        twin._machine = self._machine
        twin._state = self._state
        twin._store = self._store
        twin._finished = self._finished
