"""Engines without a model for the command line."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
from stand_in_engine import StandInEngine


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[StandInEngine]:
    """The engines that the command creates."""
    made: list[StandInEngine] = []

    def make(*arguments: Any, **options: Any) -> StandInEngine:
        made.append(StandInEngine(*arguments, **options))
        return made[-1]

    module = ModuleType("proxy_engine.engine.inference_engine")
    module.InferenceEngine = make  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "proxy_engine.engine.inference_engine", module)
    return made
