"""The events of a request, and the results of a batch, as threads and event loops read them."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from concurrent.futures import CancelledError, Executor
from contextlib import AbstractContextManager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeAlias

from ..conversation.messages import Prompt
from ..errors import EngineClosedError
from ..results.events import Event, Finished
from ..results.generation import GenerationResult
from ..results.streams import BatchItem, BatchRequest
from .retries import Attempts
from .worker import ProcessGuard, on_own_thread

REQUESTS_AHEAD = 4
"""Requests that a batch reads ahead, for each that runs: prepared ones are always waiting."""

_MEDIA_BYTES_AHEAD = 256 << 20
"""Beyond ``batch_size``, requests are read ahead while media of unfinished ones take less."""


def events_of(attempts: Attempts) -> Generator[Any]:
    """Queue a request, and yield its events; the last one is ``Finished``.

    The request is cancelled when the generator ends.
    """
    guard = ProcessGuard()
    events: SimpleQueue[Event | None] = SimpleQueue()
    try:
        while True:
            future = attempts.submit(events.put)
            future.add_done_callback(lambda _: events.put(None))
            while (event := events.get()) is not None:
                yield event
                guard.check()
            result = attempts.finish(future.result())
            while not events.empty():
                yield events.get()
            if result is not None:
                yield Finished(result=result)
                return
            yield attempts.rejection()
    finally:
        attempts.cancel()


class PendingAttempts:
    """The attempts at a request that is checked and compiled when it is first awaited.

    Args:
        prepare: Prepares the request. Called once, and then released.
    """

    def __init__(self, prepare: Callable[[], Awaitable[Attempts]]) -> None:
        self._prepare: Callable[[], Awaitable[Attempts]] | None = prepare
        self._attempts: Attempts | None = None
        self._lock = asyncio.Lock()

    async def get(self) -> Attempts:
        """Return the attempts; the request has been prepared then.

        Raises:
            ProxyError: The request is invalid.
            RuntimeError: An earlier call has raised.
        """
        async with self._lock:
            if self._attempts is None:
                if self._prepare is None:
                    raise RuntimeError("the stream has no more events")
                prepare, self._prepare = self._prepare, None
                self._attempts = await prepare()
            return self._attempts


async def aevents_of(pending: PendingAttempts, threads: Executor) -> AsyncGenerator[Any]:
    """:func:`events_of` for event loops.

    Args:
        pending: The request. Queueing it does not block, since it is compiled before.
        threads: Finish the answer: the caller's validators may take any time.
    """
    attempts = await pending.get()
    guard = ProcessGuard()
    loop = asyncio.get_running_loop()
    events = _Mailbox(loop)
    try:
        while True:
            future = attempts.submit(events.put)
            future.add_done_callback(lambda _: events.put(None))
            while (event := await events.get()) is not None:
                yield event
                guard.check()
            result = await loop.run_in_executor(threads, attempts.finish, future.result())
            while not events.is_empty():
                yield await events.get()
            if result is not None:
                yield Finished(result=result)
                return
            yield attempts.rejection()
    finally:
        attempts.cancel()


class _Mailbox:
    """Events of a thread for one task of an event loop, which it wakes once for several events."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._events: deque[Event | None] = deque()
        self._arrived = asyncio.Event()
        self._is_awaited = False

    def put(self, event: Event | None) -> None:
        """Add an event. For any thread."""
        self._events.append(event)
        if self._is_awaited:
            self._is_awaited = False
            # The loop may be closed before the request has stopped.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._arrived.set)

    async def get(self) -> Event | None:
        """Wait for the next event."""
        while not self._events:
            self._arrived.clear()
            self._is_awaited = True
            # Between the two tests, an event may have come without waking the loop.
            if not self._events:
                await self._arrived.wait()
        return self._events.popleft()

    def is_empty(self) -> bool:
        """Whether no event has come."""
        return not self._events


