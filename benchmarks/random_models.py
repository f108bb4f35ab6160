"""Llamas with random weights: as much work a token as is asked for, and nothing to download."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models import llama

from proxy_engine.models.embedded import embedded_model

__all__ = ["Size", "make_random_model", "save_random_model", "size"]

_HEAD = 32


@dataclass(frozen=True)
class Size:
    """The number of layers and the hidden size, a multiple of 32."""

    layers: int
    width: int

    def __str__(self) -> str:
        return f"{self.layers}x{self.width}"


def size(text: str) -> Size:
    """Read ``LAYERSxWIDTH``."""
    try:
        layers, width = map(int, text.split("x"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"not LAYERSxWIDTH: {text!r}") from None
    if layers < 1 or width < _HEAD or width % _HEAD:
        raise argparse.ArgumentTypeError(f"the width is a multiple of {_HEAD}: {text!r}")
    return Size(layers, width)


def make_random_model(shape: Size, vocabulary_size: int, context: int = 4096) -> llama.Model:
    """Return a model of that size, in 32-bit floats on a CPU and in 16-bit ones elsewhere."""
    heads = shape.width // _HEAD
    model = llama.Model(
        llama.ModelArgs(
            model_type="llama",
            hidden_size=shape.width,
            num_hidden_layers=shape.layers,
            intermediate_size=3 * shape.width,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            rms_norm_eps=1e-5,
            vocab_size=vocabulary_size,
            max_position_embeddings=context,
            tie_word_embeddings=True,
        )
    )
    on_cpu = mx.default_device().type == mx.DeviceType.cpu
    kind = mx.float32 if on_cpu else mx.float16
    key = mx.random.key(0)
    leaves = cast("list[tuple[str, mx.array]]", tree_flatten(model.parameters()))
    weights = []
    for name, weight in leaves:
        key, own = mx.random.split(key)
        weights.append((name, (mx.random.normal(weight.shape, key=own) * 0.05).astype(kind)))
    model.load_weights(weights)
    mx.eval(model.parameters())
    return model


def save_random_model(shape: Size, directory: Path, context: int = 4096) -> None:
    """Write a random model with the embedded model's tokenizer, for ``mlx_lm.load``."""
    embedded = embedded_model()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(embedded / name, directory / name)
    facts = json.loads((embedded / "config.json").read_text(encoding="utf-8"))
    model = make_random_model(shape, facts["vocab_size"], context)
    config = {**asdict(model.args), "eos_token_id": facts["eos_token_id"]}
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    weights = dict(cast("list[tuple[str, mx.array]]", tree_flatten(model.parameters())))
    mx.save_safetensors(str(directory / "model.safetensors"), weights)
