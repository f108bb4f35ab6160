"""Live servers with random models, and OpenAI's client."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from live_server import Live, serving_engine
from vision_models import vision_checkpoint

from proxy_engine import InferenceEngine, MediaOptions


@pytest.fixture(scope="session")
def live(roomy_engine: InferenceEngine) -> Iterator[Live]:
    """A server that most tests share."""
    with serving_engine(roomy_engine) as live:
        yield live


@pytest.fixture(scope="session")
def client(live: Live) -> openai.OpenAI:
    """OpenAI's client of the shared server."""
    return live.client()


@pytest.fixture(scope="session")
def vision_engine(tmp_path_factory: pytest.TempPathFactory) -> InferenceEngine:
    """An engine with a random model that reads images, shared by all tests and never closed."""
    directory = vision_checkpoint("qwen2_vl", tmp_path_factory.mktemp("models") / "qwen2_vl")
    media = MediaOptions(
        max_images=3, max_image_bytes=20_000, max_image_pixels=10_000, allow_private_addresses=True
    )
    return InferenceEngine(directory, media=media)


@pytest.fixture(scope="session")
def vision(vision_engine: InferenceEngine) -> Iterator[Live]:
    """A server whose model reads images."""
    with serving_engine(vision_engine) as live:
        yield live


@pytest.fixture
def models(tmp_path: Path, tiny_model_directory: Path) -> Path:
    """A directory with two working models and a broken one."""
    for name in ("one", "two", "broken"):
        shutil.copytree(tiny_model_directory, tmp_path / name)
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"no weights")
    (tmp_path / "no-model").mkdir()
    return tmp_path
