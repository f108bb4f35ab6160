"""Facts about models, by their configurations."""

from __future__ import annotations

from typing import Any

import pytest
from mlx.nn.layers.base import Module
from vision_model_configs import FAMILIES

from proxy_engine.models import files
from proxy_engine.models.files import context_length, hidden_size, input_modalities, num_layers


@pytest.mark.parametrize("name", FAMILIES)
def test_multimodal_models_read_images(name: str) -> None:
    family = FAMILIES[name]
    audio = {"audio"} if family.reads_audio else set()
    assert input_modalities(family.config) == {"text", "image", *audio}


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model_type": "llama"},
        {"model_type": "mllama", "vision_config": {"a": 1}},
        {"model_type": "no-such-model", "vision_config": {"a": 1}},
    ],
)
def test_other_models_read_text(config: dict[str, Any]) -> None:
    assert input_modalities(config) == {"text"}


def test_without_the_extra_models_read_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "is_installed", lambda extra: False)
    assert input_modalities(FAMILIES["qwen2_vl"].config) == {"text"}


def test_layers_of_the_whole_model_are_counted(tiny_model: Any) -> None:
    assert num_layers(tiny_model, {}) == 2
    # A stage of a pipeline has some of them.
    assert num_layers(tiny_model, {"n_layer": 3}) == 3
    assert num_layers(Module(), {}) is None


@pytest.mark.parametrize(
    ("config", "width"),
    [
        ({"hidden_size": 8, "text_config": {"hidden_size": 9}}, 9),
        ({"hidden_size": 8, "text_config": {"n_embd": None}}, 8),
        ({"llm_config": {"hidden_size": 6}}, 6),
        ({"n_embd": 7}, 7),
        ({}, None),
    ],
)
def test_width_is_that_of_the_text_model(config: dict[str, Any], width: int | None) -> None:
    assert hidden_size(config) == width


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({"max_position_embeddings": 7}, 7),
        ({"text_config": {"max_position_embeddings": 8}}, 8),
        ({"n_positions": 9}, 9),
        ({"max_position_embeddings": None}, None),
        ({}, None),
    ],
)
def test_context_length_is_found_under_all_its_names(
    config: dict[str, Any], length: int | None
) -> None:
    assert context_length(config) == length
