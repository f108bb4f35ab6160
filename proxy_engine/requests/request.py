"""A request that has passed every check, and the job that runs it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from state_machines.completion import Guard

from ..answers.compiler import CompiledAnswer
from ..conversation.prompts import EncodedPrompt
from ..generation import SamplingHooks
from ..options.generation import GenerationOptions
from ..prompt_cache.store import TokenIds, token_array
from ..results.events import Event
from ..results.generation import GenerationResult
from ..results.parts import RejectedAnswer
from ..runtime.tracing import PROVIDER, begin_span, end_span
from ..tools import Tool

if TYPE_CHECKING:
    from opentelemetry.trace import Span

Emit: TypeAlias = Callable[[Event], None]
"""Receives the events of a request, on the thread that runs it."""

Finish: TypeAlias = Callable[[], GenerationResult[Any]]
"""Parses and validates an answer whose tokens are all generated. To be called once.

It is called by the thread that waits for the result: the caller's validators may take any time, and
the model thread serves other requests meanwhile. May emit the last events of the request.
"""

Repeat: TypeAlias = "Callable[[Sequence[RejectedAnswer]], Request]"
"""Prepares another attempt at a request, given the answers that validators have rejected."""

_USAGE = (
    *("preparation_seconds", "queue_seconds", "prompt_seconds", "completion_seconds"),
    *("mask_seconds", "forced_tokens", "drafted_tokens", "accepted_tokens"),
    "forward_passes",
)
"""Counts and times that the semantic conventions have no name for."""


def not_repeatable(rejected: Sequence[RejectedAnswer]) -> Request:
    """Stand for the ``repeat`` of a request that has no further attempts."""
    raise AssertionError("the request has no further attempts")


@dataclass(slots=True)
class Request:
    """A prepared request.

    Attributes:
        prompt: The prompt.
        answer: The compiled form of the answer.
        options: The options.
        max_tokens: Maximum number of generated tokens: ``options.max_tokens``, or fewer if the
            context has less room.
        guard: Keeps a constrained answer completable within ``max_tokens``; in its initial state.
        tools: The tools that may be called, by name.
        hooks: The caller's functions for sampling.
        has_messages: Whether the prompt is a conversation, which the chat template rendered.
        watches: Emit events for tokens and partial values.
        cancelled: Stops the request at its next token.
        created: When it was queued, by the clock of ``time.perf_counter``.
        preparation_seconds: Time that its preparation took.
        counts_waiting: ``max_seconds`` includes preparation and queue, otherwise it counts from
            the first pass.
        rejected: The answers of earlier attempts.
        repeat: Prepares the next attempt, if ``options.max_retries`` permits one.
    """

    prompt: EncodedPrompt
    answer: CompiledAnswer
    options: GenerationOptions
    max_tokens: int
    guard: Guard | None = None
    tools: Mapping[str, Tool] = field(default_factory=dict)
    hooks: SamplingHooks = field(default_factory=SamplingHooks)
    has_messages: bool = True
    watches: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event)
    created: float = field(default_factory=time.perf_counter)
    preparation_seconds: float = 0.0
    counts_waiting: bool = True
    rejected: tuple[RejectedAnswer, ...] = ()
    repeat: Repeat = field(default=not_repeatable, repr=False)

    def cache_key(self, token_ids: Sequence[int] | None = None) -> TokenIds:
        """Return the identity of a text in prompt caches.

        Args:
            token_ids: The text: a prefix of the prompt, or the prompt and generated tokens.
                ``None``: the prompt.
        """
        key = token_array(self.prompt.token_ids if token_ids is None else token_ids)
        media_key = self.prompt.cache_key
        if media_key is not None:
            length = min(len(media_key), len(key))
            key[:length] = media_key[:length]
        return key


def ignore(event: Event) -> None:
    """Discard an event."""


@dataclass(slots=True, eq=False)
class Job:
    """A submitted request with its receivers.

    Attributes:
        request: The request.
        emit: Receives the events.
        future: Receives the end of the answer, or the error.
    """

    request: Request
    emit: Emit
    future: Future[Finish] = field(default_factory=Future)
    _span: Span | None = None

    def trace(self, model: str) -> None:
        """Begin the request's span, if spans are recorded.

        A failed or cancelled request ends it: the result of a cancelled one may never be read.
        Otherwise :meth:`finish` ends it.

        Args:
            model: The model's name.
        """
        span = begin_span("chat" if self.request.has_messages else "text_completion", model)
        if span is not None:
            span.set_attributes(_request_attributes(self.request))
            self._span = span
            self.future.add_done_callback(partial(self._end_span, span))

    def answers(self) -> list[Job]:
        """Return the jobs of its ``n`` answers, which finish it: the job itself if ``n`` is 1.

        Each is a request of its own. The seed of the n-th one is the request's seed plus n, from 0
        on, modulo 2^64. The events are those of the first answer.
        """
        options = self.request.options
        if options.n == 1:
            return [self]
        jobs = []
        for number in range(options.n):
            seed = None if options.seed is None else (options.seed + number) % 2**64
            request = replace(self.request, options=options.override({"n": 1, "seed": seed}))
            if request.guard is not None:
                request.guard = request.guard.copy()
            jobs.append(Job(request, ignore if number else self.emit))
        for job in jobs:
            job.future.add_done_callback(partial(self._join, jobs))
        return jobs

    def _join(self, jobs: Sequence[Job], done: Future[Finish]) -> None:
        """Finish the job once all its answers are done; an error of any answer ends all."""
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self.request.cancelled.set()
            self.fail(error)
        elif all(job.future.done() for job in jobs):
            self.finish(partial(_choices, [job.future for job in jobs]))

    @property
    def is_cancelled(self) -> bool:
        """Whether the request was cancelled."""
        return self.request.cancelled.is_set()

    def finish(self, finish: Finish) -> None:
        """Let the thread that waits finish the answer, unless the future is done already."""
        if self._span is not None:
            finish = partial(_finish_in_span, self._span, finish)
        with suppress(InvalidStateError):
            self.future.set_result(finish)

    def fail(self, error: BaseException) -> None:
        """Set the error, unless the future is done or cancelled already."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)

    def _end_span(self, span: Span, done: Future[Finish]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            end_span(span, {}, error)
        elif self.is_cancelled:
            end_span(span, {"gen_ai.response.finish_reasons": ["cancelled"]})


def _choices(answers: Sequence[Future[Finish]]) -> GenerationResult[Any]:
    """Return the first of several answers, with all of them as its ``choices``."""
    results = [answer.result()() for answer in answers]
    return replace(results[0], choices=tuple(results))


def _finish_in_span(span: Span, finish: Finish) -> GenerationResult[Any]:
    """Return the result of ``finish``, and end the span."""
    try:
        result = finish()
    except BaseException as error:
        end_span(span, {}, error)
        raise
    usage = result.usage
    attributes = {
        "gen_ai.response.model": result.model,
        "gen_ai.response.finish_reasons": [
            answer.finish_reason for answer in result.choices or (result,)
        ],
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
    }
    end_span(span, attributes | {f"{PROVIDER}.{name}": getattr(usage, name) for name in _USAGE})
    return result


def _request_attributes(request: Request) -> dict[str, Any]:
    options = request.options
    values = {
        "temperature": options.temperature,
        "max_tokens": request.max_tokens,
        "top_p": options.top_p if options.top_p < 1 else None,
        "top_k": options.top_k or None,
        "frequency_penalty": options.frequency_penalty or None,
        "presence_penalty": options.presence_penalty or None,
        "seed": options.seed,
        "stop_sequences": options.stop_strings or None,
        "choice.count": options.n if options.n > 1 else None,
    }
    return {
        "gen_ai.output.type": "text" if request.answer.response.is_free else "json",
        **{f"gen_ai.request.{name}": value for name, value in values.items() if value is not None},
    }
