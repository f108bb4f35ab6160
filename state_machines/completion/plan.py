"""Tokens that complete a text: known by their number, and listed when they are asked for."""

from __future__ import annotations

from state_machines.completion.cutter import Cutter
from state_machines.completion.endings import Ending
from state_machines.errors import GrammarBudgetError
from state_machines.limits import LIMITS

__all__ = ["COMPLETE", "Plan"]


class Plan:
    """Tokens that complete a text, each allowed in its turn. Immutable.

    ``length`` is their number, exact up to 2^50.
    """

    __slots__ = ("_at", "_cutter", "_ending", "_first", "_tokens", "length")

    def __init__(self, tokens: tuple[int, ...], at: int = 0) -> None:
        self.length = len(tokens) - at
        self._tokens: tuple[int, ...] | None = tokens
        self._at = at
        self._cutter: Cutter | None = None
        self._ending: Ending | None = None
        self._first: int | None = None

    @classmethod
    def of_ending(cls, cutter: Cutter, ending: Ending, length: int) -> Plan:
        """Return the plan that writes an ending in as few tokens as it can be written in."""
        plan = cls(())
        plan.length = length
        plan._tokens = None
        plan._cutter, plan._ending = cutter, ending
        return plan

    @property
    def is_listed(self) -> bool:
        """Whether the single tokens are known."""
        return self._tokens is not None

    @property
    def first(self) -> int | None:
        """The first token; ``None`` if there is none."""
        if not self.length:
            return None
        if self._tokens is not None:
            return self._tokens[self._at]
        if self._first is None:
            assert self._cutter is not None
            assert self._ending is not None
            self._first = next(self._cutter.tokens(self._ending))
        return self._first

    @property
    def tokens(self) -> tuple[int, ...]:
        """All tokens.

        Raises :class:`~state_machines.errors.GrammarBudgetError` if there are more than a million.
        """
        return self._listed()[self._at :]

    @property
    def rest(self) -> Plan:
        """The plan for the text after the first token."""
        return Plan(self._listed(), self._at + 1)

    def _listed(self) -> tuple[int, ...]:
        if self._tokens is None:
            if self.length > LIMITS.listed_tokens:
                raise GrammarBudgetError(
                    f"the shortest output that was found takes {self.length} tokens",
                    budget=LIMITS.listed_tokens,
                    hint="Ask for less",
                )
            assert self._cutter is not None
            assert self._ending is not None
            self._tokens = tuple(self._cutter.tokens(self._ending))
        return self._tokens


COMPLETE = Plan(())
"""Of a text that is complete."""
