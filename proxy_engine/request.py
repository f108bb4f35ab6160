"""One request, from the queue to its result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx_lm.generate import wired_limit

from samplers import make_sampler
from state_machines import Vocabulary

from .decoding import TokenDecoder
from .errors import EngineClosedError, IncompleteOutputError
from .generation import Token, generate_steps
from .models.loading import LoadedModel
from .options import GenerationOptions
from .response_format import ResponseFormat
from .results import FinishReason, GenerationResult, PromptProgress, TextDelta, Usage

__all__ = ["Emit", "Request", "run_request"]

Emit: TypeAlias = Callable[[PromptProgress | TextDelta], None]
"""Told of each event while a request runs, on the thread that runs it."""

# A forward pass cannot be interrupted, so its length is how long a cancelled request lingers.
_PREFILL_STEP_ON_GPU = 512
_PREFILL_STEP_ON_CPU = 16


@dataclass(slots=True)
class Request:
    """A request that has passed every check and can be run.

    ``max_tokens`` is what the context leaves of ``options.max_tokens``. Setting ``cancelled``
    makes a running request stop at its next token.
    """

    prompt_ids: list[int]
    response_format: ResponseFormat
    options: GenerationOptions
    max_tokens: int
    cancelled: threading.Event = field(default_factory=threading.Event)


def run_request(
    request: Request,
    loaded: LoadedModel,
    vocabulary: Vocabulary,
    *,
    emit: Emit,
    is_closing: Callable[[], bool],
) -> GenerationResult[Any]:
    """Generate, decode and parse. To be called on the thread that owns the model.

    Raises ``IncompleteOutputError``, ``OutputValidationError``; and ``EngineClosedError`` where
    the request was cancelled or ``is_closing`` turned true.
    """
    machine = request.response_format.machine
    decoder = TokenDecoder(vocabulary)
    texts: list[str] = []
    token_ids: list[int] = []
    finish_reason: FinishReason | None = None
    started = first = time.perf_counter()
    steps = generate_steps(
        loaded.model,
        request.prompt_ids,
        matcher=None if machine is None else machine.matcher(vocabulary),
        sampler=make_sampler(request.options.sampling),
        end_token_ids=vocabulary.end_token_ids,
        usable_tokens=_usable_tokens(vocabulary),
        max_tokens=request.max_tokens,
        prefill_step_size=request.options.prefill_step_size or _prefill_step_size(),
    )
    with wired_limit(loaded.model):
        for step in steps:
            if request.cancelled.is_set() or is_closing():
                raise EngineClosedError("the request was cancelled")
            if not isinstance(step, Token):
                emit(step)
                continue
            if not token_ids:
                first = time.perf_counter()
            token_ids.append(step.token_id)
            finish_reason = step.finish_reason
            text = decoder.add(step.token_id)
            if finish_reason is not None:
                text += decoder.finish()
            texts.append(text)
            emit(TextDelta(text, step.token_id))
    if finish_reason is None:
        raise AssertionError("the loop ends with a finish reason")
    text = "".join(texts)
    if machine is not None and finish_reason == "length":
        raise IncompleteOutputError(
            f"the output was not whole after {len(token_ids)} tokens",
            text=text,
            tokens=len(token_ids),
            hint="Raise max_tokens, or bound the schema's strings and arrays.",
        )
    return GenerationResult(
        text=text,
        parsed=request.response_format.parse(text),
        finish_reason=finish_reason,
        usage=Usage(
            prompt_tokens=len(request.prompt_ids),
            completion_tokens=len(token_ids),
            prompt_seconds=first - started,
            completion_seconds=time.perf_counter() - first,
        ),
        token_ids=tuple(token_ids),
        model=loaded.name,
    )


def _prefill_step_size() -> int:
    on_gpu = mx.default_device().type == mx.DeviceType.gpu
    return _PREFILL_STEP_ON_GPU if on_gpu else _PREFILL_STEP_ON_CPU


def _usable_tokens(vocabulary: Vocabulary) -> npt.NDArray[np.bool_]:
    return np.array([token is not None for token in vocabulary.token_bytes])
