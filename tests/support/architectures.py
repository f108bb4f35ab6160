"""Small random float32 models of the architectures of mlx-lm.

Some behave unusually. ``gemma3n``, ``kimi_k3`` and ``plamo3`` keep arrays of their first pass.
``afm7`` and ``gemma2`` give wrong logits for rows of different lengths in one batch;
``gpt_bigcode`` does not take a batch.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from typing import Any

import mlx.core as mx
import mlx_lm.models
from architecture_configs import ADDITIONS, COMMON, VOCABULARY, WINDOW
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten

__all__ = [
    "ARCHITECTURES",
    "NOT_BUILT",
    "REPRESENTATIVES",
    "VOCABULARY",
    "WINDOW",
    "WRONG_WIDE_PASSES",
    "randomized",
    "small_model",
]

_NO_ARCHITECTURES = frozenset(
    [
        *("activations", "base", "bitlinear_layers", "cache", "gated_delta", "mla"),
        *("pipeline", "qk_norm_rope", "rope_utils", "ssm", "switch_layers"),
    ]
)
"""Modules without a model."""

NOT_BUILT = {
    "bitnet": "its layers are Metal kernels",
    "muse_spark": "its attention is a Metal kernel",
    "olmo": "imports a package that mlx-lm does not depend on",
    "prism_hadamard_qwen35": "its weights are packed and described by a manifest",
}
"""Architectures that cannot be built, and why."""

ARCHITECTURES = tuple(
    module.name
    for module in pkgutil.iter_modules(mlx_lm.models.__path__)
    if module.name not in _NO_ARCHITECTURES and module.name not in NOT_BUILT
)
"""The architectures that can be built."""

WRONG_WIDE_PASSES = frozenset({"phi3small", "plamo3"})
"""Architectures whose logits depend on how many tokens a pass has: ``phi3small`` adds its mask to the
scores as 0 and 1, and ``plamo3`` attends to one token more than its rotating cache keeps."""

REPRESENTATIVES = (
    *("baichuan_m1", "deepseek_v3", "deepseek_v41", "falcon_h1", "gemma3_text", "gemma3n"),
    *("jamba", "kimi_k3", "llama", "llama4", "longcat_flash_ngram", "mamba"),
    "recurrent_gemma",
)
"""Architectures that between them have every kind of cache, one or two for each."""


def small_model(architecture: str, seed: int = 0, **options: Any) -> Module:
    """Return a model as ``mlx_lm.load`` does: set to inference, its weights evaluated.

    Args:
        architecture: A module of ``mlx_lm.models``.
        seed: The same weights for the same seed.
        options: Replace options of the architecture's configuration.
    """
    module = importlib.import_module(f"mlx_lm.models.{architecture}")
    config = {**COMMON, **ADDITIONS.get(architecture, {}), **options}
    config["model_type"] = architecture
    if any(field.name == "text_config" for field in dataclasses.fields(module.ModelArgs)):
        config["text_config"] = dict(config)
    model: Module = module.Model(module.ModelArgs.from_dict(config))
    if architecture == "phi3small":
        # The model assigns to these unused tokens of its own vocabulary; bounds are not checked.
        model._dummy_tokenizer_ids = mx.array([config["vocab_size"] - 1])
    model.eval()
    return randomized(model, seed)


def randomized(model: Module, seed: int = 0) -> Module:
    """Give every weight a random value; the same ones for the same seed."""
    key = mx.random.key(seed)
    weights = []
    for name, weight in tree_flatten(model.parameters()):
        key, own = mx.random.split(key)
        weights.append((name, mx.random.normal(weight.shape, key=own) * 0.3))
    model.load_weights(weights)
    mx.eval(model.parameters())
    return model
