"""The form of the weights on a CPU."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest
from mlx import nn
from mlx.utils import tree_flatten
from tiny_models import make_tiny_model

from proxy_engine.models.loading import load_model
from proxy_engine.runtime import blas

pytestmark = pytest.mark.skipif(mx.default_device().type != mx.DeviceType.cpu, reason="needs a CPU")


def half_precision_model() -> nn.Module:
    """A model with quantized layers, 16-bit ones and a private 16-bit array."""
    model: nn.Module = make_tiny_model()
    nn.quantize(
        model, group_size=32, bits=4, class_predicate=lambda path, _: path.endswith("q_proj")
    )
    model.set_dtype(mx.bfloat16)
    model["_mask"] = mx.zeros((2, 2), mx.float16)
    return model


def arrays(model: nn.Module) -> dict[str, mx.array]:
    return {name: value for name, value in tree_flatten(model) if isinstance(value, mx.array)}


def test_sixteen_bits_become_float32_and_quantized_weights_stay() -> None:
    model = half_precision_model()
    before = arrays(model)
    blas.widen_on_cpu(model, "model")
    after = arrays(model)
    assert {array.dtype for array in after.values()} == {mx.float32, mx.uint32}
    assert model["_mask"].dtype == mx.float32
    for name, array in before.items():
        assert mx.array_equal(after[name], array).item(), name
    assert mx.isfinite(model(mx.array([[1, 2, 3]]))).all().item()


def test_model_that_would_not_fit_into_memory_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = half_precision_model()
    monkeypatch.setattr(blas, "_MEMORY_SHARE", 0)
    blas.widen_on_cpu(model, "large")
    assert model["_mask"].dtype == mx.float16
    assert "'large' computes in 16 bits" in caplog.text


def test_loaded_model_computes_in_float32(tiny_model_directory: Path, tmp_path: Path) -> None:
    for file in tiny_model_directory.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = mx.load(str(tiny_model_directory / "model.safetensors"))
    assert isinstance(weights, dict)
    half = {name: array.astype(mx.float16) for name, array in weights.items()}
    mx.save_safetensors(str(tmp_path / "model.safetensors"), half)
    assert load_model(tmp_path).model(mx.array([[1]])).dtype == mx.float32
