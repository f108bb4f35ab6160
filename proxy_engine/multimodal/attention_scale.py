"""Attention scales that depend on the position, for batches whose rows have different lengths.

Mistral 3 and 4 multiply queries by a scale that grows with the position (from Llama 4). mlx-vlm's
models compute it for the positions of the first row and apply it to all rows.
"""

from __future__ import annotations

import inspect
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module


def scale_each_row(language_model: Module) -> None:
    """Scale the queries of each row of a batch by the row's own positions, in models that scale.

    Args:
        language_model: mlx-vlm's language model.
    """
    config = getattr(language_model, "config", None)
    parameters = getattr(config, "rope_parameters", None) or {}
    if "llama_4_scaling_beta" not in parameters:
        return
    for layer in language_model.layers:
        attention = layer.self_attn
        if "attn_scale" in inspect.signature(type(attention).__call__).parameters:
            layer.self_attn = _ScaledByRow(
                attention,
                parameters["llama_4_scaling_beta"],
                parameters["original_max_position_embeddings"],
            )


class _ScaledByRow(Module):
    """An attention layer that gets the scale of each row.

    Args:
        attention: The layer, called with the scale as its second argument.
        beta: Factor of the logarithm in the scale.
        period: Number of positions with the same scale.
    """

    def __init__(self, attention: Module, beta: float, period: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.attention = attention
        self._beta = beta
        self._period = period

    def __call__(
        self, x: mx.array, attn_scale: mx.array, mask: Any = None, cache: Any = None
    ) -> Any:
        offset = getattr(cache, "offset", None)
        if isinstance(offset, mx.array) and offset.size > 1:
            positions = offset.reshape(-1, 1) + mx.arange(x.shape[1])
            scale = 1 + self._beta * mx.log(1 + mx.floor(positions / self._period))
            attn_scale = scale[:, None, :, None].astype(x.dtype)
        return self.attention(x, attn_scale, mask, cache)
