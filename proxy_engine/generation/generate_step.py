"""``generate_step``: the generation loop as a plain generator, without an engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache

from samplers import SamplingParameters, make_sampler
from state_machines import StateMachine, Vocabulary
from state_machines.completion import Guard

from ..errors import InvalidOptionError
from ..prompt_cache.layers import quantize_cache
from .batch import Batch
from .constraint import Constraint
from .fast_forward import FastForward, Script, text_encoder
from .forward_pass import ForwardPass
from .prefill import Prefill, default_prefill_step_size
from .restrictions import GuardedGrammar, Restriction
from .sampling import DeviceMasks, end_token_ids, text_token_mask
from .sequence import GeneratedSequence, Status
from .sequence_samplers import (
    CustomSampler,
    LogitsProcessor,
    LogprobsSampler,
    SequenceSamplers,
    xtc_special_tokens,
)

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper

_UNLIMITED = 1 << 62


def generate_step(
    prompt: mx.array | Sequence[int],
    model: Module,
    stream: mx.Stream | None = None,
    *,
    tokenizer: Any = None,
    machine: StateMachine | None = None,
    vocabulary: Vocabulary | None = None,
    max_tokens: int = 256,
    sampler: SamplingParameters | LogprobsSampler | None = None,
    logits_processors: Sequence[LogitsProcessor] | None = None,
    fast_forward: bool = True,
    max_kv_size: int | None = None,
    prompt_cache: list[Any] | None = None,
    prefill_step_size: int | None = None,
    kv_bits: int | None = None,
    kv_group_size: int = 64,
    quantized_kv_start: int = 5000,
    prompt_progress_callback: Callable[[int, int], None] | None = None,
    input_embeddings: mx.array | None = None,
) -> Generator[tuple[int, mx.array], None, None]:
    """Generate tokens whose text matches a machine: mlx-lm's ``generate_step`` with a grammar.

    Code that calls mlx-lm's function runs unchanged: without a tokenizer, tokens are generated
    until ``max_tokens``. With one, the generator ends after an end token. Text that the grammar
    forces is not sampled: its tokens are processed in one pass. To be used on one thread.

    Args:
        prompt: Token ids, shape (tokens,), at least one unless there are ``input_embeddings``.
            Without the tokens that ``prompt_cache`` holds.
        model: The model.
        stream: The stream of the passes; ``None``: MLX's default stream.
        tokenizer: The model's tokenizer, from ``mlx_lm.load`` or ``transformers``. Required with a
            machine.
        machine: The grammar of the text; ``None``: unconstrained text.
        vocabulary: ``Vocabulary.from_tokenizer(tokenizer, size=...)`` with the width of the logits.
            ``None``: created here, which takes about 0.4 s for 150,000 tokens.
        max_tokens: Maximum number of generated tokens; constrained text is complete within them.
            -1: no maximum, without a machine.
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
        input_embeddings: Embeddings of the prompt, shape (tokens, hidden), in place of those of its
            tokens.

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
    prompt_ids = _checked_prompt(prompt, input_embeddings)
    if max_tokens < 1 and (machine is not None or max_tokens != -1):
        raise InvalidOptionError(f"max_tokens is {max_tokens}, not at least 1", option="max_tokens")
    max_tokens = _UNLIMITED if max_tokens == -1 else max_tokens
    if machine is not None and machine.temperatures:
        raise InvalidOptionError(
            "rules of the grammar have a temperature, and one sampler selects all tokens",
            option="machine",
            hint="Use InferenceEngine, or leave out the option temperature of the rules.",
        )
    # Lazy: the pass is not evaluated.
    width = model(mx.zeros((1, 1), mx.int32), cache=make_prompt_cache(model)).shape[-1]
    masks = DeviceMasks()
    if tokenizer is None:
        if machine is not None:
            raise InvalidOptionError("a machine requires the tokenizer", option="tokenizer")
        constraint = Constraint([], (), max_tokens)
    else:
        # Deferred: it imports transformers, which made the tokenizer.
        from mlx_lm.tokenizer_utils import TokenizerWrapper  # noqa: PLC0415

        if not isinstance(tokenizer, TokenizerWrapper):
            tokenizer = TokenizerWrapper(tokenizer)
        vocabulary = _checked_vocabulary(vocabulary, tokenizer, width)
        restrictions: list[Restriction] = []
        usable = text_token_mask(vocabulary) if machine is None else None
        if machine is not None:
            guard = Guard(machine.matcher(vocabulary), max_tokens)
            tokenize = FastForward(text_encoder(tokenizer, threading.Lock()), vocabulary)
            restrictions = [GuardedGrammar(guard), Script(tokenize if fast_forward else None)]
        ends = end_token_ids(vocabulary, tokenizer)
        constraint = Constraint(restrictions, ends, max_tokens, usable=usable)
    single = _custom_sampler(sampler, logits_processors or (), vocabulary)
    prefill = Prefill(
        GeneratedSequence(prompt_ids, constraint, SequenceSamplers.of_one(single), masks=masks),
        ForwardPass(model),
        make_prompt_cache(model, max_kv_size) if prompt_cache is None else prompt_cache,
        prefill_step_size or default_prefill_step_size(),
        quantize=None
        if kv_bits is None
        else partial(
            quantize_cache,
            start=quantized_kv_start,
            group_size=kv_group_size,
            bits=kv_bits,
        ),
        inputs=None if input_embeddings is None else _Embeddings(input_embeddings),
    )
    steps = _generate(prefill, single, width, prompt_progress_callback or (lambda *_: None))
    return steps if stream is None else _on_stream(steps, stream)


