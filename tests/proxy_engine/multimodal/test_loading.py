"""Loading multimodal models: recognition, fallbacks to the text model, and refused models."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from vision_models import VISION_ARCHITECTURES

from proxy_engine import InferenceEngine, MissingExtraError, ModelFormatError
from proxy_engine.models.files import file_problem
from proxy_engine.models.kinds import is_multimodal
from proxy_engine.models.loading import LoadedModel, load_model

Load = Callable[[str], LoadedModel]
Find = Callable[[str], Path]


@pytest.fixture
def edited(checkpoint: Find, tmp_path: Path) -> Callable[..., Path]:
    """Return a copy of a checkpoint whose configuration has other values."""

    def edit(name: str, **changes: Any) -> Path:
        path = tmp_path / "edited"
        shutil.copytree(checkpoint(name), path)
        config = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps({**config, **changes}))
        return path

    return edit


@pytest.fixture
def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlx_vlm", None)


@pytest.mark.parametrize("name", VISION_ARCHITECTURES)
def test_model_that_reads_images_is_recognised(loaded: Load, checkpoint: Find, name: str) -> None:
    model = loaded(name)
    assert is_multimodal(json.loads((checkpoint(name) / "config.json").read_text()))
    assert model.processor is not None
    assert "image" in model.processor.reads
    assert model.model_type == name
    assert model.context_length is not None
    assert model.tokenizer.eos_token_ids


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "llama"},
        {"model_type": "llama", "vision_config": None},
        {"model_type": "no_such_model", "vision_config": {"depth": 2}},
        {"model_type": "whisper", "audio_config": {"depth": 2}},
        {},
        {"vision_config": {"depth": 2}},
        {"model_type": 5, "vision_config": {"depth": 2}},
        {"model_type": "../qwen2_vl", "vision_config": {"depth": 2}},
    ],
)
def test_other_models_are_not(config: dict[str, Any]) -> None:
    assert not is_multimodal(config)


def test_eos_tokens_are_those_of_the_configuration(loaded: Load, checkpoint: Find) -> None:
    config = json.loads((checkpoint("gemma3") / "config.json").read_text())
    assert loaded("gemma3").tokenizer.eos_token_ids >= set(config["eos_token_id"])


def test_chat_template_in_a_file_of_its_own_is_found(
    checkpoint: Find, loaded: Load, tmp_path: Path
) -> None:
    path = tmp_path / "qwen2_vl"
    shutil.copytree(checkpoint("qwen2_vl"), path)
    template = loaded("qwen2_vl").tokenizer.chat_template
    (path / "chat_template.jinja").unlink(missing_ok=True)
    settings = json.loads((path / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    (path / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    assert load_model(path).tokenizer.chat_template == template


def test_text_model_is_loaded_without_the_extra(
    checkpoint: Find, loaded: Load, without_extra: None
) -> None:
    model = load_model(checkpoint("qwen3_vl"))
    assert model.processor is None
    assert model.is_multimodal
    assert isinstance(model.media_error(), MissingExtraError)
    own, expected = (one.model(mx.array([[1, 2, 3]])) for one in (model, loaded("qwen3_vl")))
    assert mx.allclose(own, expected, atol=1e-4)


def test_model_that_mlx_lm_cannot_load_requires_the_extra(
    checkpoint: Find, without_extra: None
) -> None:
    with pytest.raises(MissingExtraError) as caught:
        load_model(checkpoint("smolvlm"))
    assert caught.value.extra == "vision"
    assert "pip install 'proxy-engine[vision]'" in str(file_problem(checkpoint("smolvlm")))
    assert "pip install 'proxy-engine[vision]'" in str(caught.value)
    with pytest.raises(MissingExtraError):
        InferenceEngine(checkpoint("smolvlm"))


def test_text_model_is_loaded_if_mlx_vlm_fails(
    checkpoint: Find, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise ValueError("no such layer")

    monkeypatch.setattr("mlx_vlm.utils.load_model", fail)
    with caplog.at_level(logging.WARNING):
        model = load_model(checkpoint("gemma3"))
    assert model.processor is None
    assert "reads text only: no such layer" in caplog.text
    with pytest.raises(ModelFormatError, match="no such layer"):
        load_model(checkpoint("smolvlm"))


def test_files_without_weights_of_the_vision_tower_are_a_text_model(
    checkpoint: Find, tmp_path: Path
) -> None:
    path = tmp_path / "gemma3"
    shutil.copytree(checkpoint("gemma3"), path)
    weights = mx.load(str(path / "model.safetensors"))
    text = {name: array for name, array in weights.items() if "language_model" in name}
    mx.save_safetensors(str(path / "model.safetensors"), text, {"format": "mlx"})
    model = load_model(path)
    assert model.processor is None
    assert type(model.model).__module__.startswith("mlx_lm.")


def test_model_without_weights_for_audio_reads_images_only(
    checkpoint: Find, edited: Callable[..., Path]
) -> None:
    path = edited("gemma4", audio_config=None)
    weights = mx.load(str(path / "model.safetensors"))
    kept = {name: array for name, array in weights.items() if "audio" not in name}
    assert len(kept) < len(weights)
    mx.save_safetensors(str(path / "model.safetensors"), kept, {"format": "mlx"})
    model = load_model(path)
    assert model.processor is not None
    assert model.processor.reads == {"image"}


@pytest.mark.parametrize("model_type", ["mllama", "florence2", "diffusion_gemma"])
def test_models_of_another_kind_are_refused_by_name(
    edited: Callable[..., Path], model_type: str
) -> None:
    with pytest.raises(ModelFormatError, match=f"'{model_type}' are not supported: it"):
        load_model(edited("qwen2_vl", model_type=model_type))


def test_code_of_a_checkpoint_is_not_run(edited: Callable[..., Path]) -> None:
    path = edited("smolvlm", model_file="model.py")
    (path / "model.py").write_text("raise SystemExit('this code was run')")
    with pytest.raises(ModelFormatError, match="custom code"):
        load_model(path)


@pytest.mark.parametrize("name", ["gemma4", "qwen2_vl"])
def test_code_of_a_tokenizer_or_processor_is_not_run(
    checkpoint: Find, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    shutil.copytree(checkpoint(name), path)
    marker = tmp_path / "was_run"
    (path / "own.py").write_text(f"open({str(marker)!r}, 'w')\nclass Own:\n    pass\n")
    autos = {
        "tokenizer_config.json": {"AutoTokenizer": ["own.Own", "own.Own"]},
        "processor_config.json": {"AutoProcessor": "own.Own"},
        "preprocessor_config.json": {"AutoImageProcessor": "own.Own", "AutoProcessor": "own.Own"},
    }
    for file, auto_map in autos.items():
        known = json.loads((path / file).read_text()) if (path / file).exists() else {}
        known = {**known, "auto_map": auto_map}
        (path / file).write_text(json.dumps({**known, "tokenizer_class": "Own"}))
    with contextlib.suppress(ModelFormatError):
        load_model(path)
    assert not marker.exists()
