"""Loading models, and the errors for invalid names and files."""

from __future__ import annotations

import json
import shutil
import socket
import threading
import time
from pathlib import Path
from typing import Any

import huggingface_hub
import mlx.core as mx
import pytest
from architectures import small_model
from mlx.nn.layers.base import Module

from proxy_engine import InferenceEngine, ModelFormatError, ModelNotFoundError
from proxy_engine.models.loading import LoadedModel, load_model


def test_directory_is_loaded(tiny_model_directory: Path) -> None:
    for name in (tiny_model_directory, str(tiny_model_directory)):
        loaded = load_model(name)
        assert loaded.name == str(tiny_model_directory)
        assert loaded.context_length == 512
        assert loaded.logits_width == 320


@pytest.mark.parametrize("name", ["", " ", "./missing", "/missing/model", "~/missing", "a/b/c"])
def test_misspelled_paths_do_not_query_the_hub(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlx_lm.load", lambda *_, **__: pytest.fail("the hub was asked"))
    with pytest.raises(ModelNotFoundError) as caught:
        load_model(name)
    assert caught.value.model == name
    assert "Name a directory" in str(caught.value)


def test_invalid_repo_id_is_rejected() -> None:
    with pytest.raises(ModelNotFoundError, match="no model 'not a name'"):
        load_model("not a name")


def test_unreachable_hub_is_reported_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))

    def resolve(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    began = time.monotonic()
    with pytest.raises(ModelNotFoundError, match="cannot be reached") as caught:
        load_model("org/tiny")
    assert time.monotonic() - began < 10
    for remedy in ("`hf download org/tiny`", "--local-dir", "embedded SmolLM2"):
        assert remedy in caught.value.hint
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelNotFoundError, match="Unset HF_HUB_OFFLINE"):
        load_model("org/tiny")


def test_directories_without_a_model_are_rejected(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    with pytest.raises(ModelFormatError, match=r"no config\.json"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "no-such-architecture"}')
    with pytest.raises(ModelFormatError, match="no-such-architecture"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ModelFormatError, match=r"there is no model\*\.safetensors"):
        load_model(tmp_path)
    with pytest.raises(ModelFormatError, match="is a file"):
        load_model(tiny_model_directory / "config.json")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", "{"),
        ("tokenizer.json", "{}"),
        ("tokenizer.json", "[]"),
        ("tokenizer.json", '{"version": "1.0", "added_tokens": [], "model": 5}'),
        ("tokenizer_config.json", "[]"),
        ("tokenizer_config.json", "{"),
        ("config.json", "{"),
        ("config.json", "[]"),
        ("config.json", "5"),
    ],
)
def test_damaged_file_is_named(
    tmp_path: Path, tiny_model_directory: Path, name: str, content: str
) -> None:
    shutil.copytree(tiny_model_directory, tmp_path, dirs_exist_ok=True)
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(ModelFormatError) as caught:
        load_model(tmp_path)
    assert name in str(caught.value)


def test_configuration_with_wrong_values_is_refused(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    shutil.copytree(tiny_model_directory, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    for change in ({"num_attention_heads": 0}, {"hidden_size": "x"}, {"model_type": "cache"}):
        (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
        with pytest.raises(ModelFormatError, match="cannot be loaded"):
            load_model(tmp_path)


def test_loaded_model_runs_on_another_thread(tiny_model: Any, tiny_tokenizer: Any) -> None:
    tiny_model.lazy_leaf = mx.ones((2,)) * 3
    try:
        loaded = LoadedModel.of(tiny_model, tiny_tokenizer, name="x")
        sums: list[float] = []
        thread = threading.Thread(
            target=lambda: sums.append(loaded.model.lazy_leaf.sum().item())  # type: ignore[attr-defined]
        )
        thread.start()
        thread.join()
        assert sums == [6.0]
    finally:
        del tiny_model.lazy_leaf


@pytest.mark.parametrize("architecture", ["gemma3n", "kimi_k3", "plamo3"])
def test_models_that_keep_arrays_of_their_first_pass_run(
    architecture: str, tiny_tokenizer: Any
) -> None:
    with InferenceEngine(small_model(architecture), tiny_tokenizer) as engine:
        assert len(engine.generate("a", max_tokens=3, min_tokens=3).token_ids) == 3
        assert len(engine.generate_batch(["a", "bcd"], max_tokens=2)) == 2


class Failing(Module):
    """A model that cannot be run here, as those with kernels for Metal alone."""

    layers = ()

    def __call__(self, inputs: mx.array, cache: Any = None) -> mx.array:
        raise RuntimeError("[metal_kernel] No Metal back-end.")


def test_model_that_cannot_run_raises_model_error(tiny_tokenizer: Any) -> None:
    with pytest.raises(ModelFormatError, match=r"No Metal back-end\. It requires Metal"):
        InferenceEngine(Failing(), tiny_tokenizer)


def test_weights_of_another_thread_raise_model_error(tiny_tokenizer: Any) -> None:
    made: list[mx.array] = []
    thread = threading.Thread(target=lambda: made.append(mx.ones((2,)) * 3))
    thread.start()
    thread.join()
    model = small_model("plamo3")
    model.lazy_leaf = made[0]
    with pytest.raises(ModelFormatError, match="cannot be evaluated"):
        InferenceEngine(model, tiny_tokenizer)
