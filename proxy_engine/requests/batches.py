"""Many requests at once: what is asked for, and what comes of each."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, Self, TypeAlias, TypeVar

from ..conversation.messages import Prompt
from ..errors import EngineClosedError
from ..option_overrides import OptionOverrides
from ..results import GenerationResult
from .streams import AsyncClosing, Closing
from .worker import ProcessGuard

__all__ = ["AsyncBatchStream", "BatchItem", "BatchRequest", "BatchStream", "Begin", "Begun"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One request of a batch, where it differs from the others in more than its prompt.

    What is ``None`` here, or not in ``options``, is as the batch has it.
    """

    prompt: Prompt
    response_format: Any = None
    tools: Any = None
    tool_choice: Any = None
    options: OptionOverrides = field(default_factory=OptionOverrides)


@dataclass(frozen=True, slots=True)
class BatchItem(Generic[T]):
    """What came of the request number ``index``, from 0: a result, or else an error."""

    index: int
    result: GenerationResult[T] | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """A request that is queued or runs. Setting ``cancelled`` ends it at its next token."""

    future: Future[GenerationResult[Any]]
    cancelled: threading.Event


Begin: TypeAlias = Callable[[BatchRequest], Begun]
"""Checks and queues a request; raises what is wrong with it."""


class BatchStream(Closing, Generic[T]):
    """What comes of the requests of one batch, one by one: an iterator of ``BatchItem``.

    ``requests`` are asked for as they can be run, at most ``ahead`` of them before the first of
    them was handed out; so there may be any number. They come out in their order, or with
    ``ordered=False`` as they are finished. What is wrong with one is told in its item alone.
    Where asking for them raises, or the engine is closed, ``next`` does, and the others are
    cancelled.

    ``cancel``, from any thread, ends all of them at their next token, with what there is; no more
    are begun. A stream that is closed or forgotten is cancelled, too.
    """

    def __init__(
        self,
        begin: Begin,
        requests: Iterable[Prompt | BatchRequest],
        *,
        ahead: int,
        ordered: bool = True,
    ) -> None:
        self._cancelled = threading.Event()
        self._begun: dict[int, Begun] = {}
        items = _items(begin, iter(requests), ahead, ordered, self._begun, self._cancelled)
        self._items: Iterator[BatchItem[Any]] = _cancelling(items, self._begun)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> BatchItem[T]:
        return next(self._items)

    def cancel(self) -> None:
        """End the requests; the stream goes on with what has come of those that were begun."""
        self._cancelled.set()
        for begun in list(self._begun.values()):
            begun.cancelled.set()

    def close(self) -> None:
        """End the requests, and the stream with them. Idempotent."""
        self.cancel()
        self._items = iter(())

    def __del__(self) -> None:
        self.cancel()


def _items(
    begin: Begin,
    requests: Iterator[Prompt | BatchRequest],
    ahead: int,
    ordered: bool,
    begun: dict[int, Begun],
    cancelled: threading.Event,
) -> Iterator[BatchItem[Any]]:
    guard = ProcessGuard()
    ended: SimpleQueue[int] = SimpleQueue()
    waiting: dict[int, BatchItem[Any]] = {}
    numbers = enumerate(requests)
    following = 0
    has_more = True
    while True:
        guard.check()
        while has_more and not cancelled.is_set() and len(begun) + len(waiting) < ahead:
            try:
                index, request = next(numbers)
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
                one.future.add_done_callback(partial(_note, ended, index))
        if ordered and following in waiting:
            yield waiting.pop(following)
            following += 1
        elif not ordered and waiting:
            yield waiting.pop(next(iter(waiting)))
        elif begun:
            index = ended.get()
            waiting[index] = _item(index, begun.pop(index).future)
        else:
            return


def _cancelling(
    items: Iterator[BatchItem[Any]], begun: Mapping[int, Begun]
) -> Iterator[BatchItem[Any]]:
    """However they end, nobody is told of what is left, where they could not be asked for."""
    try:
        yield from items
    finally:
        for one in begun.values():
            one.cancelled.set()


def _note(ended: SimpleQueue[int], index: int, _: object) -> None:
    ended.put(index)


def _item(index: int, future: Future[GenerationResult[Any]]) -> BatchItem[Any]:
    try:
        return BatchItem(index, future.result())
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
            item = await asyncio.to_thread(next, self._stream, None)
        except asyncio.CancelledError:
            # What the thread still gets, nobody is told.
            self._stream.close()
            raise
        if item is None:
            raise StopAsyncIteration
        return item

    def cancel(self) -> None:
        """End the requests; the stream goes on with what has come of those that were begun."""
        self._stream.cancel()

    async def aclose(self) -> None:
        """End the requests, and the stream with them. Idempotent."""
        self._stream.close()
