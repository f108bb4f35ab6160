"""Engines without a model for the command line, and files for its commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import stand_in_engine
from stand_in_engine import StandInEngine


@pytest.fixture
def engines(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[StandInEngine]:
    """The engines that the command creates, of the class ``ENGINE`` of a test module that has one."""
    made: list[StandInEngine] = []

    def make(*arguments: Any, **options: Any) -> StandInEngine:
        engine = getattr(request.module, "ENGINE", StandInEngine)
        made.append(engine(*arguments, **options))
        return made[-1]

    module = ModuleType("proxy_engine.engine.inference_engine")
    module.InferenceEngine = make  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "proxy_engine.engine.inference_engine", module)
    return made


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the schema of the engine without a model."""
    (tmp_path / "schema.json").write_text(json.dumps(stand_in_engine.SCHEMA))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def schema(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file with the ``SCHEMA`` of the test module."""
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(request.module.SCHEMA), encoding="utf-8")
    return path


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A file with a text."""
    path = tmp_path / "text.txt"
    path.write_text("Zoë is one.", encoding="utf-8")
    return path
