"""Streams of events, for threads and for event loops."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Generic, Self, TypeAlias, TypeVar

from ..events import Event, Finished, StreamEvent
from ..results import GenerationResult
from .closing import AsyncClosing, Closing
from .process_guard import ProcessGuard

__all__ = ["AsyncEventStream", "EventStream", "Submit", "cancelling", "ignore"]

T = TypeVar("T")

Submit: TypeAlias = Callable[[Callable[[Event], None]], "Future[GenerationResult[Any]]"]
"""Queues the request, given who is told of its events."""


class EventStream(Closing, Generic[T]):
    """The events of one request; the last one is ``Finished``.

    The request is queued when the first event is asked for, and the model does not wait for the
    reader. ``cancel``, from any thread, ends it at its next token, with what there is. A stream
    that is closed or forgotten is cancelled, too. Errors of the request are raised by ``next``.
    """

    def __init__(self, submit: Submit, cancelled: threading.Event) -> None:
        self._cancelled = cancelled
        # Not a method of the stream's own: a stream that nobody holds must be forgotten.
        self._events: Generator[Any, None, None] = _read(submit, cancelled)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> StreamEvent[GenerationResult[T]]:
        event: StreamEvent[GenerationResult[T]] = next(self._events)
        return event

    def result(self) -> GenerationResult[T]:
        """Go on to the end, and return the result that ``Finished`` tells.

        Raises what the request raises; :class:`RuntimeError` where the stream is at its end.
        """
        for event in self:
            if isinstance(event, Finished):
                return event.result
        raise RuntimeError("the stream has no more events")

    def cancel(self) -> None:
        """End the request; the stream goes on to ``Finished``, whose result is ``cancelled``."""
        self._cancelled.set()

    def close(self) -> None:
        """End the request, and the stream with it. Idempotent.

        Where another thread waits for the next event, it gets ``Finished`` as after ``cancel``.
        """
        self._cancelled.set()
        # That is how a generator refuses to be closed while it runs.
        with contextlib.suppress(ValueError):
            self._events.close()

    def __del__(self) -> None:
        self._cancelled.set()


def _read(submit: Submit, cancelled: threading.Event) -> Generator[Any, None, None]:
    guard = ProcessGuard()
    events: SimpleQueue[Event | None] = SimpleQueue()
    future = submit(events.put)
    future.add_done_callback(lambda _: events.put(None))
    try:
        while (event := events.get()) is not None:
            yield event
            guard.check()
        yield Finished(result=future.result())
    finally:
        cancelled.set()


class AsyncEventStream(AsyncClosing, Generic[T]):
    """:class:`EventStream` for an event loop. A cancelled task cancels the request."""

    def __init__(self, submit: Submit, cancelled: threading.Event) -> None:
        self._cancelled = cancelled
        self._events = _read_async(submit, cancelled)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent[GenerationResult[T]]:
        event: StreamEvent[GenerationResult[T]] = await anext(self._events)
        return event

    async def result(self) -> GenerationResult[T]:
        """Go on to the end, and return the result that ``Finished`` tells.

        Raises what the request raises; :class:`RuntimeError` where the stream is at its end.
        """
        async for event in self:
            if isinstance(event, Finished):
                return event.result
        raise RuntimeError("the stream has no more events")

    def cancel(self) -> None:
        """End the request; the stream goes on to ``Finished``, whose result is ``cancelled``."""
        self._cancelled.set()

    async def aclose(self) -> None:
        """End the request, and the stream with it. Idempotent.

        Where another task waits for the next event, it gets ``Finished`` as after ``cancel``.
        """
        self._cancelled.set()
        # That is how a generator refuses to be closed while it runs.
        with contextlib.suppress(RuntimeError):
            await self._events.aclose()

    def __del__(self) -> None:
        self._cancelled.set()


async def _read_async(submit: Submit, cancelled: threading.Event) -> AsyncGenerator[Any, None]:
    guard = ProcessGuard()
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[Event | None] = asyncio.Queue()

    def put(event: Event | None) -> None:
        # A loop that was closed has no reader any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(events.put_nowait, event)

    # Compiling is done by now, and queueing takes no time.
    future = submit(put)
    future.add_done_callback(lambda _: put(None))
    try:
        while (event := await events.get()) is not None:
            yield event
            guard.check()
        yield Finished(result=future.result())
    finally:
        cancelled.set()


@contextmanager
def cancelling(cancelled: threading.Event) -> Iterator[None]:
    """However the caller stops waiting, nobody listens to the request any more."""
    try:
        yield
    finally:
        cancelled.set()


def ignore(event: Event) -> None:
    """Nobody wants to hear of the request before it is finished."""
