"""One text under a grammar, as far as it is written."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from state_machines.completion import Guard
from state_machines.errors import GrammarBudgetError, TokenRejectedError
from state_machines.machine import StateMachine
from state_machines.matcher import Matcher
from state_machines.vocabulary import Vocabulary

Mask = npt.NDArray[np.bool_]


class WrittenText:
    """A text that has been written so far. Immutable.

    Args:
        matcher: The matcher of the text.
        guard: Keeps the text completable within ``max_tokens``; ``None``: there is no limit.
    """

    __slots__ = ("_guard", "_matcher")

    def __init__(self, matcher: Matcher, guard: Guard | None = None) -> None:
        self._matcher = matcher
        self._guard = guard

    @classmethod
    def begin(
        cls, machine: StateMachine, vocabulary: Vocabulary, max_tokens: int | None
    ) -> WrittenText:
        """Return the empty text.

        Raises:
            MaxTokensTooSmallError: No text fits into ``max_tokens``.
            GrammarBudgetError: No completion was found within the step budget.
        """
        matcher = machine.matcher(vocabulary)
        return cls(matcher, None if max_tokens is None else Guard(matcher, max_tokens))

    @property
    def is_finished(self) -> bool:
        """Whether an end token has been written."""
        return self._matcher.is_finished

    def mask(self) -> Mask:
        """Return the tokens that may follow: bool, shape (vocabulary size,), read-only.

        With a guard, a mask that takes too much work is replaced by the next token of the plan.

        Raises:
            GrammarBudgetError: The mask takes too much work, and there is no guard.
        """
        guard = self._guard
        if guard is None:
            return self._matcher.allowed_tokens()
        try:
            # A loop cannot be asked for another token, so the mask must be exact.
            return guard.mask(self._matcher.allowed_tokens(), exact=True)
        except GrammarBudgetError:
            return guard.plan_mask()

    def after(self, token_id: int) -> WrittenText | None:
        """Return the text after a token; ``None`` if the token is not allowed.

        Raises:
            GrammarBudgetError: Following the token takes too much work.
        """
        try:
            if self._guard is None:
                matcher = self._matcher.copy()
                matcher.advance(token_id)
                return WrittenText(matcher)
            guard = self._guard.copy()
            guard.advance(token_id)
            return WrittenText(guard.matcher, guard)
        except TokenRejectedError:
            return None
