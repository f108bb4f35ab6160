"""The bridge as a process: standard input to commands, replies to standard output, signals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import proxy_engine

from .. import own_process
from .commands import LoadCommand
from .errors import ProtocolError
from .lines import LineWriter, read_lines
from .session import Session

if TYPE_CHECKING:
    from ..engine import InferenceEngine

__all__ = ["serve"]

_DONE = 0
_INTERRUPTED = 130
_BROKEN_PIPE = 141
_TERMINATED = 143
_SECONDS_TO_END = 5.0
_SECONDS_BETWEEN_LOOKS = 1.0
# Lines that were read and wait for their turn; each may be as long as a line may be.
_LINES_AHEAD = 8


def serve(source: int, target: int, *, max_line_bytes: int) -> NoReturn:
    """Read commands from the file descriptor ``source``, and write replies to ``target``.

    Ends the process when the client has quit, ``source`` has ended, nobody reads ``target`` any
    more, or a signal asks for the end.
    """
    own_process.take_over()
    asyncio.run(_serve(source, target, max_line_bytes))
    raise AssertionError("the process has ended")


async def _serve(source: int, target: int, max_line_bytes: int) -> NoReturn:
    loop = asyncio.get_running_loop()
    ending: asyncio.Future[int] = loop.create_future()

    def end(status: int) -> None:
        if not ending.done():
            ending.set_result(status)

    def soon(call: Callable[[], None]) -> None:
        # A loop that was closed has nothing left to do.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(call)

    writer = LineWriter(target, lambda: soon(partial(end, _BROKEN_PIPE)))
    session = Session(writer.write, _load, partial(end, _DONE), grace=_SECONDS_TO_END)

    def input_ended() -> None:
        # Who quits and waits has nothing more to say, but listens.
        if not session.is_quitting:
            end(_DONE)

    # So that a client which writes faster than it is answered waits, and fills no memory here.
    ahead = threading.Semaphore(_LINES_AHEAD)

    def receive(line: bytes | ProtocolError) -> None:
        ahead.release()
        session.receive(line)

    def read() -> None:
        with contextlib.suppress(OSError):
            for line in read_lines(partial(os.read, source), max_line_bytes):
                ahead.acquire()
                soon(partial(receive, line))
        soon(input_ended)

    for number, status in ((signal.SIGTERM, _TERMINATED), (signal.SIGINT, _INTERRUPTED)):
        loop.add_signal_handler(number, end, status)
    threading.Thread(target=read, name="bridge-input", daemon=True).start()
    collecting = asyncio.create_task(own_process.collect_when_idle(lambda: session.is_idle))
    watching = asyncio.create_task(_nobody_reads(target))
    watching.add_done_callback(lambda _: end(_BROKEN_PIPE))
    status = await ending
    collecting.cancel()
    await session.close()
    # On no thread of a pool, whose threads may all be at what does not end.
    writer.close(_SECONDS_TO_END)
    for stream in (sys.stdout, sys.stderr):
        # One that was closed from the beginning is `None`.
        with contextlib.suppress(OSError, AttributeError):
            stream.flush()
    # Python would wait for a model that is being loaded, and MLX may abort a process that ends at
    # the same moment as a thread which has used it.
    os._exit(status)


async def _nobody_reads(target: int) -> None:
    """Wait until nobody reads ``target`` any more, which writing alone would show too late.

    A parent may be gone while another process of its keeps the input open.
    """
    poll = select.poll()
    poll.register(target, 0)
    while not any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0)):
        await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)


def _load(command: LoadCommand) -> InferenceEngine:
    given = command.given()
    options = {name: given[name] for name in ("tool_format", "batch_size") if name in given}
    # Imported by this, in its own time, while input is read.
    engine = proxy_engine.InferenceEngine(command.path, **options)
    own_process.freeze()
    return engine
