"""Fixtures for all packages, among them language models small enough to be created in a test."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models import llama
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tiny_models import TINY_CONFIG, make_tiny_model, make_tiny_tokenizer

from proxy_engine import GenerationOptions, InferenceEngine, ModelFetchError
from proxy_engine.generation.batch import Batch
from proxy_engine.models.embedded import SPEECH_MODEL
from proxy_engine.runtime import process_runtime

# For a CPU, MLX compiles each function with the system's C++ compiler, a second each. Models compute
# the same without; commands that tests start in processes of their own compile as usual.
mx.disable_compile()


@pytest.fixture(scope="session", autouse=True)
def _interpreter_settings() -> Iterator[None]:
    """Commands that run in the tests' process do not change its settings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process_runtime, "take_over", lambda: None)
        # Drafts do not depend on the load of the machine.
        patch.setattr(Batch, "_measure", lambda *_, **__: None)
        yield


@pytest.fixture(scope="session")
def tiny_tokenizer() -> TokenizerWrapper:
    """The tokenizer of the tiny model."""
    return make_tiny_tokenizer()


@pytest.fixture(scope="session")
def tiny_model() -> llama.Model:
    """A random model. Its weights must not be changed."""
    return make_tiny_model()


@pytest.fixture(scope="session")
def tiny_engine(tiny_model: llama.Model, tiny_tokenizer: TokenizerWrapper) -> InferenceEngine:
    """An engine with the tiny model, shared by all tests and never closed."""
    return InferenceEngine(tiny_model, tiny_tokenizer)


@pytest.fixture(scope="session")
def roomy_model() -> llama.Model:
    """A random model with room for prompts that describe tools."""
    return make_tiny_model(context=4096)


@pytest.fixture(scope="session")
def roomy_engine(roomy_model: llama.Model, tiny_tokenizer: TokenizerWrapper) -> InferenceEngine:
    """An engine with the roomy model, shared by all tests and never closed."""
    return InferenceEngine(roomy_model, tiny_tokenizer)


@pytest.fixture(scope="session")
def brief_engine(tiny_tokenizer: TokenizerWrapper) -> InferenceEngine:
    """An engine with short answers, shared by all tests and never closed."""
    options = GenerationOptions(max_tokens=8)
    return InferenceEngine(make_tiny_model(context=160), tiny_tokenizer, options=options)


@pytest.fixture
def engine(tiny_model: llama.Model, tiny_tokenizer: TokenizerWrapper) -> Iterator[InferenceEngine]:
    """An engine of the test's own."""
    with InferenceEngine(tiny_model, tiny_tokenizer) as own:
        yield own


@pytest.fixture(scope="session")
def tiny_model_directory(
    tmp_path_factory: pytest.TempPathFactory,
    tiny_model: llama.Model,
    tiny_tokenizer: TokenizerWrapper,
) -> Path:
    """The tiny model as files, as ``mlx_lm.load`` takes them."""
    directory = tmp_path_factory.mktemp("tiny-model")
    weights = dict(tree_flatten(tiny_model.parameters()))
    mx.save_safetensors(str(directory / "model.safetensors"), weights)
    (directory / "config.json").write_text(json.dumps(TINY_CONFIG), encoding="utf-8")
    tiny_tokenizer.save_pretrained(str(directory))
    return directory


@pytest.fixture(scope="session")
def embedded_engine() -> InferenceEngine:
    """An engine with the embedded model, downloaded on first use; skips if that fails."""
    return _engine_of_package(None)


@pytest.fixture(scope="session")
def speech_engine() -> InferenceEngine:
    """An engine with the embedded speech model, as ``embedded_engine``."""
    return _engine_of_package(SPEECH_MODEL)


def _engine_of_package(model: str | None) -> InferenceEngine:
    try:
        return InferenceEngine(model)
    except ModelFetchError as error:
        if os.environ.get("PROXY_ENGINE_REQUIRE_MODEL"):
            raise
        pytest.skip(str(error))
