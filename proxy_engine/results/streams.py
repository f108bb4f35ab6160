"""Streams of events and of the items of batches: iterators that cancel their requests.

There is one for threads, :class:`Stream`, and one for event loops, :class:`AsyncStream`. Each reads
a generator, which must not refer to the stream: a reference would keep a dropped stream alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from ..options.overrides import OptionOverrides
from .events import Finished
from .events import StreamEvent as StreamEvent  # The subscript works for type checkers alone.
from .generation import GenerationResult

if TYPE_CHECKING:
    from ..conversation.messages import Prompt

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


async def _no_items() -> AsyncGenerator[Any]:
    return
    yield


class AsyncStream(Generic[E]):
    """:class:`Stream` for event loops. A cancelled task cancels the requests.

    ``await`` is optional: ``async for item in stream``, ``async for item in await stream``, and
    ``async with stream`` are all valid.

    Args:
        begin: Checks the requests, and returns the items. Called once, and then released: when the
            stream is awaited, entered, or first read.
        cancel: Stops the requests at their next token. For any thread.
    """

    def __init__(
        self, begin: Callable[[], Awaitable[AsyncGenerator[E]]], cancel: Callable[[], None]
    ) -> None:
        self._begin: Callable[[], Awaitable[AsyncGenerator[E]]] | None = begin
        self._cancel = cancel
        self._items: AsyncGenerator[E] | None = None
        # Several tasks may await the stream.
        self._lock = asyncio.Lock()

    async def _begun(self) -> AsyncGenerator[E]:
        async with self._lock:
            if self._items is None:
                if self._begin is None:
                    # The requests are invalid.
                    raise _ended()
                begin, self._begin = self._begin, None
                self._items = await begin()
            return self._items

    def __await__(self) -> Generator[Any, None, Self]:
        yield from self._begun().__await__()
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E:
        return await anext(self._items or await self._begun())

    async def aclose(self) -> None:
        """Cancel the requests, and end the stream. Idempotent.

        A task that waits for the next item receives it, as after ``cancel``.
        """
        self._cancel()
        if self._begin is not None:
            self._begin, self._items = None, _no_items()
        if self._items is not None:
            # A generator that is running in another task refuses to be closed.
            with suppress(RuntimeError):
                await self._items.aclose()

    async def __aenter__(self) -> Self:
        return await self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        self._cancel()


class EventStream(Stream["StreamEvent[GenerationResult[T | None]]"], Generic[T]):
    """The events of a request; the last event is ``Finished``.

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
    """:class:`EventStream` for an event loop. A cancelled task cancels the request.

    The request is checked when the stream is awaited, entered, or first read, which raise its
    errors.
    """

    async def result(self) -> GenerationResult[T | None]:
        """Read to the end and return the result of ``Finished``; see :meth:`EventStream.result`."""
        async for event in self:
            if isinstance(event, Finished):
                return event.result
        raise _ended()

    def cancel(self) -> None:
        """Stop the request at its next token; see :meth:`EventStream.cancel`.

        A request that is still being checked ends with ``RequestCancelledError``.
        """
        self._cancel()


def _ended() -> RuntimeError:
    return RuntimeError("the stream has no more events")


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A request of a batch that has options besides the prompt.

    Attributes:
        prompt: The prompt.
        response_format: Overrides the batch's response format; ``None``: the same.
        tools: Overrides the batch's tools; ``None``: the same.
        tool_choice: Overrides the batch's tool choice; ``None``: the same.
        options: Options that override the batch's.
    """

    prompt: Prompt
    response_format: Any = None
    tools: Any = None
    tool_choice: Any = None
    options: OptionOverrides = field(default_factory=OptionOverrides)


@dataclass(frozen=True, slots=True)
class BatchItem(Generic[T]):
    """The outcome of one request of a batch: a result or an error.

    Attributes:
        index: Position of the request in the batch, from 0.
        result: The result, unless the request failed.
        error: The error, if the request failed.
    """

    index: int
    result: GenerationResult[T] | None = None
    error: Exception | None = None


class BatchStream(Stream[BatchItem[T | None]], Generic[T]):
    """An iterator over the outcomes of a batch.

    Requests are read from the iterable as they can be run, so there may be any number of them. An
    error of one request is stored in its item. ``next`` raises if the iterable raises or the engine
    is closed; the other requests are then cancelled. Closing or dropping the stream cancels all
    requests. ``parsed`` of a cancelled request is ``None``.
    """

    def cancel(self) -> None:
        """Stop all requests at their next token, and begin no more. For any thread.

        The stream continues with the items of the requests that have begun.
        """
        self._cancel()


class AsyncBatchStream(AsyncStream[BatchItem[T | None]], Generic[T]):
    """:class:`BatchStream` for an event loop. A cancelled task cancels the requests."""

    def cancel(self) -> None:
        """Stop all requests at their next token; see :meth:`BatchStream.cancel`."""
        self._cancel()
