"""OpenTelemetry spans, with the names of the semantic conventions for generative AI.

Without the extra ``opentelemetry``, or without a tracer provider, nothing is recorded. Prompts and
answers are not part of the spans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

try:
    from opentelemetry import trace
except ImportError:
    trace = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

PROVIDER = "proxy_engine"
"""The provider's name, and the prefix of attributes that the conventions do not have."""


def begin_span(operation: str, model: str) -> Span | None:
    """Begin the span of an operation with a model, a child of the current span.

    Args:
        operation: Such as ``"chat"``.
        model: The model's name.

    Returns:
        The span; ``None`` if nothing is recorded.
    """
    tracer = _tracer()
    if tracer is None:
        return None
    attributes = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.request.model": model,
    }
    span = tracer.start_span(f"{operation} {model}", attributes=attributes)
    return span if span.is_recording() else None


def end_span(span: Span, attributes: Mapping[str, Any], error: BaseException | None = None) -> None:
    """End a span, unless it has ended.

    Args:
        span: The span.
        attributes: Further attributes.
        error: Why the operation failed.
    """
    if not span.is_recording():
        return
    span.set_attributes(attributes)
    if error is not None:
        span.set_attribute("error.type", type(error).__qualname__)
        span.record_exception(error)
        span.set_status(trace.StatusCode.ERROR, str(error))
    span.end()


@contextmanager
def tool_span(name: str, call_id: str) -> Iterator[None]:
    """Run a tool within a span, which records its exception.

    Args:
        name: The tool's name.
        call_id: The id of the call.
    """
    tracer = _tracer()
    if tracer is None:
        yield
        return
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call_id,
    }
    with tracer.start_as_current_span(f"execute_tool {name}", attributes=attributes) as span:
        try:
            yield
        except Exception as error:
            span.set_attribute("error.type", type(error).__qualname__)
            raise


@cache
def _tracer() -> Tracer | None:
    # The tracer uses a provider that is set later.
    return None if trace is None else trace.get_tracer(PROVIDER)
