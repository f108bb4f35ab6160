"""The size of a language model, from its layers and its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlx.nn.layers.base import Module

_TEXT_KEYS = ("text_config", "llm_config", "language_config")
_LAYER_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_WIDTH_KEYS = ("hidden_size", "n_embd", "d_model", "model_dim", "dim", "hidden_dim")


def num_layers(model: Module, config: Mapping[str, Any]) -> int | None:
    """Return the number of layers; ``None`` if neither model nor configuration has it."""
    layers = getattr(model, "layers", None)
    return len(layers) if isinstance(layers, list | tuple) else _stated(config, _LAYER_KEYS)


def hidden_size(config: Mapping[str, Any]) -> int | None:
    """Return the width of the hidden states; ``None`` if the configuration does not state it."""
    return _stated(config, _WIDTH_KEYS)


def _stated(config: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    nested = (config.get(key) for key in _TEXT_KEYS)
    # Beside the configuration of the text model, the same key can be that of an image encoder.
    for source in [*(inner for inner in nested if isinstance(inner, Mapping)), config]:
        for key in keys:
            value = source.get(key)
            if isinstance(value, int) and value > 0:
                return value
    return None
