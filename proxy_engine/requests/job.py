"""A submitted request, with its receivers and its OpenTelemetry span."""

from __future__ import annotations

from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ..results.generation import GenerationResult
from ..runtime.tracing import PROVIDER, begin_span, end_span
from .request import Request
from .running import RunningRequest
from .streams import Emit, Finish

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_USAGE = (
    *("preparation_seconds", "queue_seconds", "prompt_seconds", "completion_seconds"),
    *("mask_seconds", "fast_forwarded_tokens", "drafted_tokens", "accepted_tokens"),
    "forward_passes",
)
"""Counts and times that the semantic conventions have no name for."""


@dataclass(slots=True, eq=False)
class Job:
    """A submitted request with its receivers.

    Attributes:
        request: The request.
        emit: Receives the events.
        future: Receives the end of the answer, or the error.
        running: The running request, once the job has begun.
    """

    request: Request
    emit: Emit
    future: Future[Finish] = field(default_factory=Future)
    running: RunningRequest = field(init=False)
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
