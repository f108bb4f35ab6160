"""Event streams, for threads and for event loops."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypeVar

from ..results.events import Event, Finished, StreamEvent
from ..results.generation import GenerationResult
from .worker import ProcessGuard

T = TypeVar("T")

Emit: TypeAlias = Callable[[Event], None]
"""Receives the events of a request, on the thread that runs it."""

Finish: TypeAlias = Callable[[], GenerationResult[Any]]
"""Parses and validates an answer whose tokens are all generated. To be called once.

It is called by the thread that waits for the result: the caller's validators may take any time, and
the model thread serves other requests meanwhile. May emit the last events of the request.
"""

Submit: TypeAlias = Callable[[Emit], "Future[Finish]"]
"""Queues the request; the argument receives its events."""


class Closing(ABC):
    """A context manager that closes itself on exit."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClosing(ABC):
    """:class:`Closing` for event loops."""

    @abstractmethod
    async def aclose(self) -> None:
        """Release all resources. Idempotent."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class EventStream(Closing, Generic[T]):
    """The events of one request; the last one is ``Finished``.

    The request is queued when the first event is requested. The model does not wait for the reader.
    Closing or dropping the stream cancels the request. ``next`` raises the request's errors.
    """

    def __init__(self, submit: Submit, cancelled: threading.Event) -> None:
        self._cancelled = cancelled
        # A function, not a method: the generator must not keep the stream alive.
        self._events: Generator[Any, None, None] = _read(submit, cancelled)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> StreamEvent[GenerationResult[T]]:
        event: StreamEvent[GenerationResult[T]] = next(self._events)
        return event

    def result(self) -> GenerationResult[T]:
        """Read to the end and return the result of ``Finished``.

        Raises:
            RuntimeError: The stream has ended already.
            ProxyError: The error of the request.
        """
        for event in self:
            if isinstance(event, Finished):
                return event.result
        raise RuntimeError("the stream has no more events")

    def cancel(self) -> None:
        """Stop the request at its next token. For any thread.

        The stream continues to ``Finished``, with the finish reason ``cancelled``.
        """
        self._cancelled.set()

    def close(self) -> None:
        """Cancel the request and end the stream. Idempotent.

        A thread that waits for the next event receives ``Finished``, as after ``cancel``.
        """
        self._cancelled.set()
        # A generator that is running in another thread refuses to be closed.
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
        result = future.result()()
        while not events.empty():
            yield events.get()
        yield Finished(result=result)
    finally:
        cancelled.set()


class AsyncEventStream(AsyncClosing, Generic[T]):
    """:class:`EventStream` for an event loop. A cancelled task cancels the request."""

    def __init__(self, submit: Submit, cancelled: threading.Event, threads: Executor) -> None:
        self._cancelled = cancelled
        self._events = _read_async(submit, cancelled, threads)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent[GenerationResult[T]]:
        event: StreamEvent[GenerationResult[T]] = await anext(self._events)
        return event

    async def result(self) -> GenerationResult[T]:
        """Read to the end and return the result of ``Finished``.

        Raises:
            RuntimeError: The stream has ended already.
            ProxyError: The error of the request.
        """
        async for event in self:
            if isinstance(event, Finished):
                return event.result
        raise RuntimeError("the stream has no more events")

    def cancel(self) -> None:
        """Stop the request at its next token. For any thread.

        The stream continues to ``Finished``, with the finish reason ``cancelled``.
        """
        self._cancelled.set()

    async def aclose(self) -> None:
        """Cancel the request and end the stream. Idempotent.

        A task that waits for the next event receives ``Finished``, as after ``cancel``.
        """
        self._cancelled.set()
        # A generator that is running in another task refuses to be closed.
        with contextlib.suppress(RuntimeError):
            await self._events.aclose()

    def __del__(self) -> None:
        self._cancelled.set()


async def _read_async(
    submit: Submit, cancelled: threading.Event, threads: Executor
) -> AsyncGenerator[Any, None]:
    guard = ProcessGuard()
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[Event | None] = asyncio.Queue()

    def put(event: Event | None) -> None:
        # The loop may be closed before the request has stopped.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(events.put_nowait, event)

    # Does not block: the request is compiled, and queueing takes no time.
    future = submit(put)
    future.add_done_callback(lambda _: put(None))
    try:
        while (event := await events.get()) is not None:
            yield event
            guard.check()
        # Not on the loop: the caller's validators may take any time.
        result = await loop.run_in_executor(threads, future.result())
        while not events.empty():
            yield events.get_nowait()
        yield Finished(result=result)
    finally:
        cancelled.set()


@contextmanager
def cancelling(cancelled: threading.Event) -> Iterator[None]:
    """Cancel the request when the block is left, even by an exception."""
    try:
        yield
    finally:
        cancelled.set()


def ignore(event: Event) -> None:
    """Discard an event."""
