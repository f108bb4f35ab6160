"""The bridge as a process: standard input to commands, replies to standard output, signals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import proxy_engine

from .commands import LoadCommand
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


def serve(source: int, target: int, *, longest_line: int) -> int:
    """Read commands from the file descriptor ``source``, and write replies to ``target``.

    Returns the exit status, when the client has quit, ``source`` has ended, nobody reads
    ``target`` any more, or a signal asks for the end. Where something does not end in time, the
    process ends here.
    """
    return asyncio.run(_serve(source, target, longest_line))


async def _serve(source: int, target: int, longest_line: int) -> int:
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

    def read() -> None:
        with contextlib.suppress(OSError):
            for line in read_lines(partial(os.read, source), longest_line):
                soon(partial(session.receive, line))
        soon(input_ended)

    for number, status in ((signal.SIGTERM, _TERMINATED), (signal.SIGINT, _INTERRUPTED)):
        loop.add_signal_handler(number, end, status)
    threading.Thread(target=read, name="bridge-input", daemon=True).start()
    status = await ending
    is_ended = await session.close()
    is_written = await asyncio.to_thread(writer.close, _SECONDS_TO_END)
    if not (is_ended and is_written):
        # A model that is being loaded cannot be interrupted, and would be waited for.
        os._exit(status)
    return status


def _load(command: LoadCommand) -> InferenceEngine:
    given = command.given()
    options = {name: given[name] for name in ("tool_format", "batch_size") if name in given}
    # Imported by this, in its own time, while input is read.
    return proxy_engine.InferenceEngine(command.path, **options)
