"""A bound on work, counted in steps, so that a hostile schema ends in an error and not in a hang.

A step is about the making of one grammar node: some 200,000 are made in a second on a 2.5 GHz
core. Counting steps instead of seconds gives the same answer on every machine.
"""

from __future__ import annotations

from contextvars import ContextVar

from state_machines.errors import GrammarBudgetError

__all__ = ["COMPILE_STEPS", "MASK_STEPS", "bounded_effort", "spend", "too_deep"]

COMPILE_STEPS = 300_000
"""Steps that compiling one schema may take; 99% of real ones take less than 3,000."""

MASK_STEPS = 300_000
"""Steps that one mask may take."""


class _Effort:
    __slots__ = ("left", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.left = limit


_EFFORT: ContextVar[_Effort | None] = ContextVar("effort", default=None)


class bounded_effort:
    """Let the work within take at most so many steps, in this thread or task.

    Raises :class:`~state_machines.errors.GrammarBudgetError` beyond.
    """

    __slots__ = ("_limit", "_token")

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def __enter__(self) -> None:
        self._token = _EFFORT.set(_Effort(self._limit))

    def __exit__(self, *_: object) -> None:
        _EFFORT.reset(self._token)


class too_deep:
    """Let a state that is nested beyond what Python can follow count as too much work.

    Such are the states of grammars by which a text can be read in ever more ways.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, RecursionError):
            raise GrammarBudgetError(
                "this text can be read in too many ways",
                budget=MASK_STEPS,
                hint="Write the grammar so that a text is read in one way",
            ) from error


def spend(steps: int = 1) -> None:
    """Count steps against the bound, if there is one."""
    effort = _EFFORT.get()
    if effort is None:
        return
    effort.left -= steps
    if effort.left < 0:
        raise GrammarBudgetError(
            f"this took more than {effort.limit:,} steps",
            budget=effort.limit,
            hint="Simplify the schema",
        )
