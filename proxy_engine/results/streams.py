"""Streams: iterators that cancel their requests when they are closed or dropped.

There is one for threads, :class:`Stream`, and one for event loops, :class:`AsyncStream`. Each reads
a generator, which must not refer to the stream: nobody could drop the stream otherwise.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from typing import Any, Generic, Self, TypeVar

from .events import Finished
from .events import StreamEvent as StreamEvent  # The subscript works for type checkers alone.
from .generation import GenerationResult

E = TypeVar("E")
T = TypeVar("T")


def _nothing() -> None:
    """Cancel nothing: closing the generator is enough."""


class Stream(Generic[E]):
    """An iterator and context manager that cancels its requests when it is closed or dropped.

    Args:
        items: Yields the items.
        cancel: Stops the requests at their next token. For any thread.
    """

    def __init__(
        self, items: Generator[E, None, Any], cancel: Callable[[], None] = _nothing
    ) -> None:
        self._items = items
        self._cancel = cancel

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> E:
        return next(self._items)

    def close(self) -> None:
        """Cancel the requests, and end the stream. Idempotent.

        A thread that waits for the next item receives it, as after ``cancel``.
        """
        self._cancel()
        # A generator that is running in another thread refuses to be closed.
        with suppress(ValueError):
            self._items.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._cancel()


class AsyncStream(Generic[E]):
    """:class:`Stream` for event loops. A cancelled task cancels the requests."""

    def __init__(self, items: AsyncGenerator[E], cancel: Callable[[], None]) -> None:
        self._items = items
        self._cancel = cancel

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E:
        return await anext(self._items)

    async def aclose(self) -> None:
        """Cancel the requests, and end the stream. Idempotent.

        A task that waits for the next item receives it, as after ``cancel``.
        """
        self._cancel()
        # A generator that is running in another task refuses to be closed.
        with suppress(RuntimeError):
            await self._items.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        self._cancel()


class EventStream(Stream["StreamEvent[GenerationResult[T | None]]"], Generic[T]):
    """The events of one request; the last one is ``Finished``.

    The request is queued when the first event is requested. The model does not wait for the reader.
    Closing or dropping the stream cancels the request. ``next`` raises the request's errors.
    """

    def result(self) -> GenerationResult[T | None]:
        """Read to the end and return the result of ``Finished``.

        Its ``parsed`` is ``None`` if the stream was cancelled.

        Raises:
            RuntimeError: The stream has ended already.
            ProxyError: The error of the request.
        """
        for event in self:
            if isinstance(event, Finished):
                return event.result
        raise _ended()

    def cancel(self) -> None:
        """Stop the request at its next token. For any thread.

        The stream continues to ``Finished``, with the finish reason ``cancelled``.
        """
        self._cancel()


class AsyncEventStream(AsyncStream["StreamEvent[GenerationResult[T | None]]"], Generic[T]):
    """:class:`EventStream` for an event loop. A cancelled task cancels the request."""

    async def result(self) -> GenerationResult[T | None]:
        """Read to the end and return the result of ``Finished``; see :meth:`EventStream.result`."""
        async for event in self:
            if isinstance(event, Finished):
                return event.result
        raise _ended()

    def cancel(self) -> None:
        """Stop the request at its next token; see :meth:`EventStream.cancel`."""
        self._cancel()


def _ended() -> RuntimeError:
    return RuntimeError("the stream has no more events")
