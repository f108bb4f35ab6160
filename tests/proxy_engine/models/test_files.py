"""Problems in a model's files, found without loading them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlx.nn.layers.base import Module
from tiny_whisper import write_tiny_whisper
from vision_families import FAMILIES
from vision_models import vision_checkpoint

from proxy_engine import ModelFormatError, UnsupportedArchitectureError
from proxy_engine.models import files
from proxy_engine.models.files import (
    FileProblem,
    context_length,
    file_problem,
    hidden_size,
    input_modalities,
    num_layers,
)
from proxy_engine.models.loading import check_loadable, load_model


@pytest.fixture
def directory(tmp_path: Path, tiny_model_directory: Path) -> Path:
    return shutil.copytree(tiny_model_directory, tmp_path / "model")


def test_valid_model_has_no_problem(directory: Path) -> None:
    assert file_problem(directory) is None
    check_loadable(directory, "tiny")
    # An outdated index is harmless: mlx-lm reads all files that are there.
    (directory / "model.safetensors.index.json").write_text("{", encoding="utf-8")
    assert file_problem(directory) is None
    check_loadable(directory, "tiny")


def test_missing_shard_is_named(directory: Path) -> None:
    whole = directory / "model.safetensors"
    whole.rename(directory / "model-00002-of-00003.safetensors")
    assert file_problem(directory) == FileProblem("model-00001-of-00003.safetensors is missing")


def test_weights_of_a_speech_model_have_any_name(tmp_path: Path) -> None:
    for number, name in enumerate(("weights.npz", "weights.safetensors")):
        speech = write_tiny_whisper(tmp_path / str(number), weights_file=name)
        assert file_problem(speech) is None
        path = speech / name
        path.write_bytes(path.read_bytes()[:-100])
        assert file_problem(speech) == FileProblem(f"{name} is damaged or incomplete")
        path.unlink()
        assert "*.npz" in str(file_problem(speech))


def test_weights_of_a_model_that_reads_images_have_any_name(vision_directory: Path) -> None:
    whole = vision_directory / "model.safetensors"
    whole.rename(vision_directory / "weights.safetensors")
    assert file_problem(vision_directory) is None
    check_loadable(vision_directory, "tiny")
    assert load_model(vision_directory).processor is not None


def test_architecture_without_a_model_is_unsupported(directory: Path) -> None:
    # `base` is a module of mlx-lm's, but no architecture; `olmo` lacks a dependency.
    for name, is_unsupported in (("base", True), ("no-such", True), ("olmo", False)):
        problem = file_problem(configured(directory, model_type=name))
        assert problem is not None
        assert problem.is_unsupported is is_unsupported
        assert type(problem.error("tiny")) is (
            UnsupportedArchitectureError if is_unsupported else ModelFormatError
        )
        if is_unsupported:
            with pytest.raises(UnsupportedArchitectureError, match=f"no architecture '{name}'"):
                load_model(directory)


def header(text: bytes, size: int = 100) -> Callable[[bytes], bytes]:
    return lambda whole: len(text).to_bytes(8, "little") + text + bytes(size)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda whole: b"",
        lambda whole: whole[:7],
        lambda whole: whole[:-1],
        lambda whole: whole[: len(whole) // 2],
        lambda whole: (1 << 63).to_bytes(8, "little") + whole[8:],
        header(b"{"),
        header(b"[]"),
        header(b"[" * 50_000),
        header(b'{"a": 1}'),
        header(b'{"a": {"data_offsets": [0]}}'),
        header(b'{"a": {"data_offsets": [0, "x"]}}'),
        header(b'{"a": {"data_offsets": [0, 101]}}'),
    ],
)
def test_damaged_weights_are_found(directory: Path, spoil: Callable[[bytes], bytes]) -> None:
    path = directory / "model.safetensors"
    path.write_bytes(spoil(path.read_bytes()))
    assert file_problem(directory) == FileProblem("model.safetensors is damaged or incomplete")
    with pytest.raises(ModelFormatError, match=r"model\.safetensors is damaged"):
        check_loadable(directory, "tiny")


@pytest.mark.parametrize("model_type", [None, 5, "", "../llama", "llama.Model", "a b", "no-such"])
def test_unknown_architecture_is_a_problem(directory: Path, model_type: object) -> None:
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    config["model_type"] = model_type
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert file_problem(directory) is not None


def test_architecture_names_follow_mlx_lm(directory: Path) -> None:
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    for known in ("mistral", "lfm2-vl", "kimi_k2"):
        (directory / "config.json").write_text(json.dumps({**config, "model_type": known}))
        assert file_problem(directory) is None


@pytest.fixture
def vision_directory(tmp_path: Path) -> Path:
    return vision_checkpoint("qwen2_vl", tmp_path / "vision")


def configured(directory: Path, **changes: Any) -> Path:
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}), encoding="utf-8")
    return directory


# Facts about models, by their configurations.


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
