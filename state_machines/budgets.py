"""Work budgets, counted in steps: a hostile schema ends in an error instead of a hang.

A step is about the construction of one grammar node: some 200,000 are made in a second on a
2.5 GHz core. A count of steps gives the same answer on every machine.

Budgets nest: the steps of an inner budget are charged to the outer one too, and an inner budget
never has more steps than the outer one has left. A *checkpoint* is a callable that runs every
``LIMITS.checkpoint_steps`` steps. It may let other threads run, and it may raise to stop the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from enum import Enum
from typing import NoReturn

from state_machines.errors import GrammarBudgetError
from state_machines.limits import LIMITS

UNBOUNDED = 1 << 62


class Verdict(Enum):
    """The result of a search that may give up: yes, no, or not known within its limit.

    It is no Boolean, so that no caller reads "not known" as "no". A caller compares it with a
    member, and states why this is correct for ``UNKNOWN``; or it calls :meth:`decided`.
    """

    YES = "yes"
    NO = "no"
    UNKNOWN = "not known"

    @staticmethod
    def of(known: bool) -> Verdict:
        """Return the verdict of a search that has not given up."""
        return Verdict.YES if known else Verdict.NO

    @staticmethod
    def any_of(verdicts: Iterable[Verdict]) -> Verdict:
        """Return whether any verdict is yes; stops at the first yes."""
        found = Verdict.NO
        for verdict in verdicts:
            if verdict is Verdict.YES:
                return verdict
            if verdict is Verdict.UNKNOWN:
                found = verdict
        return found

    def __bool__(self) -> NoReturn:
        raise TypeError("a verdict is no Boolean: it may be unknown")

    def decided(self, question: str, states: int) -> bool:
        """Return whether the verdict is yes.

        Args:
            question: The question, such as "whether an intersection is empty".
            states: The limit of the search, in states.

        Raises:
            GrammarBudgetError: It is not known.
        """
        if self is Verdict.UNKNOWN:
            raise GrammarBudgetError(
                f"deciding {question} took more than {states:,} states",
                budget=states,
                hint="Simplify the schema or grammar, or lower its counts",
            )
        return self is Verdict.YES


class step_budget:
    """Bound the work of a ``with`` block to a number of steps, in this thread or task.

    Args:
        limit: Maximum number of steps; by default only the enclosing budget applies.
        taken: Steps of the limit that were taken before.
        checkpoint: Called about every ``LIMITS.checkpoint_steps`` steps, in the working thread;
            ``None`` keeps the enclosing budget's. Its exceptions leave the block. It must not
            raise :class:`~state_machines.errors.GrammarBudgetError`, which searches catch to
            continue with their best result so far.

    Raises:
        GrammarBudgetError: The work takes more steps.
    """

    _left: int
    _reserve: int

    def __init__(
        self,
        limit: int | None = None,
        *,
        taken: int = 0,
        checkpoint: Callable[[], None] | None = None,
    ) -> None:
        self._limit = self._asked = UNBOUNDED if limit is None else limit
        self._taken = taken
        self._checkpoint = checkpoint

    def __enter__(self) -> None:
        available = max(0, self._limit - self._taken)
        self._outer = outer = _BUDGET.get()
        # The countdown to the next checkpoint continues across budgets.
        left = LIMITS.checkpoint_steps
        if outer is not None:
            if self._checkpoint is None:
                self._checkpoint = outer._checkpoint
            if outer._checkpoint is not None:
                left = outer._left
            of_outer = max(0, outer._left + outer._reserve)
            if of_outer < available:
                available, self._limit = of_outer, outer._limit
        # Steps until the next checkpoint, and beyond it.
        self._left = available if self._checkpoint is None else min(available, left)
        self._reserve = available - self._left
        self._available = available
        self._was_checked = False
        self._token = _BUDGET.set(self)

    def __exit__(self, *_: object) -> None:
        _BUDGET.reset(self._token)
        outer = self._outer
        if outer is not None:
            # An outer budget that is exhausted by this raises at its next step.
            outer._left -= self._available - self._left - self._reserve
            if self._was_checked and outer._left < 0:
                rest = outer._left + outer._reserve
                outer._left = min(rest, LIMITS.checkpoint_steps)
                outer._reserve = rest - outer._left

    @property
    def steps_taken(self) -> int:
        """The steps that were taken; within the block, or once it has ended."""
        return self._available - self._left - self._reserve

    @property
    def steps_left(self) -> int:
        """The steps that are left; only within the block."""
        return max(0, self._left + self._reserve)

    @property
    def is_exhausted(self) -> bool:
        """Whether more steps were asked for than there were; once the block has ended.

        Otherwise no search in the block has given up because of the budget.
        """
        return self._left + self._reserve < 0

    @property
    def granted(self) -> int:
        """The steps for which results of the block hold, once it has ended.

        A search that gives up is repeated for a caller who grants more. That is the limit; or the
        steps that an enclosing budget had left, if that budget has ended the work.
        """
        return self._available if self.is_exhausted else self._asked

    def _refill(self) -> None:
        """Run the checkpoint and continue; raise if the budget is exhausted."""
        if self._left + self._reserve < 0:
            raise GrammarBudgetError(
                f"this took more than {self._limit:,} steps",
                budget=self._limit,
                hint="Simplify the schema or grammar",
            )
        share = min(self._reserve, LIMITS.checkpoint_steps - self._left)
        self._reserve -= share
        self._left += share
        self._was_checked = True
        if self._checkpoint is not None:
            self._checkpoint()


_BUDGET: ContextVar[step_budget | None] = ContextVar("budget", default=None)


class derivative_budget(step_budget):
    """A :class:`step_budget` of a block that computes derivatives.

    :class:`RecursionError` becomes :class:`~state_machines.errors.GrammarBudgetError`: states of
    ambiguous grammars can be nested deeper than Python's recursion limit.
    """

    def __exit__(self, *raised: object) -> None:
        super().__exit__()
        error = raised[1]
        if isinstance(error, RecursionError):
            raise GrammarBudgetError(
                "the text is too ambiguous: its state is nested too deeply",
                budget=self._limit,
                hint="Write the grammar so that each text has one derivation",
            ) from error


@contextmanager
def uncharged() -> Iterator[None]:
    """Charge the work of a ``with`` block to no budget of this thread or task.

    For work that is done once and that others could have done before, so that what a budget allows
    does not depend on who comes first. Its own budgets bound it.
    """
    token = _BUDGET.set(None)
    try:
        yield
    finally:
        _BUDGET.reset(token)


class _StepLimitReached(BaseException):
    """Leaves the block of :func:`step_limit`; no handler of errors may stop it."""


@contextmanager
def step_limit(steps: int) -> Iterator[None]:
    """Leave a ``with`` block after about this many steps.

    In a smaller :class:`step_budget`, searches end early with their best result so far. The results
    of a block that this leaves do not depend on the limit: they are those without it, or missing.

    Args:
        steps: Maximum number of steps, a multiple of ``LIMITS.checkpoint_steps``.
    """
    checks = 0

    def check() -> None:
        nonlocal checks
        checks += 1
        if checks * LIMITS.checkpoint_steps >= steps:
            raise _StepLimitReached

    with suppress(_StepLimitReached), step_budget(checkpoint=check):
        yield


def spend(steps: int = 1) -> None:
    """Charge steps to the budget of this thread or task, if there is one.

    Raises:
        GrammarBudgetError: No steps are left.
    """
    budget = _BUDGET.get()
    if budget is None:
        return
    budget._left -= steps
    if budget._left < 0:
        budget._refill()
