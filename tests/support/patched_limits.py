"""Other limits for the length of one test."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from state_machines import limits


def patch_limits(monkeypatch: pytest.MonkeyPatch, **changes: int) -> None:
    """Replace limits in every module that reads them."""
    current = limits.LIMITS
    changed = replace(current, **changes)
    for module in list(sys.modules.values()):
        if vars(module).get("LIMITS") is current:
            monkeypatch.setattr(module, "LIMITS", changed)
