"""Small multimodal models, each written and loaded once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from vision_models import vision_checkpoint

from proxy_engine.models.loading import LoadedModel, load_model


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the directory of an architecture's checkpoint."""
    directory = tmp_path_factory.mktemp("multimodal")
    known: dict[str, Path] = {}

    def find(name: str) -> Path:
        if name not in known:
            known[name] = vision_checkpoint(name, directory / name)
        return known[name]

    return find


@pytest.fixture(scope="session")
def loaded(checkpoint: Callable[[str], Path]) -> Callable[[str], LoadedModel]:
    """Return an architecture's model."""
    known: dict[str, LoadedModel] = {}

    def load(name: str) -> LoadedModel:
        if name not in known:
            known[name] = load_model(checkpoint(name))
        return known[name]

    return load
