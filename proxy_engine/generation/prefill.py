"""Prefill: the forward passes over a prompt, or over several short prompts together.

A pass over few tokens reads all weights and therefore takes nearly as long as a pass over many.
Prompts that need a single pass each are padded on the right and processed together, as mlx-lm's
``prefill_batch_size`` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from ..conversation.prompts import PromptInputs
from ..runtime.blas import has_fast_blas
from ..runtime.device_memory import clear_cache
from .cache_layers import drop_padding, merge, padded_tokens, right_padded, trim
from .forward_pass import ForwardPass, NextLogits, PassOutput, position_arguments
from .sequence import GeneratedSequence

# A forward pass cannot be interrupted, so the step size bounds how late a cancellation takes
# effect.
_STEP_ON_GPU = 512
_STEP_ON_CPU = 16
_STEP_WITH_FAST_BLAS = 128

_JOINT_STEPS_ON_GPU = 4
_MAX_PADDED_RATIO = 1.5
"""Tokens with padding over tokens without, up to which a joint pass is worthwhile."""

MAX_TOKENS_WITH_LOGITS = 32
"""Longest last pass that computes logits for all of its tokens. For a longer one, a separate pass
over the last token is faster, since only its logits are needed. Logits that are computed on demand
need no separate pass."""


@dataclass(slots=True)
class Prefill:
    """The prefill of one sequence: its prompt, and fast-forward tokens that follow the prompt.

    Attributes:
        sequence: The sequence whose tokens are read. Its ``processed`` tokens are in the cache.
        forward: The model's forward passes.
        cache: The sequence's own prompt cache.
        step_size: Tokens of one forward pass.
        quantize: Called with the cache after every pass.
        checkpoints: Called when the given number of prompt tokens has been processed.
        inputs: Other inputs of the model than tokens.
        observe: Called with the hidden states of each pass, and where its tokens end; see
            :meth:`ModelDrafter.observe`.
    """

    sequence: GeneratedSequence
    forward: ForwardPass
    cache: list[Any]
    step_size: int
    quantize: Callable[[list[Any]], None] | None = None
    checkpoints: Mapping[int, Callable[[], None]] = field(default_factory=dict)
    inputs: PromptInputs | None = None
    observe: Callable[[GeneratedSequence, mx.array, int], None] | None = None
    _is_prepared: bool = field(init=False, default=False)

    @property
    def left(self) -> int:
        """Tokens that have not been processed."""
        return len(self.sequence.tokens) - self.sequence.processed

    def next_pass(self) -> bool:
        """Run the next forward pass.

        The last pass sets the sequence's ``logits``. It is only dispatched, so that the mask can be
        computed meanwhile; earlier passes are waited for.

        Returns:
            Whether this was the last pass.
        """
        started = time.perf_counter()
        self._prepare()
        sequence, start = self.sequence, self.sequence.processed
        tokens = sequence.tokens
        last = sequence.prompt_tokens - 1
        end = self._end_of_pass()
        is_last = end > last
        if is_last:
            end = len(tokens)
        # Lazy evaluation: logits that are not used are not computed.
        computes_all = self.forward.split_output_layer() is None
        saves_logits = computes_all and last - start > MAX_TOKENS_WITH_LOGITS
        # Forced tokens are no part of the prompt, whose inputs are known.
        has_other_inputs = end > sequence.prompt_tokens and self._has_media(start)
        if is_last and (saves_logits or has_other_inputs):
            self._forward_up_to(start, last)
            start = last
        output = self._forward(start, end)
        if is_last:
            if self.inputs is not None:
                self.inputs.release()
            self.set_logits(output.at(0, end - start - 1))
            mx.async_eval(output.inputs)
        else:
            mx.eval([layer.state for layer in self.cache])
        clear_cache()
        sequence.processed = end
        if not is_last and end in self.checkpoints:
            self.checkpoints[end]()
        sequence.timings.add("prompt", started, time.perf_counter())
        return is_last

    def set_logits(self, logits: NextLogits) -> None:
        """Give the sequence the logits behind its last token, which ends the prefill."""
        self.sequence.logits = logits
        self.sequence.processed = len(self.sequence.tokens)

    def _prepare(self) -> None:
        if self.inputs is not None and not self._is_prepared:
            self.inputs.prepare(self.cache, self.sequence.processed)
            self.sequence.rope_delta = self.inputs.rope_delta
            self._is_prepared = True

    def _end_of_pass(self) -> int:
        """Return where the next pass ends, within the prompt."""
        start = self.sequence.processed
        end = min([start + self.step_size, *(stop for stop in self.checkpoints if start < stop)])
        single = 0 if self.inputs is None else self.inputs.single_pass_end
        return max(single, end) if start < single else end

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
        if self.observe is not None:
            self.observe(self.sequence, output.states(0, end - start), end)
        return output


def default_prefill_step_size() -> int:
    """Return the default number of prompt tokens per forward pass on this device."""
    if mx.default_device().type == mx.DeviceType.gpu:
        return _STEP_ON_GPU
    return _STEP_WITH_FAST_BLAS if has_fast_blas() else _STEP_ON_CPU


def can_join_prefill(prefill: Prefill) -> bool:
    """Whether the rest of a prompt fits one pass and its cache supports padding."""
    return (
        prefill.left <= prefill.step_size
        and prefill.inputs is None
        and prefill.quantize is None
        and not any(prefill.sequence.processed < length for length in prefill.checkpoints)
        and all(type(layer) is KVCache for layer in prefill.cache)
    )


def is_joint_prefill_worthwhile(lengths: Sequence[int], max_tokens: int) -> bool:
    """Whether prompts of such lengths should share a pass.

    Args:
        lengths: Tokens of each prompt that have to be processed.
        max_tokens: Bound on the tokens of the pass, padding included.
    """
    padded = len(lengths) * max(lengths)
    return padded <= max_tokens and padded <= _MAX_PADDED_RATIO * sum(lengths)


def joint_prefill_tokens(step_size: int, *, others_wait: bool) -> int:
    """Return the maximum number of tokens, with padding, of a pass over several prompts.

    On a GPU that is several steps, unless generating sequences wait for the pass. MLX's own CPU
    kernels take time in proportion to the tokens, so there it is 0.
    """
    if mx.default_device().type == mx.DeviceType.gpu:
        return step_size if others_wait else step_size * _JOINT_STEPS_ON_GPU
    return step_size if has_fast_blas() else 0


def prefill_together(prefills: Sequence[Prefill]) -> list[Any]:
    """Process the rest of several prompts in one pass.

    Sets the ``logits`` of every sequence; they are dispatched, not evaluated. Sequences and caches
    are unchanged if this raises.

    Returns:
        The batch cache that holds the prompts, in their order.
    """
    started = time.perf_counter()
    forward = prefills[0].forward
    cache = merge([prefill.cache for prefill in prefills])
    texts = [prefill.sequence.pending for prefill in prefills]
    if max(map(len, texts)) > MAX_TOKENS_WITH_LOGITS and forward.split_output_layer() is None:
        # Lazy evaluation: logits that are not used are not computed.
        _padded_pass(forward, cache, [text[:-1] for text in texts])
        texts = [text[-1:] for text in texts]
    output = _padded_pass(forward, cache, texts)
    last = [output.at(row, len(text) - 1) for row, text in enumerate(texts)]
    for row, (prefill, text) in enumerate(zip(prefills, texts, strict=True)):
        if prefill.observe is not None:
            states = output.states(row, len(text))
            prefill.observe(prefill.sequence, states, len(prefill.sequence.tokens))
    mx.async_eval(output.inputs, [layer.state for layer in cache])
    drop_padding(cache, max(len(prefill.sequence.tokens) for prefill in prefills))
    clear_cache()
    ended = time.perf_counter()
    for prefill, logits in zip(prefills, last, strict=True):
        prefill.set_logits(logits)
        prefill.sequence.timings.add("prompt", started, ended)
    return cache


def _padded_pass(
    forward: ForwardPass, cache: list[Any], texts: Sequence[Sequence[int]]
) -> PassOutput:
    with right_padded(cache, [len(text) for text in texts]):
        return forward(padded_tokens(texts), cache)
