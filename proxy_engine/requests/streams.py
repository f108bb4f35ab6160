"""The events of a request, and the results of a batch, as threads and event loops read them."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from concurrent.futures import CancelledError, Executor, Future
from contextlib import AbstractContextManager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeAlias

from ..conversation.messages import Prompt
from ..errors import EngineClosedError
from ..results.events import Event, Finished
from ..results.streams import BatchItem, BatchRequest
from ..runtime.worker import check_process, on_own_thread
from .request import Finish
from .retries import Attempts

REQUESTS_AHEAD = 4
"""Requests that a batch reads ahead, for each that runs: prepared ones are always waiting."""

_MEDIA_BYTES_AHEAD = 256 << 20
"""Beyond ``batch_size``, requests are read ahead while media of unfinished ones take less."""


def events_of(attempts: Attempts) -> Generator[Any]:
    """Queue a request, and yield its events up to ``Finished``.

    The request is cancelled when the generator ends.
    """
    events: SimpleQueue[Event | None] = SimpleQueue()
    try:
        while True:
            future = attempts.submit(events.put)
            future.add_done_callback(lambda _: events.put(None))
            while (event := events.get()) is not None:
                yield event
                check_process()
            result = attempts.finish(future.result())
            while not events.empty():
                yield events.get()
            if result is not None:
                yield Finished(result=result)
                return
            yield attempts.rejection()
    finally:
        attempts.cancel()


async def aevents_of(attempts: Attempts, threads: Executor) -> AsyncGenerator[Any]:
    """:func:`events_of` for event loops.

    Args:
        attempts: The request. Queueing it does not block, since it is compiled before.
        threads: Finish the answer: the caller's validators may take any time.
    """
    loop = asyncio.get_running_loop()
    events = _Mailbox(loop)
    try:
        while True:
            future = attempts.submit(events.put)
            future.add_done_callback(lambda _: events.put(None))
            while (event := await events.get()) is not None:
                yield event
                check_process()
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


Prepare: TypeAlias = Callable[[BatchRequest], Attempts]
"""Prepares a request; raises if it is invalid."""


class RunningBatch:
    """The requests of a batch that were read and not returned.

    Args:
        prepare: Prepares a request.
        requests: The requests.
        batch_size: Maximum number of requests that run together. ``REQUESTS_AHEAD`` times as many
            are read before their items are returned; fewer if they have large images.
        announced: Called before requests are queued, in whose context this happens; see
            :meth:`Scheduler.announced`.
        ordered: Return items in the order of the requests, otherwise as they finish.
    """

    def __init__(
        self,
        prepare: Prepare,
        requests: Iterable[Prompt | BatchRequest],
        *,
        batch_size: int,
        announced: Callable[[], AbstractContextManager[None]],
        ordered: bool = True,
    ) -> None:
        self._prepare = prepare
        self._announced = announced
        self._requests = enumerate(requests)
        self._batch_size = batch_size
        self._is_ordered = ordered
        self._cancelled = threading.Event()
        self._queued: dict[int, Attempts] = {}
        self._finished: dict[int, BatchItem[Any]] = {}
        # The attempts that have ended, by the indices of their requests.
        self._ended: SimpleQueue[tuple[int, Future[Finish]]] = SimpleQueue()

    def cancel(self) -> None:
        """Stop all requests at their next token, and read no more. For any thread."""
        self._cancelled.set()
        for attempts in list(self._queued.values()):
            attempts.cancel()

    def items(self) -> Generator[BatchItem[Any]]:
        """Yield the outcomes. Closing the generator cancels the requests."""
        following = 0
        try:
            while True:
                check_process()
                with self._announced():
                    while self._has_room() and (numbered := next(self._requests, None)) is not None:
                        self._read(*numbered)
                if self._finished and not self._is_ordered:
                    following = next(iter(self._finished))
                if following in self._finished:
                    yield self._finished.pop(following)
                    following += 1
                elif self._queued:
                    index, attempt = self._ended.get()
                    item = self._item(index, attempt)
                    if item is not None:
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
                or sum(attempts.request.prompt.media_bytes for attempts in queued)
                < _MEDIA_BYTES_AHEAD
            )
        )

    def _read(self, index: int, request: Prompt | BatchRequest) -> None:
        if not isinstance(request, BatchRequest):
            request = BatchRequest(request)
        try:
            attempts = self._prepare(request)
            self._submit(index, attempts)
        except EngineClosedError:
            raise
        except Exception as error:
            self._finished[index] = BatchItem(index, error=error)
        else:
            self._queued[index] = attempts

    def _submit(self, index: int, attempts: Attempts) -> None:
        """Queue the latest attempt at a request, and note when it ends."""
        ended, future = self._ended, attempts.submit()
        if self._cancelled.is_set():
            attempts.cancel()
        future.add_done_callback(lambda attempt: ended.put((index, attempt)))

    def _item(self, index: int, attempt: Future[Finish]) -> BatchItem[Any] | None:
        """Return the outcome of a request; ``None`` if another attempt is queued."""
        attempts = self._queued[index]
        try:
            result = attempts.finish(attempt.result())
            if result is None:
                self._submit(index, attempts)
                return None
        except (Exception, CancelledError) as error:
            return BatchItem(index, error=error)
        return BatchItem(index, result)


async def aitems(batch: RunningBatch) -> AsyncGenerator[BatchItem[Any]]:
    """Yield the outcomes of a batch to an event loop. A cancelled task cancels the requests."""
    items = batch.items()
    try:
        while (item := await on_own_thread(partial(next, items, None))) is not None:
            yield item
    finally:
        # The thread of a cancelled task may still receive an item; it is lost.
        batch.cancel()
