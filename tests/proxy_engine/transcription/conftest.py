"""A tiny Whisper for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_whisper import write_tiny_whisper

from proxy_engine import InferenceEngine


@pytest.fixture(scope="session")
def whisper_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_whisper(tmp_path_factory.mktemp("models") / "whisper-tiny")


@pytest.fixture(scope="session")
def whisper_engine(whisper_directory: Path) -> Iterator[InferenceEngine]:
    with InferenceEngine(whisper_directory, on_progress=None) as engine:
        yield engine
