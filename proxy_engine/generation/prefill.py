"""Prefill: the forward passes over a prompt."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module

from ..conversation.encoded_prompt import PromptInputs
from ..runtime.blas import has_fast_blas
from .cache_layers import trim
from .forward_pass import ForwardPass, PassOutput, position_arguments
from .sequence_state import SequenceState
from .wired_memory import clear_cache

# A forward pass cannot be interrupted, so the step size bounds how late a cancellation takes
# effect.
_STEP_ON_GPU = 512
_STEP_ON_CPU = 16
_STEP_WITH_FAST_BLAS = 128

MAX_TOKENS_WITH_LOGITS = 32
"""Longest last pass that computes logits for all of its tokens. For a longer one, a separate pass
over the last token is faster, since only its logits are needed. Logits that are computed on demand
need no separate pass."""


@dataclass(slots=True)
class Prefill:
    """The prefill of one sequence: its prompt, and fast-forward tokens that follow the prompt.

    Attributes:
        sequence: The sequence whose tokens are read.
        model: The model, or its forward passes.
        cache: The sequence's own prompt cache. It holds the first ``processed`` tokens.
        step_size: Tokens of one forward pass.
        processed: Tokens that the cache holds.
        quantize: Called with the cache after every pass.
        checkpoints: Called when the given number of prompt tokens has been processed.
        inputs: Other inputs of the model than tokens.
        forward: The model's forward passes.
    """

    sequence: SequenceState
    model: Module | ForwardPass
    cache: list[Any]
    step_size: int
    processed: int = 0
    quantize: Callable[[list[Any]], None] | None = None
    checkpoints: Mapping[int, Callable[[], None]] = field(default_factory=dict)
    inputs: PromptInputs | None = None
    forward: ForwardPass = field(init=False)
    _is_prepared: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.forward = ForwardPass.of(self.model)

    @property
    def left(self) -> int:
        """Tokens that have not been processed."""
        return len(self.sequence.tokens) - self.processed

    def next_pass(self) -> bool:
        """Run the next forward pass.

        The last pass sets the sequence's ``logits``. It is only dispatched, so that the mask can be
        computed meanwhile; earlier passes are waited for.

        Returns:
            Whether this was the last pass.
        """
        started = time.perf_counter()
        self._prepare()
        sequence, start = self.sequence, self.processed
        tokens = sequence.tokens
        last = sequence.prompt_tokens - 1
        end = self._end_of_pass()
        is_last = end > last
        if is_last:
            end = len(tokens)
        computes_all = sequence.weights is not None or not self.forward.computes_logits_on_demand
        if is_last and computes_all and last - start > MAX_TOKENS_WITH_LOGITS:
            # Lazy evaluation: logits that are not used are not computed.
            self._forward_up_to(start, last)
            start = last
        if is_last and end > sequence.prompt_tokens and self._has_media(start):
            # The forced tokens are no part of the prompt, whose inputs are known.
            self._forward_up_to(start, last)
            start = last
        output = self._forward(start, end)
        if is_last:
            if self.inputs is not None:
                self.inputs.release()
            sequence.logits = output.at(0, end - start - 1)
            sequence.pending.clear()
            if sequence.weights is not None:
                sequence.weigh_forced(output.logits[0], {})
            mx.async_eval(output.inputs)
        else:
            mx.eval([layer.state for layer in self.cache])
        clear_cache()
        self.processed = end
        if not is_last and end in self.checkpoints:
            self.checkpoints[end]()
        sequence.timings.add("prompt", started, time.perf_counter())
        return is_last

    def _prepare(self) -> None:
        if self.inputs is not None and not self._is_prepared:
            self.inputs.prepare(self.cache, self.processed)
            self.sequence.rope_delta = self.inputs.rope_delta
            self._is_prepared = True

    def _end_of_pass(self) -> int:
        """Return where the next pass ends, within the prompt."""
        start = self.processed
        stops = [length for length in self.checkpoints if start < length]
        single = 0 if self.inputs is None else self.inputs.single_pass_end
        if start < single:
            return max(single, min([start + self.step_size, *stops]))
        return min([start + self.step_size, *stops])

    def _has_media(self, start: int) -> bool:
        return self.inputs is not None and start < self.inputs.media_end

    def _forward_up_to(self, start: int, last: int) -> None:
        """Process the tokens before the prompt's last one.

        If earlier tokens attend to the last one, it is in the pass, and then removed from the cache
        again. It attends to all of them, so a separate pass gives the same result.
        """
        if self.inputs is not None and start < self.inputs.single_pass_end > last:
            self._forward(start, last + 1)
            trim(self.cache, 1)
        else:
            self._forward(start, last)

    def _forward(self, start: int, end: int) -> PassOutput:
        tokens = mx.array(self.sequence.tokens[start:end])[None]
        arguments: Mapping[str, Any] = position_arguments([self.sequence.rope_delta])
        if self.inputs is not None and self._has_media(start):
            arguments = self.inputs.arguments(start, end)
        output = self.forward(tokens, self.cache, **arguments)
        if self.quantize is not None:
            self.quantize(self.cache)
        return output


def default_prefill_step_size() -> int:
    """Return the default number of prompt tokens per forward pass on this device."""
    if mx.default_device().type == mx.DeviceType.gpu:
        return _STEP_ON_GPU
    return _STEP_WITH_FAST_BLAS if has_fast_blas() else _STEP_ON_CPU