def _checked_prompt(
    prompt: mx.array | Sequence[int], input_embeddings: mx.array | None
) -> list[int]:
    """Return the token ids; zeros where there are embeddings alone."""
    ids = cast("list[int]", prompt.tolist()) if isinstance(prompt, mx.array) else list(prompt)
    if input_embeddings is None:
        if not ids:
            raise InvalidOptionError("the prompt has no tokens", option="prompt")
        return ids
    if ids and len(ids) != len(input_embeddings):
        raise InvalidOptionError(
            f"the prompt has {len(ids)} tokens, and there are {len(input_embeddings)} embeddings",
            option="input_embeddings",
        )
    return ids or [0] * len(input_embeddings)


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
        on_progress(sequence.processed, total)
    on_progress(total, total)
    batch = Batch(prefill.forward, quantize=prefill.quantize)
    batch.add(sequence, prefill.cache)
    for token in forced:
        yield token.token_id, _certain(token.token_id, width)
    while not sequence.finished:
        batch.sample()
        batch.run_ahead()
        batch.commit()
        if sequence.error is not None:
            raise sequence.error
        if sequence.status is Status.WAITING:
            sequence.constraint.compute_slow()
            sequence.status = Status.RUNNING
            continue
        # The device works on the next token while the caller handles this one.
        logprobs = sampler.logprobs
        if not sequence.finished:
            batch.run_pass()
        tokens, sequence.output = sequence.output, []
        for token in tokens:
            certain = _certain(token.token_id, width) if token.is_forced else logprobs
            yield token.token_id, certain


def _on_stream(
    steps: Iterator[tuple[int, mx.array]], stream: mx.Stream
) -> Generator[tuple[int, mx.array], None, None]:
    """Generate on a stream, which is not the caller's default between the tokens."""
    while True:
        with mx.stream(stream):
            step = next(steps, None)
        if step is None:
            return
        yield step


def _certain(token_id: int, width: int) -> mx.array:
    """Return the log-probabilities of a forced token, shape (width,)."""
    return mx.where(mx.arange(width) == token_id, 0.0, -mx.inf)


class _Embeddings:
    """Embeddings of a prompt as inputs of a prefill; see ``PromptInputs``."""

    single_pass_end = 0
    rope_delta = 0

    def __init__(self, embeddings: mx.array) -> None:
        self._embeddings = embeddings
        self.media_end = len(embeddings)

    def prepare(self, _cache: list[Any], _cached_tokens: int) -> None:
        pass

    def arguments(self, start: int, end: int) -> Mapping[str, Any]:
        return {"input_embeddings": self._embeddings[start:end][None]}

    def release(self) -> None:
        pass


def _custom_sampler(
    sampler: SamplingParameters | LogprobsSampler | None,
    processors: Sequence[LogitsProcessor],
    vocabulary: Vocabulary | None,
) -> CustomSampler:
    if sampler is None:
        return CustomSampler(partial(mx.argmax, axis=-1), processors)
    if isinstance(sampler, SamplingParameters):
        special: tuple[int, ...] = ()
        if sampler.has_xtc and vocabulary is not None:
            special = xtc_special_tokens(vocabulary)
        return CustomSampler(make_sampler(sampler, (), special), processors)
    return CustomSampler(sampler, processors)
