"""A prompt on its way into the model, some of its tokens a pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module

from ..models.dense import has_fast_blas
from .sequence_state import SequenceState

__all__ = ["MOST_WITH_LOGITS", "Prefill", "prefill_step_size"]

# A forward pass cannot be interrupted, so its length is how long a cancelled request lingers.
_STEP_ON_GPU = 512
_STEP_ON_CPU = 16
_STEP_WITH_FAST_BLAS = 128

MOST_WITH_LOGITS = 32
"""Tokens of a last pass that have logits computed for all of them, of which one is wanted. Of more,
that takes longer than a pass of its own for the last token."""


@dataclass(slots=True)
class Prefill:
    """The passes over one row's prompt, and over what must come first behind it.

    ``cache`` is the model's, the row's own, and is filled; it has read ``read`` tokens of the
    prompt already. ``quantize`` is called with it after every pass. ``checkpoints`` are called
    when so many tokens of the prompt have been read.
    """

    row: SequenceState
    model: Module
    cache: list[Any]
    step_size: int
    read: int = 0
    quantize: Callable[[list[Any]], None] | None = None
    checkpoints: Mapping[int, Callable[[], None]] = field(default_factory=dict)

    @property
    def left(self) -> int:
        """How many tokens are left to be read."""
        return len(self.row.tokens) - self.read

    def next_pass(self) -> bool:
        """Read some more; returns whether that was all.

        The last pass, which has the prompt's last token in it and what the row has ``pending``,
        leaves the row's ``logits``, and is only begun: a mask can be made while it runs. The
        others are waited for.
        """
        started = time.perf_counter()
        row, start = self.row, self.read
        tokens = row.tokens
        last = row.prompt_tokens - 1
        stops = [length for length in self.checkpoints if start < length <= last]
        end = min([start + self.step_size, *stops])
        is_last = end > last
        if is_last:
            end = len(tokens)
        if is_last and last - start > MOST_WITH_LOGITS:
            # Where only the cache is asked for, logits are not computed.
            self._forward(tokens[start:last])
            start = last
        logits = self._forward(tokens[start:end])
        if is_last:
            row.logits = logits[:, -1, :]
            row.pending.clear()
            mx.async_eval(row.logits)
        else:
            mx.eval([layer.state for layer in self.cache])
        mx.clear_cache()
        self.read = end
        if not is_last and end in self.checkpoints:
            self.checkpoints[end]()
        row.timings.add("prompt", started, time.perf_counter())
        return is_last

    def _forward(self, token_ids: list[int]) -> mx.array:
        logits: mx.array = self.model(mx.array(token_ids)[None], cache=self.cache)
        if self.quantize is not None:
            self.quantize(self.cache)
        return logits


def prefill_step_size() -> int:
    """How many tokens of a prompt are read a pass, unless a request says otherwise."""
    if mx.default_device().type == mx.DeviceType.gpu:
        return _STEP_ON_GPU
    return _STEP_WITH_FAST_BLAS if has_fast_blas() else _STEP_ON_CPU
