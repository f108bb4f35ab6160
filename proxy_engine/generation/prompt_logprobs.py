"""Log-probabilities of the tokens of a prompt, as the model itself would have written them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.nn.layers.base import Module

from ..results.parts import Logprob, TokenLogprobs
from .forward_pass import run_model

PASS_TOKENS = 128
"""Tokens of a forward pass. All of its logits are in memory together."""


def following_logprobs(
    model: Module,
    cache: list[Any],
    tokens: Sequence[int],
    following: Sequence[int],
    top: int,
) -> list[TokenLogprobs]:
    """Run a pass over tokens, and return the log-probabilities of the tokens behind them.

    Args:
        model: The model. To be called on its thread.
        cache: The cache of the tokens before, which is updated.
        tokens: The tokens of the pass.
        following: The token behind each of them, at most as many.
        top: The number of most likely tokens at each position.
    """
    logits = run_model(model, mx.array([*tokens])[None], cache, {})[0, : len(following)]
    logits = logits.astype(mx.float32)
    logprobs = logits - mx.logsumexp(logits, axis=1, keepdims=True)
    ids = mx.argsort(-logits, axis=1)[:, :top]
    # In the first column, the token itself.
    ids = mx.concatenate([mx.array([*following])[:, None], ids.astype(mx.int32)], axis=1)
    likely = mx.take_along_axis(logprobs, ids, axis=1)
    mx.eval(ids, likely, [layer.state for layer in cache])
    rows = zip(np.array(ids).tolist(), np.array(likely).tolist(), strict=True)
    found = [[*map(_logprob, *row)] for row in rows]
    return [TokenLogprobs(chosen, tuple(others)) for chosen, *others in found]


def _logprob(token_id: int, number: float) -> Logprob:
    # Nothing is masked.
    return Logprob(token_id, number, number)
