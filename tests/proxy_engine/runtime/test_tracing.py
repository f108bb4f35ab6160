"""Spans of requests and tools, read from OpenTelemetry's own SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import pytest
from engine_parts import on_model_thread
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from proxy_engine import InferenceEngine, Interaction, RawPrompt, Role, ToolCall
from proxy_engine.runtime import tracing
from proxy_engine.tools.tool_loop import ToolLoop

CHOICE = {"enum": ["yes", "no"]}


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # The provider of a process can be set once.
    monkeypatch.setattr(tracing, "_tracer", lambda: provider.get_tracer("proxy_engine"))
    yield exporter
    provider.shutdown()


def finished_spans(
    engine: InferenceEngine, exporter: InMemorySpanExporter
) -> tuple[ReadableSpan, ...]:
    # A span ends on the model thread, just after the caller has the result.
    on_model_thread(engine, lambda: None)
    return exporter.get_finished_spans()


def test_a_request_has_a_span_of_the_semantic_conventions(
    brief_engine: InferenceEngine, exporter: InMemorySpanExporter
) -> None:
    result = brief_engine.generate(
        "Is snow white?", response_format=CHOICE, temperature=0.5, seed=0, max_tokens=9
    )
    (span,) = finished_spans(brief_engine, exporter)
    assert span.name == f"chat {brief_engine.model_name}"
    attributes = dict(span.attributes or {})
    assert {name: value for name, value in attributes.items() if "seconds" not in name} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "proxy_engine",
        "gen_ai.request.model": brief_engine.model_name,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.request.seed": 0,
        "gen_ai.output.type": "json",
        "gen_ai.response.model": brief_engine.model_name,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": result.usage.prompt_tokens,
        "gen_ai.usage.output_tokens": result.usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": result.usage.cached_tokens,
        "proxy_engine.forced_tokens": result.usage.forced_tokens,
        "proxy_engine.drafted_tokens": 0,
        "proxy_engine.accepted_tokens": 0,
        "proxy_engine.forward_passes": result.usage.forward_passes,
    }
    assert attributes["proxy_engine.prompt_seconds"] == result.usage.prompt_seconds


def test_a_span_has_the_callers_span_as_its_parent(
    brief_engine: InferenceEngine, exporter: InMemorySpanExporter
) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("caller")

    async def ask() -> None:
        with tracer.start_as_current_span("caller"):
            await brief_engine.agenerate(RawPrompt("Snow is"), max_tokens=2)

    asyncio.run(ask())
    caller, request = sorted(finished_spans(brief_engine, exporter), key=lambda span: span.name)
    assert request.name.startswith("text_completion ")
    assert request.parent is not None
    assert request.parent.span_id == caller.get_span_context().span_id


def test_a_failed_request_has_the_status_of_an_error(
    brief_engine: InferenceEngine, exporter: InMemorySpanExporter
) -> None:
    def fail(*_: Any) -> Any:
        raise LookupError("nothing found")

    with pytest.raises(LookupError):
        brief_engine.generate("Is snow white?", max_tokens=2, sampler=fail)
    (span,) = finished_spans(brief_engine, exporter)
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "LookupError"
    assert [event.name for event in span.events] == ["exception"]


def test_a_closed_stream_ends_its_span(
    brief_engine: InferenceEngine, exporter: InMemorySpanExporter
) -> None:
    with brief_engine.stream("Tell a story.", max_tokens=200) as stream:
        next(stream)
    # Later requests begin after the cancelled one has left the batch.
    brief_engine.generate("Is snow white?", response_format=CHOICE)
    reasons = [
        (span.attributes or {}).get("gen_ai.response.finish_reasons")
        for span in finished_spans(brief_engine, exporter)
    ]
    assert sorted(map(str, reasons)) == ["('cancelled',)", "('stop',)"]


def test_tools_run_in_spans(exporter: InMemorySpanExporter) -> None:
    calls = [ToolCall("1", "double", {"n": 4}), ToolCall("2", "fail", {})]

    class Answer:
        def __init__(self, tool_calls: Any = ()) -> None:
            self.tool_calls, self.finish_reason = tuple(tool_calls), "stop"

        def to_interaction(self) -> Any:
            return Interaction(Role.ASSISTANT, "", tool_calls=self.tool_calls)

    def double(n: int) -> int:
        trace.get_current_span().set_attribute("seen", n)
        return 2 * n

    def fail() -> None:
        raise CancelledError

    answers = iter([Answer(calls), Answer()])
    loop: ToolLoop[Any] = ToolLoop("Hi", [double, fail])
    loop.run(lambda *_: next(answers))
    first, second = exporter.get_finished_spans()
    assert (first.name, second.name) == ("execute_tool double", "execute_tool fail")
    assert (first.attributes or {})["seen"] == 4
    assert (second.attributes or {})["error.type"] == "CancelledError"
    assert second.status.status_code is StatusCode.ERROR


def test_nothing_is_recorded_without_the_package(
    monkeypatch: pytest.MonkeyPatch, exporter: InMemorySpanExporter
) -> None:
    monkeypatch.setattr(tracing, "_tracer", lambda: None)
    assert tracing.begin_span("chat", "model") is None
    with tracing.tool_span("double", "1"):
        pass
    assert exporter.get_finished_spans() == ()
