"""Other limits for the length of one test, and the number of steps that work takes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from state_machines import budgets, limits


def patch_limits(monkeypatch: pytest.MonkeyPatch, **changes: int) -> None:
    """Replace limits in every module that reads them."""
    current = limits.LIMITS
    changed = replace(current, **changes)
    for module in list(sys.modules.values()):
        if vars(module).get("LIMITS") is current:
            monkeypatch.setattr(module, "LIMITS", changed)


def steps_of(work: Callable[[], object]) -> int:
    """Return the number of steps that a function spends."""
    with budgets.step_budget(10**9):
        budget = budgets._BUDGET.get()
        assert budget is not None
        before = budget.steps_left
        work()
        return before - budget.steps_left
