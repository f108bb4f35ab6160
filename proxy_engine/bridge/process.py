"""The bridge as a process: threads for input and output, signals, and shutdown."""

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
from ..media.options import MediaOptions
from .commands import LoadCommand
from .errors import ProtocolError
from .lines import LineWriter, read_lines
from .session import Session

if TYPE_CHECKING:
    from ..engine import InferenceEngine

_DONE = 0
_INTERRUPTED = 130
_BROKEN_PIPE = 141
_TERMINATED = 143
_GRACE_SECONDS = 5.0
_POLL_SECONDS = 1.0
# Lines that were read and not yet executed; each may be as long as a line may be.
_MAX_PENDING_LINES = 8

_ENGINE_ARGUMENTS = {"tool_format", "batch_size", "draft_model", "num_draft_tokens"}


def serve(source: int, target: int, *, max_line_bytes: int) -> NoReturn:
    """Execute commands until the client quits, the pipes close, or a signal; then exit the process.

    Args:
        source: The file descriptor of the commands.
        target: The file descriptor of the replies.
        max_line_bytes: The maximum length of a command.
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
        # Raised after the loop was closed, when nothing is left to do.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(call)

    writer = LineWriter(target, lambda: soon(partial(end, _BROKEN_PIPE)))
    session = Session(writer.write, load_engine, partial(end, _DONE), grace=_GRACE_SECONDS)

    def input_ended() -> None:
        # After `quit` with `wait`, the client closes the input and still reads replies.
        if not session.is_quitting:
            end(_DONE)

    # Back pressure: a client that writes faster than commands are executed blocks.
    pending = threading.Semaphore(_MAX_PENDING_LINES)

    def receive(line: bytes | ProtocolError) -> None:
        pending.release()
        session.receive(line)

    def read() -> None:
        with contextlib.suppress(OSError):
            for line in read_lines(partial(os.read, source), max_line_bytes):
                pending.acquire()
                soon(partial(receive, line))
        soon(input_ended)

    for number, status in ((signal.SIGTERM, _TERMINATED), (signal.SIGINT, _INTERRUPTED)):
        loop.add_signal_handler(number, end, status)
    threading.Thread(target=read, name="bridge-input", daemon=True).start()
    collecting = asyncio.create_task(own_process.collect_when_idle(lambda: session.is_idle))
    watching = asyncio.create_task(_reader_closed(target))
    watching.add_done_callback(lambda _: end(_BROKEN_PIPE))
    status = await ending
    collecting.cancel()
    await session.close()
    # Not on a thread of the pool: all of its threads may be blocked.
    writer.close(_GRACE_SECONDS)
    for stream in (sys.stdout, sys.stderr):
        # A stream that was closed at the start is `None`.
        with contextlib.suppress(OSError, AttributeError):
            stream.flush()
    # Python would wait for a model that is being loaded, and MLX may abort the process if a thread
    # that has used it ends at process exit.
    os._exit(status)


async def _reader_closed(target: int) -> None:
    """Poll until the reader of ``target`` has closed it.

    Writing alone would notice it too late: a parent may end while another of its processes keeps
    the input open.
    """
    poll = select.poll()
    poll.register(target, 0)
    while not any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0)):
        await asyncio.sleep(_POLL_SECONDS)


def load_engine(command: LoadCommand) -> InferenceEngine:
    """Load the model of a command, which takes seconds; called on a thread."""
    options = command.model_dump(include=_ENGINE_ARGUMENTS, exclude_none=True)
    media = MediaOptions(allow_urls=bool(command.allow_image_urls))
    # The attribute imports MLX, on this thread, while commands are read.
    engine = proxy_engine.InferenceEngine(command.path, media=media, **options)
    own_process.freeze()
    return engine
