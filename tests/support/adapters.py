"""Adapters of tiny models, in the form that ``mlx_lm.lora`` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import mlx.core as mx
import mlx_lm
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten
from mlx_lm.tuner.utils import linear_to_lora_layers

__all__ = ["Kind", "mlx_lm_answer", "write_adapter", "write_adapter_of"]

Kind = Literal["lora", "dora", "full"]
RANK = 4


def write_adapter(
    directory: Path, model: Path, kind: Kind = "lora", *, seed: int = 1, **options: Any
) -> Path:
    """Write an adapter with random weights, large enough to change answers; return its directory.

    Args:
        directory: Where to write it.
        model: The directory of the model.
        kind: What was trained.
        seed: Of the weights.
        options: As for ``write_adapter_of``.
    """
    module = mlx_lm.load(str(model))[0]
    return write_adapter_of(directory, module, kind, seed=seed, **options)


def write_adapter_of(
    directory: Path,
    module: Module,
    kind: Kind = "lora",
    *,
    seed: int = 1,
    num_layers: int = 2,
    keys: Sequence[str] | None = None,
    rank: int = RANK,
) -> Path:
    """``write_adapter`` of a model in memory, which is changed."""
    parameters: Mapping[str, Any] = {"rank": rank, "scale": 20.0, "dropout": 0.1}
    if keys is not None:
        parameters = {**parameters, "keys": list(keys)}
    module.freeze()
    if kind == "full":
        for layer in module.layers[-num_layers:]:
            layer.unfreeze()
    else:
        linear_to_lora_layers(module, num_layers, dict(parameters), use_dora=kind == "dora")
    trained = dict(tree_flatten(module.trainable_parameters()))
    key = mx.random.key(seed)
    weights = {}
    for name, value in sorted(trained.items()):
        key, own = mx.random.split(key)
        noise = mx.random.normal(value.shape, key=own) * 0.3
        weights[name] = value + noise.astype(value.dtype)
    directory.mkdir(parents=True)
    mx.save_safetensors(str(directory / "adapters.safetensors"), weights)
    config = {"fine_tune_type": kind, "num_layers": num_layers, "lora_parameters": parameters}
    (directory / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
    return directory


def mlx_lm_answer(model: Path, prompt: Sequence[int], tokens: int, **options: Any) -> list[int]:
    """Return the token ids of mlx-lm's own greedy answer, without end tokens.

    Args:
        model: The directory of the model.
        prompt: Token ids.
        tokens: The maximum number of tokens.
        options: As for ``mlx_lm.load``.
    """
    module, tokenizer = mlx_lm.load(str(model), **options)[:2]
    known = len(tokenizer)

    def without_padding(_: mx.array, logits: mx.array) -> mx.array:
        return mx.where(mx.arange(logits.shape[-1]) < known, logits, -mx.inf)

    steps = mlx_lm.stream_generate(
        module, tokenizer, list(prompt), max_tokens=tokens, logits_processors=[without_padding]
    )
    return [step.token for step in steps if step.token not in tokenizer.eos_token_ids]
