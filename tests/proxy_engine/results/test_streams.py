"""Streams: closing, leaving or dropping one cancels what it streams."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import pydantic
import pytest

from proxy_engine import (
    AsyncBatchStream,
    AsyncEventStream,
    BatchStream,
    EventStream,
    ExtractionStream,
)
from proxy_engine.results import events
from proxy_engine.results.streams import AsyncStream, Stream


@pytest.mark.parametrize("kind", [BatchStream, EventStream, ExtractionStream])
@pytest.mark.parametrize("leave", [Stream.close, Stream.__exit__, id])
def test_stream_cancels_when_it_is_left(kind: Any, leave: Callable[[Any], Any]) -> None:
    cancelled, ended = threading.Event(), threading.Event()

    def items() -> Generator[int]:
        try:
            yield 1
            yield 2
        finally:
            ended.set()

    stream = kind(items(), cancelled.set)
    assert next(stream) == 1
    assert not cancelled.is_set()
    leave(stream)
    del stream
    assert cancelled.is_set()
    assert ended.is_set()


@pytest.mark.parametrize("kind", [AsyncBatchStream, AsyncEventStream])
@pytest.mark.parametrize("leave", [AsyncStream.aclose, AsyncStream.__aexit__, None])
def test_async_stream_cancels_when_it_is_left(kind: Any, leave: Any) -> None:
    cancelled, ended = threading.Event(), threading.Event()

    async def items() -> AsyncGenerator[int]:
        try:
            yield 1
            yield 2
        finally:
            ended.set()

    async def begin() -> AsyncGenerator[int]:
        return items()

    async def read() -> None:
        stream = kind(begin, cancelled.set)
        assert await anext(stream) == 1
        assert not cancelled.is_set()
        if leave is not None:
            await leave(stream)
        del stream
        assert cancelled.is_set()

    asyncio.run(read())
    assert ended.is_set()


def test_stream_that_is_read_elsewhere_can_be_closed() -> None:
    cancelled, begun = threading.Event(), threading.Event()

    def items() -> Generator[int]:
        begun.set()
        cancelled.wait(20)
        yield 1

    stream: Any = BatchStream(items(), cancelled.set)
    received: list[int] = []
    reader = threading.Thread(target=lambda: received.append(next(stream)))
    reader.start()
    begun.wait(20)
    stream.close()
    reader.join(20)
    assert received == [1]


# Events: frozen, told apart by their type, and themselves again after a trip through JSON.


EVENTS: list[events.Event] = [
    events.PromptProgress(processed=1, total=2),
    events.TextDelta(text="ä", part="answer"),
    events.ReasoningDelta(text="hm"),
    events.ToolCallStarted(index=0, id="a", name="f"),
    events.ToolCallDelta(index=0, id="a", arguments='{"x":'),
    events.ToolCallFinished(index=0, id="a", name="f", arguments={"x": [1, None]}),
    events.PartialValue(value={"a": [1]}),
    events.Finished(result={"text": "x"}),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_round_trip_through_json(event: events.Event) -> None:
    assert events.EVENT_ADAPTER.validate_json(event.model_dump_json()) == event


def test_events_do_not_change() -> None:
    with pytest.raises(pydantic.ValidationError):
        EVENTS[1].text = "other"  # type: ignore[attr-defined]
    with pytest.raises(pydantic.ValidationError):
        events.TextDelta(text="x", more=1)  # type: ignore[call-arg]