class QueuedRequest:
    """A request that is queued or runs.

    Attributes:
        future: The end of the answer of its latest attempt.
    """

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self.future = attempts.submit()

    @property
    def media_bytes(self) -> int:
        """Memory of its decoded images and recordings, in bytes."""
        return self._attempts.request.prompt.media_bytes

    def cancel(self) -> None:
        """Stop it at its next token. For any thread."""
        self._attempts.cancel()

    def result(self) -> GenerationResult[Any] | None:
        """Wait for the answer, then parse and validate it. To be called once for each attempt.

        Returns:
            ``None`` if the answer is rejected and another attempt is queued.
        """
        result = self._attempts.finish(self.future.result())
        if result is None:
            self.future = self._attempts.submit()
        return result


Queue: TypeAlias = Callable[[BatchRequest], QueuedRequest]
"""Prepares and queues a request; raises if the request is invalid."""


class RunningBatch:
    """The requests of a batch that were read and not returned.

    Args:
        queue: Prepares and queues a request.
        requests: The requests.
        batch_size: Maximum number of requests that run together. ``REQUESTS_AHEAD`` times as many
            are read before their items are returned; fewer if they have large images.
        announced: Called before requests are queued, in whose context this happens; see
            :meth:`Scheduler.announced`.
        ordered: Return items in the order of the requests, otherwise as they finish.
    """

    def __init__(
        self,
        queue: Queue,
        requests: Iterable[Prompt | BatchRequest],
        *,
        batch_size: int,
        announced: Callable[[], AbstractContextManager[None]],
        ordered: bool = True,
    ) -> None:
        self._queue = queue
        self._announced = announced
        self._requests = enumerate(requests)
        self._batch_size = batch_size
        self._is_ordered = ordered
        self._cancelled = threading.Event()
        self._queued: dict[int, QueuedRequest] = {}
        self._finished: dict[int, BatchItem[Any]] = {}
        self._ended: SimpleQueue[int] = SimpleQueue()

    def cancel(self) -> None:
        """Stop all requests at their next token, and read no more. For any thread."""
        self._cancelled.set()
        for queued in list(self._queued.values()):
            queued.cancel()

    def items(self) -> Generator[BatchItem[Any]]:
        """Yield the outcomes. Closing the generator cancels the requests."""
        guard = ProcessGuard()
        following = 0
        try:
            while True:
                guard.check()
                with self._announced():
                    while self._has_room() and (numbered := next(self._requests, None)) is not None:
                        self._read(*numbered)
                if self._finished and not self._is_ordered:
                    following = next(iter(self._finished))
                if following in self._finished:
                    yield self._finished.pop(following)
                    following += 1
                elif self._queued:
                    index = self._ended.get()
                    item = _item(index, self._queued[index])
                    if item is None:
                        self._await(index)
                    else:
                        del self._queued[index]
                        self._finished[index] = item
                else:
                    return
        finally:
            self.cancel()

    def _has_room(self) -> bool:
        queued = self._queued.values()
        return (
            not self._cancelled.is_set()
            and len(queued) + len(self._finished) < REQUESTS_AHEAD * self._batch_size
            and (
                len(queued) < self._batch_size
                or sum(request.media_bytes for request in queued) < _MEDIA_BYTES_AHEAD
            )
        )

    def _read(self, index: int, request: Prompt | BatchRequest) -> None:
        if not isinstance(request, BatchRequest):
            request = BatchRequest(request)
        try:
            self._queued[index] = self._queue(request)
        except EngineClosedError:
            raise
        except Exception as error:
            self._finished[index] = BatchItem(index, error=error)
            return
        self._await(index)

    def _await(self, index: int) -> None:
        """Note when the latest attempt at a request ends."""
        queued, ended = self._queued[index], self._ended
        if self._cancelled.is_set():
            queued.cancel()
        queued.future.add_done_callback(lambda _: ended.put(index))


def _item(index: int, queued: QueuedRequest) -> BatchItem[Any] | None:
    """Return the outcome of a request; ``None`` if another attempt is queued."""
    try:
        result = queued.result()
        return None if result is None else BatchItem(index, result)
    except (Exception, CancelledError) as error:
        return BatchItem(index, error=error)


async def aitems(batch: RunningBatch) -> AsyncGenerator[BatchItem[Any]]:
    """Yield the outcomes of a batch to an event loop. A cancelled task cancels the requests."""
    items = batch.items()
    try:
        while (item := await on_own_thread(partial(next, items, None))) is not None:
            yield item
    finally:
        # The thread of a cancelled task may still receive an item; it is lost.
        batch.cancel()
