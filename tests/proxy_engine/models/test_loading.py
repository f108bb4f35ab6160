"""What can be named as a model, and what is said of what cannot."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from proxy_engine import ModelFormatError, ModelNotFoundError
from proxy_engine.models import dense
from proxy_engine.models.loading import LoadedModel, context_length, load_model, logits_width


def test_a_directory(tiny_model_directory: Path) -> None:
    for name in (tiny_model_directory, str(tiny_model_directory)):
        loaded = load_model(name)
        assert loaded.name == str(tiny_model_directory)
        assert loaded.context_length == 512
        assert loaded.logits_width == 320


@pytest.mark.parametrize("name", ["", " ", "./missing", "/missing/model", "~/missing", "a/b/c"])
def test_what_can_only_be_a_path_is_not_asked_of_the_hub(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlx_lm.load", lambda *_, **__: pytest.fail("the hub was asked"))
    with pytest.raises(ModelNotFoundError) as caught:
        load_model(name)
    assert caught.value.model == name
    assert "Name a directory" in str(caught.value)


def test_a_name_the_hub_does_not_take() -> None:
    with pytest.raises(ModelNotFoundError, match="no model 'not a name'"):
        load_model("not a name")


def test_files_that_are_no_model(tmp_path: Path, tiny_model_directory: Path) -> None:
    with pytest.raises(ModelFormatError, match=r"no config\.json"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelFormatError, match="not JSON"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "no-such-architecture"}')
    with pytest.raises(ModelFormatError, match="safetensors"):
        load_model(tmp_path)
    mx.save_safetensors(str(tmp_path / "model.safetensors"), {"x": mx.zeros((1,))})
    with pytest.raises(ModelFormatError, match="no-such-architecture"):
        load_model(tmp_path)
    with pytest.raises(ModelFormatError, match="is a file"):
        load_model(tiny_model_directory / "config.json")


def test_context_length_is_found_where_models_keep_it() -> None:
    assert context_length({"max_position_embeddings": 7}) == 7
    assert context_length({"text_config": {"max_position_embeddings": 8}}) == 8
    assert context_length({"n_positions": 9}) == 9
    assert context_length({"max_position_embeddings": None}) is None
    assert context_length({}) is None


def test_a_loaded_model_runs_on_another_thread(tiny_model: Any, tiny_tokenizer: Any) -> None:
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


def test_unpacked_weights_compute_the_same(tiny_model_directory: Path) -> None:
    from mlx import nn  # noqa: PLC0415

    model = load_model(tiny_model_directory).model
    nn.quantize(model, group_size=32, bits=4)
    packed = model(mx.array([[1, 2, 3]]))
    mx.eval(packed)
    unpacked = dense.unpacked(model)(mx.array([[1, 2, 3]]))
    assert mx.allclose(packed, unpacked, atol=1e-4).item()
    assert logits_width(model) == 320
