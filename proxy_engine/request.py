"""One request, from the queue to its result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import jsonschema
import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx_lm.generate import wired_limit

from state_machines import Matcher, Vocabulary
from state_machines.completion import Guard
from state_machines.root import Part, Piece, RootMatcher, Text, repeated_identifiers

from .answer_reader import AnswerReader
from .answers import Answer
from .errors import EngineClosedError, IncompleteOutputError, OutputValidationError
from .events import Event
from .forcing import ForcedTokens
from .generation import Decoding, Token
from .models.loading import LoadedModel
from .options import GenerationOptions
from .prompt_cache import PromptCaches
from .results import FinishReason, GenerationResult, Usage
from .steering import Steering
from .tools import Tool
from .validation import json_validator

__all__ = ["Emit", "Request", "run_request", "usable_tokens"]

Emit: TypeAlias = Callable[[Event], None]
"""Told of each event while a request runs, on the thread that runs it."""

# A forward pass cannot be interrupted, so its length is how long a cancelled request lingers.
_PREFILL_STEP_ON_GPU = 512
_PREFILL_STEP_ON_CPU = 16

# What a special token's bytes begin with.
_SPECIAL_MARK = b"\xff"


@dataclass(slots=True)
class Request:
    """A request that has passed every check and can be run.

    ``max_tokens`` is what the context leaves of ``options.max_tokens``. ``tools`` are those that
    may be called. ``watches_value``: events tell of structured values while they are written.
    ``boundaries`` are lengths of the prompt up to which others may be the same. Setting
    ``cancelled`` makes a running request stop at its next token.
    """

    prompt_ids: list[int]
    answer: Answer
    options: GenerationOptions
    max_tokens: int
    tools: Mapping[str, Tool] = field(default_factory=dict)
    watches_value: bool = False
    boundaries: tuple[int, ...] = ()
    cancelled: threading.Event = field(default_factory=threading.Event)


def run_request(
    request: Request,
    loaded: LoadedModel,
    vocabulary: Vocabulary,
    *,
    forced: ForcedTokens,
    caches: PromptCaches,
    usable: npt.NDArray[np.bool_] | None,
    emit: Emit,
    is_closing: Callable[[], bool],
) -> GenerationResult[Any]:
    """Generate, decode and parse. To be called on the thread that owns the model.

    ``forced`` cuts text that must come into tokens, ``caches`` hold what was read before.
    ``usable`` are the tokens of free text, see :func:`usable_tokens`.
    A request that is cancelled gives what it has come to. Raises ``OutputValidationError``,
    ``IncompleteOutputError``; and ``EngineClosedError`` where ``is_closing`` turned true.
    """
    answer = request.answer
    matcher = None if answer.machine is None else answer.machine.matcher(vocabulary)
    guard = None if matcher is None else Guard(matcher, request.max_tokens)
    reader = AnswerReader(new_id=answer.new_id, watches_value=request.watches_value)
    token_ids: list[int] = []
    finish_reason: FinishReason = "cancelled"
    is_in_text = False
    forced_tokens = 0
    started = time.perf_counter()
    began = caches.begin(request.prompt_ids)
    decoding = Decoding(
        loaded.model,
        began.cache,
        matcher,
        Steering(request.options, matcher, answer.part, guard).next_sampler,
        _ends(loaded, vocabulary),
        request.max_tokens,
        request.options.prefill_step_size or _prefill_step_size(),
        min_tokens=request.options.min_tokens,
        usable_tokens=usable if matcher is None else None,
        guard=guard,
        forced=forced if request.options.forced_tokens else None,
        cached_tokens=began.cached_tokens,
        max_kv_size=caches.options.max_kv_size,
        quantize=None if caches.options.kv_bits is None else caches.quantize,
        checkpoints=_checkpoints(request, caches, began.cache),
    )
    with wired_limit(loaded.model), _keeping(decoding, caches):
        for step in decoding.run(request.prompt_ids):
            if is_closing():
                raise EngineClosedError("the engine was closed")
            if not isinstance(step, Token):
                emit(step)
                if request.cancelled.is_set():
                    break
                continue
            token_ids.append(step.token_id)
            forced_tokens += step.is_forced
            is_last = step.finish_reason is not None
            is_in_text = is_last and _is_in_text(answer, matcher)
            pieces = _pieces(step.token_id, matcher, vocabulary, answer.part, is_last=is_last)
            for event in reader.read(pieces, is_last=is_last):
                emit(event)
            if step.finish_reason == "length" and is_in_text:
                finish_reason = "length"
            elif is_last:
                finish_reason = "tool_calls" if reader.calls else "stop"
            elif request.cancelled.is_set():
                break
    if finish_reason == "cancelled":
        pieces = matcher.take_pieces(is_last=True) if isinstance(matcher, RootMatcher) else []
        for event in reader.read(pieces, is_last=True):
            emit(event)
    elif token_ids and not is_in_text and matcher is not None and not matcher.is_accepting:
        raise IncompleteOutputError(
            f"the output was not whole after {len(token_ids)} tokens",
            text="".join(segment.text for segment in reader.segments),
            tokens=len(token_ids),
            hint="Raise max_tokens; the grammar is too involved to plan its end.",
        )
    _check_calls(reader, request.tools)
    timings = decoding.timings
    return GenerationResult(
        text=reader.text,
        parsed=None if finish_reason == "cancelled" else _parsed(reader, answer),
        finish_reason=finish_reason,
        usage=Usage(
            prompt_tokens=len(request.prompt_ids),
            completion_tokens=len(token_ids),
            cached_tokens=began.cached_tokens,
            forced_tokens=forced_tokens,
            prompt_seconds=timings.prompt,
            completion_seconds=time.perf_counter() - started - timings.prompt,
            mask_seconds=timings.mask,
            forward_seconds=timings.wait,
        ),
        token_ids=tuple(token_ids),
        model=loaded.name,
        reasoning=reader.reasoning,
        tool_calls=tuple(reader.calls),
        segments=reader.segments,
    )


def _checkpoints(
    request: Request, caches: PromptCaches, cache: list[Any]
) -> dict[int, Callable[[], None]]:
    """Where a copy of the cache is to be kept while the prompt is read, and how."""
    lengths = caches.checkpoints(
        request.prompt_ids, request.boundaries, max_tokens=request.max_tokens
    )
    return {
        length: partial(caches.checkpoint, request.prompt_ids[:length], cache) for length in lengths
    }


@contextmanager
def _keeping(decoding: Decoding, caches: PromptCaches) -> Iterator[None]:
    """Keep what the model has read, unless reading it failed."""
    yield
    caches.keep(decoding.tokens[: decoding.fed], decoding.cache, run=decoding.fed)


def _pieces(
    token_id: int,
    matcher: Matcher | None,
    vocabulary: Vocabulary,
    part: Part | None,
    *,
    is_last: bool,
) -> list[Piece]:
    """What is certain about who wrote what, with a token more."""
    if isinstance(matcher, RootMatcher):
        return matcher.take_pieces(is_last=is_last)
    if part is None:
        raise AssertionError("an answer of one part says which")
    form = vocabulary.token_bytes[token_id]
    # Where nothing is constrained, a model may write special tokens; they are no text.
    return [] if form is None or form.startswith(_SPECIAL_MARK) else [Piece(part, form)]


def _is_in_text(answer: Answer, matcher: Matcher | None) -> bool:
    """Whether free text or reasoning is being written."""
    parts = matcher.parts[:1] if isinstance(matcher, RootMatcher) else (answer.part,)
    return any(isinstance(part, Text) for part in parts)


def _parsed(reader: AnswerReader, answer: Answer) -> Any:
    """What the answer's values are: of a composition by identifier, or the only one."""
    response, values = answer.response, reader.values
    if response.part is None:
        if response.is_free or reader.calls:
            return None
        return response.parse(values[0][1] if values else "")
    parsed: dict[str, Any] = {}
    repeated = repeated_identifiers(response.part)
    for part, text in values:
        try:
            value = part.parse(text)
        except Exception as error:
            # Whatever a reader of the caller's own may raise.
            raise OutputValidationError(
                f"the text of {part.identifier!r} cannot be read: {error}", text=text
            ) from error
        if part.identifier in repeated:
            parsed.setdefault(part.identifier, []).append(value)
        else:
            parsed[part.identifier] = value
    return next(iter(parsed.values())) if len(parsed) == 1 else parsed or None


