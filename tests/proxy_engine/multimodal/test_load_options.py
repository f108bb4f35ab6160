"""Options of loading multimodal models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_vlm
import pytest
from adapters import write_adapter_of
from mlx_vlm.trainer import get_peft_model, save_adapter

from proxy_engine import InvalidOptionError
from proxy_engine.models.kinds import whole_model
from proxy_engine.models.load_options import LoadOptions
from proxy_engine.models.loading import LoadedModel, load_model

Load = Callable[[str], LoadedModel]
Find = Callable[[str], Path]

TOKENS = mx.array([[5, 6, 7, 8]])


def logits(path: Path, **options: Any) -> mx.array:
    model = load_model(path, options=LoadOptions(**options)).model
    result: mx.array = model(TOKENS)
    return result


def by_mlx_vlm(path: Path, adapter: Path) -> mx.array:
    model, _ = mlx_vlm.load(str(path), adapter_path=str(adapter))
    result: mx.array = model.language_model(TOKENS).logits
    return result


@pytest.mark.parametrize("name", ["qwen2_vl", "smolvlm"])
def test_adapter_of_mlx_lm_applies_to_the_language_model(
    checkpoint: Find, tmp_path: Path, name: str
) -> None:
    path = checkpoint(name)
    module = whole_model(load_model(path).model)
    adapter = write_adapter_of(tmp_path / "adapter", module, num_layers=1)
    found = logits(path, adapter_path=adapter)
    assert mx.array_equal(found, by_mlx_vlm(path, adapter))
    assert not mx.allclose(found, logits(path), atol=0.1)


@pytest.mark.parametrize("use_dora", [False, True])
def test_adapter_of_mlx_vlm_is_applied(checkpoint: Find, tmp_path: Path, use_dora: bool) -> None:
    path = checkpoint("gemma3")
    module, _ = mlx_vlm.load(str(path))
    module = get_peft_model(module, rank=2, alpha=8, verbose=False, use_dora=use_dora)
    for name, layer in module.named_modules():
        if "lora_b" in layer:
            layer.lora_b = mx.random.normal(layer.lora_b.shape, key=mx.random.key(len(name)))
    save_adapter(module, tmp_path / "adapter" / "adapters.safetensors")
    found = logits(path, adapter_path=tmp_path / "adapter")
    assert mx.allclose(found, by_mlx_vlm(path, tmp_path / "adapter"), atol=1e-5)
    assert not mx.allclose(found, logits(path), atol=0.1)


def test_model_config_does_not_apply(checkpoint: Find) -> None:
    with pytest.raises(InvalidOptionError, match="it is a multimodal model"):
        load_model(checkpoint("gemma3"), options=LoadOptions(model_config={"x": 1}))


def test_chat_template_and_end_token_are_those_given(checkpoint: Find, loaded: Load) -> None:
    template = "{% for m in messages %}<{{ m['role'] }}>{% endfor %}"
    plain = loaded("gemma3").tokenizer
    token = plain.convert_ids_to_tokens(5)
    options = LoadOptions(chat_template=template, tokenizer_config={"eos_token": token}, lazy=True)
    tokenizer = load_model(checkpoint("gemma3"), options=options).tokenizer
    messages = [{"role": "user", "content": "x"}]
    assert tokenizer.apply_chat_template(messages, tokenize=False) == "<user>"
    assert tokenizer.eos_token_ids == {*plain.eos_token_ids, 5}
