"""The OpenTelemetry span of a request."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ..results.generation import GenerationResult
from ..runtime.tracing import PROVIDER, begin_span, end_span
from .request import Request

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_SECONDS = (
    *("preparation_seconds", "queue_seconds", "prompt_seconds", "completion_seconds"),
    "mask_seconds",
)
_COUNTS = ("fast_forwarded_tokens", "drafted_tokens", "accepted_tokens", "forward_passes")


def trace_request(request: Request, model: str, future: Future[Any]) -> Span | None:
    """Begin the span of a request.

    A failed or cancelled request ends it: the result of a cancelled one may never be read.
    Otherwise :func:`finish_in_span` ends it.

    Args:
        request: The request.
        model: The model's name.
        future: Done when the request has failed or all of its tokens are generated.

    Returns:
        The span; ``None`` if nothing is recorded.
    """
    span = begin_span("chat" if request.has_messages else "text_completion", model)
    if span is None:
        return None
    span.set_attributes(_request_attributes(request))

    def end(done: Future[Any]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            end_span(span, {}, error)
        elif request.cancelled.is_set():
            end_span(span, {"gen_ai.response.finish_reasons": ["cancelled"]})

    future.add_done_callback(end)
    return span


def finish_in_span(
    span: Span, finish: Callable[[], GenerationResult[Any]]
) -> GenerationResult[Any]:
    """Return the result of ``finish``, and end the span."""
    try:
        result = finish()
    except BaseException as error:
        end_span(span, {}, error)
        raise
    end_span(span, _result_attributes(result))
    return result


def _request_attributes(request: Request) -> dict[str, Any]:
    options = request.options
    given = {
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
        **{f"gen_ai.request.{name}": value for name, value in given.items() if value is not None},
    }


def _result_attributes(result: GenerationResult[Any]) -> dict[str, Any]:
    usage = result.usage
    return {
        "gen_ai.response.model": result.model,
        "gen_ai.response.finish_reasons": [
            answer.finish_reason for answer in result.choices or (result,)
        ],
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        **{f"{PROVIDER}.{name}": getattr(usage, name) for name in (*_SECONDS, *_COUNTS)},
    }
