"""Work is counted, and ends in an error rather than a hang."""

import contextlib

import pytest

from state_machines import GrammarBudgetError
from state_machines.budgets import spend, step_budget
from state_machines.limits import LIMITS


def test_steps_beyond_the_budget_raise() -> None:
    with step_budget(10):
        for _ in range(10):
            spend()
        with pytest.raises(GrammarBudgetError) as caught:
            spend()
    assert caught.value.budget == 10


def test_budget_continues_with_the_steps_that_an_earlier_one_has_left() -> None:
    reading = step_budget(10)
    with reading:
        spend(8)
    with step_budget(10, taken=reading.steps_taken):
        spend(2)
        with pytest.raises(GrammarBudgetError) as caught:
            spend()
    assert caught.value.budget == 10


def test_work_without_a_budget_is_charged_to_no_later_one() -> None:
    spend(10**12)
    budget = step_budget(1)
    with budget:
        spend()
    assert budget.steps_taken == 1


def test_inner_budget_is_charged_to_the_outer_one() -> None:
    with step_budget(10):
        with step_budget(8):
            spend(7)
        with pytest.raises(GrammarBudgetError) as caught, step_budget(8):
            spend(7)
    assert caught.value.budget == 10


def test_caught_inner_budget_error_leaves_the_outer_budget_exhausted() -> None:
    with step_budget(10):
        with contextlib.suppress(GrammarBudgetError), step_budget(100):
            spend(11)
        with pytest.raises(GrammarBudgetError):
            spend()


def test_checkpoint_runs_at_regular_intervals_and_inside_nested_budgets() -> None:
    calls: list[None] = []
    with step_budget(checkpoint=lambda: calls.append(None)):
        for _ in range(2 * LIMITS.checkpoint_steps):
            spend()
        for _ in range(2 * LIMITS.checkpoint_steps):
            with step_budget(10):
                spend()
    assert len(calls) == 3


def test_checkpoint_stops_the_work_by_raising() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), step_budget(checkpoint=stop):
        spend(2 * LIMITS.checkpoint_steps)