def _check_calls(reader: AnswerReader, tools: Mapping[str, Tool]) -> None:
    for call in reader.calls:
        try:
            json_validator(tools[call.name].arguments_schema).validate(call.arguments)
        except jsonschema.ValidationError as error:
            raise OutputValidationError(
                f"the call of {call.name!r} does not match its schema: {error.message}",
                text=call.raw,
            ) from error


def _prefill_step_size() -> int:
    on_gpu = mx.default_device().type == mx.DeviceType.gpu
    return _PREFILL_STEP_ON_GPU if on_gpu else _PREFILL_STEP_ON_CPU


def usable_tokens(vocabulary: Vocabulary) -> npt.NDArray[np.bool_] | None:
    """Return what free text may be written with, text and what ends it; ``None``: everything."""
    usable = np.array(
        [form is not None and not form.startswith(_SPECIAL_MARK) for form in vocabulary.token_bytes]
    )
    usable[list(vocabulary.end_token_ids)] = True
    return None if usable.all() else usable


def _ends(loaded: LoadedModel, vocabulary: Vocabulary) -> list[int]:
    """Return the end tokens, first the one that the tokenizer ends texts with."""
    own = loaded.tokenizer.eos_token_id
    return sorted(vocabulary.end_token_ids, key=lambda token_id: (token_id != own, token_id))
