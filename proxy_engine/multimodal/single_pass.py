"""Prompts that a model processes in one pass, because tokens attend to later ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.nn.layers.base import Module

from .media_tokens import Ids


def single_pass_end(
    model: Module, token_ids: Ids, arrays: Mapping[str, Any], media_end: int
) -> int:
    """Return the number of leading tokens that a model processes in one pass only.

    The models of mlx-vlm state whether a prompt can be split, by a method or an attribute.

    Args:
        model: mlx-vlm's model.
        token_ids: The prompt.
        arrays: The processor's other outputs than token ids.
        media_end: End of the last medium.
    """
    parts = [model, model.language_model]
    policies = [getattr(part, "chunked_prefill_policy", None) for part in parts]
    policy = next(filter(callable, policies), None)
    if policy is not None:
        numbers = {
            name: mx.array(value)
            for name, value in arrays.items()
            if isinstance(value, np.ndarray) and np.issubdtype(value.dtype, np.integer)
        }
        allowed = policy(input_ids=mx.array(token_ids)[None], prefill_kwargs=numbers)
        can_split = bool(getattr(allowed, "enabled", allowed))
    else:
        can_split = not any(getattr(part, "no_chunked_prefill", False) for part in parts)
    if can_split:
        return 0
    configuration = getattr(model.language_model, "config", None)
    if getattr(configuration, "use_bidirectional_attention", None) == "vision":
        # Tokens attend to later ones within an image only.
        return media_end
    return len(token_ids)
