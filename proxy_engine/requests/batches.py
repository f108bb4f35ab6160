"""Batches: streams of results for any number of requests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, Self, TypeAlias, TypeVar

from ..conversation.messages import Prompt
from ..errors import EngineClosedError
from ..options.overrides import OptionOverrides
from ..results.generation import GenerationResult
from .streams import AsyncClosing, Closing, Finish
from .worker import ProcessGuard, on_own_thread

T = TypeVar("T")

REQUESTS_AHEAD = 4
"""Requests that a batch reads ahead, for each that runs: prepared ones are always waiting."""

_MEDIA_BYTES_AHEAD = 256 << 20
"""Beyond ``batch_size``, requests are read ahead while media of unfinished ones take less."""


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A request that differs from the others of its batch in more than the prompt.

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


@dataclass(frozen=True, slots=True)
class Begun:
    """A request that is queued or runs. Setting ``cancelled`` stops it at its next token.

    Attributes:
        future: The end of its answer.
        cancelled: Stops it.
        media_bytes: Memory of its decoded images and recordings, in bytes.
    """

    future: Future[Finish]
    cancelled: threading.Event
    media_bytes: int = 0

    def result(self, timeout: float | None = None) -> GenerationResult[Any]:
        """Wait for the answer, then parse and validate it. To be called once.

        Args:
            timeout: Limit on the wait in seconds.

        Raises:
            TimeoutError: The answer takes longer.
        """
        return self.future.result(timeout)()


Begin: TypeAlias = Callable[[BatchRequest], Begun]
"""Prepares and queues a request; raises if the request is invalid."""


class BatchStream(Closing, Generic[T]):
    """An iterator over the outcomes of a batch.

    Requests are read from the iterable as they can be run, so there may be any number of them. An
    error of one request is stored in its item. ``next`` raises if the iterable raises or the engine
    is closed; the other requests are then cancelled. Closing or dropping the stream cancels all
    requests.

    Args:
        begin: Prepares and queues a request.
        requests: The requests.
        batch_size: Maximum number of requests that run together. ``REQUESTS_AHEAD`` times as many
            are read before their items are returned; fewer if they have large images.
        ordered: Return items in the order of the requests, otherwise as they finish.
    """

    def __init__(
        self,
        begin: Begin,
        requests: Iterable[Prompt | BatchRequest],
        *,
        batch_size: int,
        ordered: bool = True,
    ) -> None:
        self._cancelled = threading.Event()
        self._begun: dict[int, Begun] = {}
        # A function, not a method: the generator must not keep the stream alive.
        self._items: Iterator[BatchItem[Any]] = _items(
            begin,
            iter(requests),
            batch_size,
            ordered,
            self._begun,
            self._cancelled,
        )

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> BatchItem[T]:
        return next(self._items)

    def cancel(self) -> None:
        """Stop all requests at their next token, and begin no more. For any thread.

        The stream continues with the items of the requests that have begun.
        """
        self._cancelled.set()
        for begun in list(self._begun.values()):
            begun.cancelled.set()

    def close(self) -> None:
        """Cancel all requests and end the stream. Idempotent."""
        self.cancel()
        self._items = iter(())

    def __del__(self) -> None:
        self.cancel()


def _items(
    begin: Begin,
    requests: Iterator[Prompt | BatchRequest],
    batch_size: int,
    ordered: bool,
    begun: dict[int, Begun],
    cancelled: threading.Event,
) -> Iterator[BatchItem[Any]]:
    guard = ProcessGuard()
    ended: SimpleQueue[int] = SimpleQueue()
    waiting: dict[int, BatchItem[Any]] = {}
    numbered = enumerate(requests)
    following = 0
    has_more = True
    try:
        while True:
            guard.check()
            while (
                has_more
                and not cancelled.is_set()
                and len(begun) + len(waiting) < REQUESTS_AHEAD * batch_size
                and _has_memory(begun.values(), batch_size)
            ):
                try:
                    index, request = next(numbered)
                except StopIteration:
                    has_more = False
                    break
                if not isinstance(request, BatchRequest):
                    request = BatchRequest(request)
                try:
                    one = begun[index] = begin(request)
                except EngineClosedError:
                    raise
                except Exception as error:
                    waiting[index] = BatchItem(index, error=error)
                else:
                    if cancelled.is_set():
                        one.cancelled.set()
                    one.future.add_done_callback(partial(_put_index, ended, index))
            if ordered and following in waiting:
                yield waiting.pop(following)
                following += 1
            elif not ordered and waiting:
                yield waiting.pop(next(iter(waiting)))
            elif begun:
                index = ended.get()
                waiting[index] = _item(index, begun.pop(index))
            else:
                return
    finally:
        for one in begun.values():
            one.cancelled.set()


def _has_memory(begun: Collection[Begun], batch_size: int) -> bool:
    media_bytes = sum(one.media_bytes for one in begun)
    return len(begun) < batch_size or media_bytes < _MEDIA_BYTES_AHEAD


def _put_index(ended: SimpleQueue[int], index: int, _: object) -> None:
    ended.put(index)


def _item(index: int, begun: Begun) -> BatchItem[Any]:
    try:
        return BatchItem(index, begun.result())
    except (Exception, CancelledError) as error:
        return BatchItem(index, error=error)


class AsyncBatchStream(AsyncClosing, Generic[T]):
    """:class:`BatchStream` for an event loop. A cancelled task cancels the requests."""

    def __init__(self, stream: BatchStream[T]) -> None:
        self._stream = stream

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BatchItem[T]:
        try:
            item: BatchItem[T] | None = await on_own_thread(partial(next, self._stream, None))
        except asyncio.CancelledError:
            # The thread may still receive an item; it is lost.
            self._stream.close()
            raise
        if item is None:
            raise StopAsyncIteration
        return item

    def cancel(self) -> None:
        """Stop all requests at their next token; see :meth:`BatchStream.cancel`."""
        self._stream.cancel()

    async def aclose(self) -> None:
        """Cancel all requests and end the stream. Idempotent."""
        self._stream.close()
