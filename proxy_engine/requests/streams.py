"""The events of a request, which the model thread emits and a thread or an event loop reads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any, TypeAlias

from ..results.events import Event, Finished
from ..results.generation import GenerationResult
from .worker import ProcessGuard

Emit: TypeAlias = Callable[[Event], None]
"""Receives the events of a request, on the thread that runs it."""

Finish: TypeAlias = Callable[[], GenerationResult[Any]]
"""Parses and validates an answer whose tokens are all generated. To be called once.

It is called by the thread that waits for the result: the caller's validators may take any time, and
the model thread serves other requests meanwhile. May emit the last events of the request.
"""

Submit: TypeAlias = Callable[[Emit], "Future[Finish]"]
"""Queues the request; the argument receives its events."""


def events_of(submit: Submit, cancelled: threading.Event) -> Generator[Any]:
    """Queue a request, and yield its events; the last one is ``Finished``.

    Args:
        submit: Queues the request.
        cancelled: Stops the request. It is set when the generator ends.
    """
    guard = ProcessGuard()
    events: SimpleQueue[Event | None] = SimpleQueue()
    future = submit(events.put)
    future.add_done_callback(lambda _: events.put(None))
    with cancelling(cancelled):
        while (event := events.get()) is not None:
            yield event
            guard.check()
        result = future.result()()
        while not events.empty():
            yield events.get()
        yield Finished(result=result)


async def aevents_of(
    submit: Submit, cancelled: threading.Event, threads: Executor
) -> AsyncGenerator[Any]:
    """:func:`events_of` for event loops.

    Args:
        submit: Queues the request. It does not block: the request is compiled.
        cancelled: Stops the request. It is set when the generator ends.
        threads: Finish the answer: the caller's validators may take any time.
    """
    guard = ProcessGuard()
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[Event | None] = asyncio.Queue()

    def put(event: Event | None) -> None:
        # The loop may be closed before the request has stopped.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(events.put_nowait, event)

    future = submit(put)
    future.add_done_callback(lambda _: put(None))
    with cancelling(cancelled):
        while (event := await events.get()) is not None:
            yield event
            guard.check()
        result = await loop.run_in_executor(threads, future.result())
        while not events.empty():
            yield events.get_nowait()
        yield Finished(result=result)


@contextmanager
def cancelling(cancelled: threading.Event) -> Iterator[None]:
    """Cancel the request when the block is left, even by an exception."""
    try:
        yield
    finally:
        cancelled.set()


def ignore(event: Event) -> None:
    """Discard an event."""
