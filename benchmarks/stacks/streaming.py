"""mlx-lm's own loop, with or without something that changes its logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, TypeAlias

import mlx.core as mx
from mlx_lm import stream_generate
from mlx_lm.generate import GenerationResponse
from mlx_lm.sample_utils import make_sampler

from stacks.base import Request, Sampling, Setting, Written, checked_prompt

__all__ = ["Processor", "first_of", "responses", "sampler_of", "written_by"]

Processor: TypeAlias = Callable[[mx.array, mx.array], mx.array]


def sampler_of(sampling: Sampling) -> Callable[[mx.array], mx.array]:
    """Return mlx-lm's sampler, and seed the generator it draws from."""
    if sampling.seed is not None:
        mx.random.seed(sampling.seed)
    sampler: Callable[[mx.array], mx.array] = make_sampler(
        temp=sampling.temperature, top_p=sampling.top_p
    )
    return sampler


def responses(
    setting: Setting, request: Request, processor: Processor | None = None
) -> Iterator[GenerationResponse]:
    """Return mlx-lm's stream for a request."""
    keywords: dict[str, Any] = {} if processor is None else {"logits_processors": [processor]}
    return stream_generate(
        setting.model,
        setting.tokenizer,
        request.prompt_ids,
        max_tokens=request.max_tokens,
        sampler=sampler_of(request.sampling),
        **keywords,
    )


def written_by(request: Request, stream: Iterator[GenerationResponse], started: float) -> Written:
    """Read a stream to its end. ``started`` is when the call began, on ``perf_counter``."""
    first = 0.0
    texts = []
    tokens = 0
    for response in stream:
        first = first or perf_counter()
        texts.append(response.text)
        tokens = response.generation_tokens
        checked_prompt(request, response.prompt_tokens)
    ended = perf_counter()
    # The pass dispatched beyond the last token must not count for the next request.
    mx.synchronize()
    return Written("".join(texts), tokens, ended - started, first - started)


def first_of(stream: Iterator[Any], started: float) -> float:
    """Return the seconds to a stream's first token, and leave the device idle."""
    next(stream)
    seconds = perf_counter() - started
    del stream
    mx.synchronize()
    return seconds
