"""``generate_step``: the generation loop as a plain generator, without an engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.generate import maybe_quantize_kv_cache
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.tokenizer_utils import TokenizerWrapper

from samplers import SamplingParameters, make_sampler
from state_machines import StateMachine, Vocabulary
from state_machines.completion import Guard

from ..errors import InvalidOptionError
from .batch import Batch
from .custom_sampler import CustomSampler, LogitsProcessor, LogprobsSampler
from .device_masks import DeviceMasks, text_token_mask
from .fast_forward import FastForward, text_encoder
from .forward_pass import ForwardPass
from .prefill import Prefill, default_prefill_step_size
from .sequence_options import SequenceOptions, end_token_ids, xtc_special_tokens
from .sequence_state import SequenceState


def generate_step(
    prompt: mx.array | Sequence[int],
    model: Module,
    *,
    tokenizer: Any,
    machine: StateMachine | None = None,
    vocabulary: Vocabulary | None = None,
    max_tokens: int = 256,
    sampler: SamplingParameters | LogprobsSampler | None = None,
    logits_processors: Sequence[LogitsProcessor] = (),
    fast_forward: bool = True,
    max_kv_size: int | None = None,
    prompt_cache: list[Any] | None = None,
    prefill_step_size: int | None = None,
    kv_bits: int | None = None,
    kv_group_size: int = 64,
    quantized_kv_start: int = 5000,
    prompt_progress_callback: Callable[[int, int], None] | None = None,
) -> Generator[tuple[int, mx.array], None, None]:
    """Generate tokens whose text matches a machine: mlx-lm's ``generate_step`` with a grammar.

    The arguments that mlx-lm's function has as well mean the same. Unlike there, the generator ends
    after an end token, and text that the grammar forces is not sampled: its tokens are processed in
    one pass. To be used on one thread, on MLX's default
    stream.

    Args:
        prompt: Token ids, shape (tokens,), at least one. Without the tokens that ``prompt_cache``
            holds.
        model: The model.
        tokenizer: The model's tokenizer, from ``mlx_lm.load`` or ``transformers``.
        machine: The grammar; ``None``: unconstrained text.
        vocabulary: ``Vocabulary.from_tokenizer(tokenizer, size=...)`` with the width of the logits.
            ``None``: created here, which takes about 0.4 s for 150,000 tokens.
        max_tokens: Maximum number of generated tokens; the text is complete within them.
        sampler: Sampling parameters, or a function from log-probabilities, shape (1, vocabulary),
            to a token id, as from ``mlx_lm.sample_utils.make_sampler``. ``None``: greedy.
        logits_processors: Functions of the tokens so far and the logits, applied before the mask.
        fast_forward: Do not sample forced text. ``False``: sample every token.
        max_kv_size: Maximum number of tokens in the cache; later ones overwrite all but the first
            four.
        prompt_cache: From ``mlx_lm.models.cache.make_prompt_cache``, updated in place. In the end
            it holds the prompt and the generated tokens, with or without the last one.
        prefill_step_size: Prompt tokens per forward pass; ``None``: by device.
        kv_bits: Bits of a quantized cache; ``None``: no quantization.
        kv_group_size: Values that share a scale in a quantized cache.
        quantized_kv_start: Tokens from which on the cache is quantized.
        prompt_progress_callback: Called with the processed and the total prompt tokens.

    Yields:
        Each token id with the log-probabilities that it was sampled from: float32, shape
        (vocabulary,), normalized over the allowed tokens, ``-inf`` elsewhere. A token of forced
        text has the log-probability 0.

    Raises:
        InvalidOptionError: An argument is out of range, ``vocabulary`` does not fit the model, or
            rules of the machine have a temperature.
        MaxTokensTooSmallError: No text of the grammar fits into ``max_tokens``.
        GrammarBudgetError: No completion is found within the step budget.
        VocabularyError: The tokenizer is not supported.
    """
    prompt_ids = _checked_prompt(prompt)
    if max_tokens < 1:
        raise InvalidOptionError(f"max_tokens is {max_tokens}, not at least 1", option="max_tokens")
    if machine is not None and machine.temperatures:
        raise InvalidOptionError(
            "rules of the grammar have a temperature, and one sampler selects all tokens",
            option="machine",
            hint="Use InferenceEngine, or leave out the option temperature of the rules.",
        )
    if not isinstance(tokenizer, TokenizerWrapper):
        tokenizer = TokenizerWrapper(tokenizer)
    # Lazy: the pass is not evaluated.
    logits = model(mx.zeros((1, 1), mx.int32), cache=make_prompt_cache(model))
    vocabulary = _checked_vocabulary(vocabulary, tokenizer, logits.shape[-1])
    guard = None if machine is None else Guard(machine.matcher(vocabulary), max_tokens)
    custom = _custom_sampler(sampler, logits_processors, vocabulary)
    tokenize = FastForward(text_encoder(tokenizer, threading.Lock()), vocabulary)
    sequence = SequenceState(
        prompt_ids,
        SequenceOptions(
            end_token_ids(vocabulary, tokenizer),
            max_tokens,
            usable_tokens=text_token_mask(vocabulary) if guard is None else None,
        ),
        matcher=None if guard is None else guard.matcher,
        schedule=_Schedule(custom),
        masks=DeviceMasks(),
        guard=guard,
        fast_forward=tokenize if fast_forward else None,
    )
    quantize = partial(
        maybe_quantize_kv_cache,
        quantized_kv_start=quantized_kv_start,
        kv_group_size=kv_group_size,
        kv_bits=kv_bits,
    )
    prefill = Prefill(
        sequence,
        ForwardPass(model),
        make_prompt_cache(model, max_kv_size) if prompt_cache is None else prompt_cache,
        prefill_step_size or default_prefill_step_size(),
        quantize=None if kv_bits is None else quantize,
    )
    return _generate(
        prefill, custom, vocabulary.size, prompt_progress_callback or (lambda *_: None)
    )


def _checked_prompt(prompt: mx.array | Sequence[int]) -> list[int]:
    ids = cast("list[int]", prompt.tolist()) if isinstance(prompt, mx.array) else list(prompt)
    if not ids:
        raise InvalidOptionError("the prompt has no tokens", option="prompt")
    return ids


def _checked_vocabulary(
    vocabulary: Vocabulary | None, tokenizer: TokenizerWrapper, width: int
) -> Vocabulary:
    """Create the vocabulary, or check that it is as wide as the logits."""
    if vocabulary is None:
        return Vocabulary.from_tokenizer(tokenizer, size=width)
    if vocabulary.size != width:
        raise InvalidOptionError(
            f"the vocabulary has {vocabulary.size} tokens, and the model's logits {width}",
            option="vocabulary",
            hint=f"Create it with Vocabulary.from_tokenizer(tokenizer, size={width}).",
        )
    return vocabulary


def _generate(
    prefill: Prefill,
    sampler: CustomSampler,
    width: int,
    on_progress: Callable[[int, int], None],
) -> Generator[tuple[int, mx.array], None, None]:
    sequence = prefill.sequence
    total = sequence.prompt_tokens
    on_progress(0, total)
    forced = sequence.advance_forced()
    while not prefill.next_pass():
        on_progress(prefill.processed, total)
    on_progress(total, total)
    batch = Batch(prefill.forward, quantize=prefill.quantize)
    batch.add(sequence, prefill.cache)
    for token in forced:
        yield token.token_id, _certain(token.token_id, width)
    while not sequence.finished:
        (step,) = batch.generate_step()
        if step.error is not None:
            raise step.error
        if step.is_slow:
            sequence.compute_mask()
            continue
        # The device works on the next token while the caller handles this one.
        logprobs = sampler.logprobs
        if not sequence.finished:
            batch.feed()
        for token in step.tokens:
            given = _certain(token.token_id, width) if token.is_forced else logprobs
            yield token.token_id, given


def _certain(token_id: int, width: int) -> mx.array:
    """Return the log-probabilities of a forced token, shape (width,)."""
    return mx.where(mx.arange(width) == token_id, 0.0, -mx.inf)


class _Schedule:
    """Returns one sampler for every token."""

    def __init__(self, sampler: CustomSampler) -> None:
        self._sampler = sampler

    def next_sampler(self, generated: int) -> CustomSampler:
        return self._sampler


def _custom_sampler(
    sampler: SamplingParameters | LogprobsSampler | None,
    processors: Sequence[LogitsProcessor],
    vocabulary: Vocabulary,
) -> CustomSampler:
    if sampler is None:
        return CustomSampler(partial(mx.argmax, axis=-1), processors)
    if isinstance(sampler, SamplingParameters):
        special = xtc_special_tokens(vocabulary) if sampler.has_xtc else ()
        return CustomSampler(make_sampler(sampler, (), special), processors)
    return CustomSampler(sampler, processors)
