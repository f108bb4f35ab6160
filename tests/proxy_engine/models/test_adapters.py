"""Adapters: answers equal mlx-lm's, and adapters that do not fit are refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import pytest
from adapters import Kind, mlx_lm_answer, write_adapter
from engine_parts import core_of, on_model_thread
from mlx.utils import tree_flatten

from proxy_engine import (
    AdapterError,
    InferenceEngine,
    ModelError,
    PromptCacheMismatchError,
    RawPrompt,
)
from proxy_engine.generation.output_layer import OutputLayer
from proxy_engine.models.load_options import LoadOptions
from proxy_engine.models.loading import check_loadable, load_model

PROMPT = [72, 101, 108, 108, 111]
TOKENS = 12


def answer(model: Path, **load: Any) -> list[int]:
    with InferenceEngine(model, **load) as engine:
        result = engine.generate(RawPrompt(PROMPT), max_tokens=TOKENS)
        return [token for token in result.token_ids if token not in engine.vocabulary.end_token_ids]


@pytest.fixture
def adapter(tmp_path: Path, tiny_model_directory: Path) -> Path:
    return write_adapter(tmp_path / "adapter", tiny_model_directory)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("lora", {}),
        ("lora", {"num_layers": 1, "keys": ["self_attn.q_proj", "model.embed_tokens"]}),
        ("dora", {}),
        ("full", {"num_layers": 1}),
    ],
)
def test_answers_equal_mlx_lm(
    tmp_path: Path, tiny_model_directory: Path, kind: Kind, options: dict[str, Any]
) -> None:
    path = write_adapter(tmp_path / "adapter", tiny_model_directory, kind, **options)
    expected = mlx_lm_answer(tiny_model_directory, PROMPT, TOKENS, adapter_path=str(path))
    assert answer(tiny_model_directory, adapter_path=path) == expected
    assert expected != answer(tiny_model_directory)


@pytest.mark.parametrize("kind", ["lora", "dora"])
def test_adapter_applies_to_a_quantized_model(
    tmp_path: Path, tiny_model_directory: Path, kind: Kind
) -> None:
    quantized = tmp_path / "quantized"
    shutil.copytree(tiny_model_directory, quantized)
    model, _, config = mlx_lm.load(str(tiny_model_directory), return_config=True)
    model, config = mlx_lm.utils.quantize_model(model, config, group_size=32, bits=4)
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(quantized / "model.safetensors"), weights)
    (quantized / "config.json").write_text(json.dumps(config), encoding="utf-8")
    path = write_adapter(tmp_path / "adapter", quantized, kind)
    expected = mlx_lm_answer(quantized, PROMPT, TOKENS, adapter_path=str(path))
    assert answer(quantized, adapter_path=str(path)) == expected
    assert expected != answer(quantized)


def edit_configuration(**changes: Any) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        file = path / "adapter_config.json"
        config = json.loads(file.read_text(encoding="utf-8"))
        config["lora_parameters"] |= changes.pop("lora_parameters", {})
        file.write_text(json.dumps({**config, **changes}), encoding="utf-8")

    return edit


def edit_weights(change: Callable[[dict[str, mx.array]], None]) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        file = path / "adapters.safetensors"
        weights = dict(mx.load(str(file)))
        mx.eval(weights)
        change(weights)
        mx.save_safetensors(str(file), weights)

    return edit


def drop_one(weights: dict[str, mx.array]) -> None:
    del weights[min(weights)]


def write(name: str, text: str) -> Callable[[Path], None]:
    return lambda path: (path / name).write_text(text, encoding="utf-8") and None


SPOILED: dict[str, tuple[Callable[[Path], None], str]] = {
    "no directory": (lambda path: shutil.rmtree(path), "no such directory"),
    "no configuration": (lambda path: (path / "adapter_config.json").unlink(), r"there is no adapter_config\.json"),
    "no weights": (lambda path: (path / "adapters.safetensors").unlink(), r"there is no adapters\.safetensors"),
    "damaged configuration": (write("adapter_config.json", "{"), "not a JSON object"),
    "list as configuration": (write("adapter_config.json", "[]"), "not a JSON object"),
    "damaged weights": (write("adapters.safetensors", "x"), "damaged or incomplete"),
    "form of PEFT": (edit_configuration(peft_type="LORA"), "form of PEFT"),
    "unknown kind": (edit_configuration(fine_tune_type="ia3"), "should be 'lora' or 'dora'"),
    "no layers": (edit_configuration(num_layers=None), "num_layers should be a valid integer"),
    "scale as text": (edit_configuration(lora_parameters={"scale": "x"}), "scale should be a valid num"),
    "keys as text": (edit_configuration(lora_parameters={"keys": "q"}), "keys should be a valid list"),
    "other rank": (
        edit_configuration(lora_parameters={"rank": 3}),
        r"lora_a has the shape \(\d+, 4\) in place of \(\d+, 3\)",
    ),
    "other kind": (edit_configuration(fine_tune_type="dora"), r"lacks \d+ of the weights, such as .*\.m"),
    "fewer layers": (edit_configuration(num_layers=1), r"no parameter model\.layers\.0\."),
    "keys that match nothing": (
        edit_configuration(lora_parameters={"keys": ["no_such_layer"]}),
        "the model has no parameter",
    ),
    "layer without LoRA": (
        edit_configuration(lora_parameters={"keys": ["input_layernorm"]}),
        "Can't convert layer of type RMSNorm",
    ),
    "weight missing": (edit_weights(drop_one), r"lacks 1 of the weights, such as model\.layers\.0\.\S+\. Load"),
    "no weight at all": (edit_weights(lambda weights: weights.clear()), r"adapters\.safetensors lacks"),
    "foreign weight": (
        edit_weights(lambda weights: weights.update({"model.norm.weight": mx.ones((32,))})),
        r"no parameter model\.norm\.weight",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILED)
def test_adapter_that_does_not_fit_is_refused(
    name: str, adapter: Path, tiny_model_directory: Path
) -> None:
    spoil, reason = SPOILED[name]
    spoil(adapter)
    options = LoadOptions(adapter_path=adapter)
    with pytest.raises(AdapterError, match=reason) as caught:
        load_model(tiny_model_directory, options=options)
    assert caught.value.adapter == str(adapter)
    assert str(adapter) in str(caught.value)
    assert caught.value.model == str(tiny_model_directory)
    with pytest.raises(AdapterError, match=reason):
        check_loadable(tiny_model_directory, "tiny", options)


def test_adapter_of_another_model_is_refused(
    tmp_path: Path, adapter: Path, tiny_model_directory: Path
) -> None:
    narrow = tmp_path / "narrow"
    shutil.copytree(tiny_model_directory, narrow)
    config = json.loads((narrow / "config.json").read_text(encoding="utf-8"))
    config |= {"num_hidden_layers": 1, "intermediate_size": 32}
    (narrow / "config.json").write_text(json.dumps(config), encoding="utf-8")
    weights = {
        name: weight[:32] if "gate" in name or "up_proj" in name else weight
        for name, weight in mx.load(str(narrow / "model.safetensors")).items()
        if "layers.1" not in name
    }
    weights |= {name: w[:, :32] for name, w in weights.items() if "down_proj" in name}
    mx.save_safetensors(str(narrow / "model.safetensors"), weights)
    load_model(narrow)
    with pytest.raises(AdapterError, match="Load the model that the adapter was trained with"):
        InferenceEngine(narrow, adapter_path=adapter)


def test_adapter_is_checked_before_the_model_is_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        InferenceEngine("no-such/model", adapter_path=tmp_path)
    assert isinstance(caught.value, AdapterError)


def test_model_with_an_adapter_can_be_checked_without_reading_weights(
    adapter: Path, tiny_model_directory: Path
) -> None:
    loaded = check_loadable(tiny_model_directory, "tiny", LoadOptions(adapter_path=adapter))
    assert loaded.logits_width == 320


@pytest.mark.parametrize(("keys", "expected"), [(None, True), (["model.embed_tokens"], False)])
def test_adapter_of_the_output_layer_is_part_of_every_logit(
    tmp_path: Path, tiny_model_directory: Path, keys: list[str] | None, expected: bool
) -> None:
    path = write_adapter(tmp_path / "adapter", tiny_model_directory, keys=keys)
    with InferenceEngine(tiny_model_directory, adapter_path=path) as engine:
        # The weight alone, whose rows are read for some tokens, lacks the adapter.
        layer = on_model_thread(engine, lambda: OutputLayer.of(core_of(engine).loaded.model))
    assert (layer is not None) is expected


def test_saved_prompt_cache_belongs_to_an_adapter(
    tmp_path: Path, adapter: Path, tiny_model_directory: Path
) -> None:
    other = write_adapter(tmp_path / "other", tiny_model_directory, seed=2)
    file = tmp_path / "cache.safetensors"
    with InferenceEngine(tiny_model_directory, adapter_path=adapter) as engine:
        engine.save_prompt_cache(file, "Hello")
        assert engine.load_prompt_cache(file) > 0
    for load in ({}, {"adapter_path": other}):
        with (
            InferenceEngine(tiny_model_directory, **load) as engine,  # type: ignore[arg-type]
            pytest.raises(PromptCacheMismatchError, match="adapter" if not load else "weights"),
        ):
            engine.load_prompt_cache(file)
