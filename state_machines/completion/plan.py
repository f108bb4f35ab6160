"""Tokens that complete a text: counted at once, listed on demand."""

from __future__ import annotations

from dataclasses import dataclass

from state_machines.completion.endings import Ending
from state_machines.completion.segmenter import Segmenter
from state_machines.errors import GrammarBudgetError
from state_machines.limits import LIMITS


class Plan:
    """Tokens that complete a text, each allowed in its turn. Immutable.

    Attributes:
        length: Number of tokens, exact up to 2^50.
    """

    __slots__ = ("_at", "_ending", "_first", "_segmenter", "_tokens", "length")

    def __init__(self, tokens: tuple[int, ...], at: int = 0) -> None:
        self.length = len(tokens) - at
        self._tokens: tuple[int, ...] | None = tokens
        self._at = at
        self._segmenter: Segmenter | None = None
        self._ending: Ending | None = None
        self._first: int | None = None

    @classmethod
    def of_ending(cls, segmenter: Segmenter, ending: Ending, length: int) -> Plan:
        """Return the plan that writes an ending in the fewest tokens, which are ``length``."""
        plan = cls(())
        plan.length = length
        plan._tokens = None
        plan._segmenter, plan._ending = segmenter, ending
        return plan

    @property
    def is_listed(self) -> bool:
        """Whether the tokens have been listed."""
        return self._tokens is not None

    @property
    def first(self) -> int | None:
        """The first token, or ``None`` if the text is complete."""
        if not self.length:
            return None
        if self._tokens is not None:
            return self._tokens[self._at]
        if self._first is None:
            assert self._segmenter is not None
            assert self._ending is not None
            self._first = next(self._segmenter.tokens(self._ending))
        return self._first

    @property
    def tokens(self) -> tuple[int, ...]:
        """All tokens.

        Raises:
            GrammarBudgetError: There are more than ``LIMITS.listed_tokens``.
        """
        return self._listed()[self._at :]

    @property
    def rest(self) -> Plan:
        """The plan that remains after the first token."""
        return Plan(self._listed(), self._at + 1)

    def _listed(self) -> tuple[int, ...]:
        if self._tokens is None:
            if self.length > LIMITS.listed_tokens:
                raise GrammarBudgetError(
                    f"the shortest output found takes {self.length} tokens, too many to list",
                    budget=LIMITS.listed_tokens,
                    hint="Require less text: lower minLength, minItems or the repetition counts",
                )
            assert self._segmenter is not None
            assert self._ending is not None
            self._tokens = tuple(self._segmenter.tokens(self._ending))
        return self._tokens


COMPLETE = Plan(())
"""The plan of a text that is complete."""


@dataclass(frozen=True, slots=True)
class Shortest:
    """The shortest plan that a search has found.

    Attributes:
        plan: The plan.
        is_exact: Whether it is proven that no plan has fewer tokens.
    """

    plan: Plan
    is_exact: bool

    @property
    def length(self) -> int:
        """The number of tokens."""
        return self.plan.length

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens; see :attr:`Plan.tokens`."""
        return self.plan.tokens
