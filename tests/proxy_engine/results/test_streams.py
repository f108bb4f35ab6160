"""Streams: closing, leaving or dropping one cancels what it streams."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import pytest

from proxy_engine import (
    AsyncBatchStream,
    AsyncEventStream,
    BatchStream,
    EventStream,
    ExtractionStream,
)
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

    async def read() -> None:
        stream = kind(items(), cancelled.set)
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
