"""What models read, by their configurations."""

from __future__ import annotations

from typing import Any

import pytest
from vision_model_configs import FAMILIES

from proxy_engine.models import configuration
from proxy_engine.models.configuration import input_modalities


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
    monkeypatch.setattr(configuration, "is_installed", lambda extra: False)
    assert input_modalities(FAMILIES["qwen2_vl"].config) == {"text"}
