"""The bridge as a process: lines of input and output on threads, signals, and shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, BinaryIO, NoReturn

import proxy_engine

from ..media import MediaOptions
from ..runtime import process_runtime
from .commands import LoadCommand, ProtocolError
from .session import BridgeSession

if TYPE_CHECKING:
    from ..engine.inference_engine import InferenceEngine


_CHUNK = 1 << 16


def read_lines(stream: BinaryIO, limit: int) -> Iterator[bytes | ProtocolError]:
    """Yield the lines of an input.

    Args:
        stream: The input.
        limit: The maximum length of a line in bytes, with its line break. In place of a longer line
            an error is yielded, as soon as the limit is exceeded; the rest of the line is
            discarded.
    """
    while line := stream.readline(limit + 1):
        if len(line) <= limit:
            yield line
            continue
        yield ProtocolError(f"the line has more than {limit} bytes")
        while line and not line.endswith(b"\n"):
            line = stream.readline(_CHUNK)


class LineWriter:
    """Writes lines on a dedicated thread, each without delay.

    Args:
        target: The file descriptor to write to.
        on_broken: Called on that thread when the reader has closed the pipe.
    """

    def __init__(self, target: int, on_broken: Callable[[], None]) -> None:
        self._target = target
        self._on_broken = on_broken
        self._is_broken = False
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="bridge-output", daemon=True)
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Queue a line. Never blocks."""
        if not self._is_broken:
            self._lines.put(line)

    def close(self, seconds: float | None = None) -> bool:
        """Wait until all queued lines are written or the reader has closed the pipe.

        Args:
            seconds: The maximum time; ``None``: no limit.

        Returns:
            Whether that happened in time.
        """
        self._lines.put(None)
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while (line := self._lines.get()) is not None:
                rest = memoryview(line)
                while rest:
                    rest = rest[os.write(self._target, rest) :]
        except OSError:
            self._is_broken = True
            self._on_broken()


_DONE = 0
_INTERRUPTED = 130
_BROKEN_PIPE = 141
_TERMINATED = 143
_GRACE_SECONDS = 5.0
_POLL_SECONDS = 1.0
# Lines that were read and not yet executed; each may be as long as a line may be.
_MAX_PENDING_LINES = 8

_OTHER_FIELDS = {"cmd", "path", "allow_image_urls"}
"""Fields of ``load`` that are no arguments of an engine of the same name."""


def serve(source: int, target: int, *, max_line_bytes: int) -> NoReturn:
    """Execute commands until the client quits, the pipes close, or a signal; then exit the process.

    Args:
        source: The file descriptor of the commands.
        target: The file descriptor of the replies.
        max_line_bytes: The maximum length of a command.
    """
    process_runtime.take_over()
    asyncio.run(_serve(source, target, max_line_bytes))
    raise AssertionError("the process has ended")


async def _serve(source: int, target: int, max_line_bytes: int) -> NoReturn:
    process = _Process(target)
    loop = asyncio.get_running_loop()
    for number, status in ((signal.SIGTERM, _TERMINATED), (signal.SIGINT, _INTERRUPTED)):
        loop.add_signal_handler(number, process.end, status)
    threading.Thread(
        target=process.read, args=(source, max_line_bytes), name="bridge-input", daemon=True
    ).start()
    session = process.session
    collecting = asyncio.create_task(process_runtime.collect_when_idle(lambda: session.is_idle))
    watching = asyncio.create_task(_reader_closed(target))
    watching.add_done_callback(lambda _: process.end(_BROKEN_PIPE))
    status = await process.status
    collecting.cancel()
    await session.close()
    # Not on a thread of the pool: all of its threads may be blocked.
    process.writer.close(_GRACE_SECONDS)
    for stream in (sys.stdout, sys.stderr):
        # A stream that was closed at the start is `None`.
        with contextlib.suppress(OSError, AttributeError):
            stream.flush()
    # Python would wait for a model that is being loaded, and MLX may abort the process if a thread
    # that has used it ends at process exit.
    os._exit(status)


class _Process:
    """The session of a process, its threads for input and output, and its exit status.

    Args:
        target: The file descriptor of the replies.
    """

    def __init__(self, target: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._finishing: asyncio.Task[None] | None = None
        # Back pressure: a client that writes faster than commands are executed blocks.
        self._pending = threading.Semaphore(_MAX_PENDING_LINES)
        self.status: asyncio.Future[int] = self._loop.create_future()
        self.writer = LineWriter(target, lambda: self._soon(partial(self.end, _BROKEN_PIPE)))
        write = self.writer.write
        self.session = BridgeSession(write, load_engine, self._finish, grace=_GRACE_SECONDS)

    def end(self, status: int) -> None:
        """Set the exit status, unless it is set."""
        if not self.status.done():
            self.status.set_result(status)

    def read(self, source: int, max_line_bytes: int) -> None:
        """Hand the lines of the input to the session, until it ends; on a dedicated thread."""
        with contextlib.suppress(OSError), open(source, "rb") as stream:
            for line in read_lines(stream, max_line_bytes):
                self._pending.acquire()
                self._soon(partial(self._receive, line))
        self._soon(self._input_ended)

    def _receive(self, line: bytes | ProtocolError) -> None:
        self._pending.release()
        self.session.receive(line)

    def _input_ended(self) -> None:
        # After `quit`, the client may close the input and still read replies.
        if not self.session.is_quitting:
            self._finish()

    def _finish(self) -> None:
        """End the process once all commands are executed, and their replies written."""
        self._finishing = self._loop.create_task(self._finished())

    async def _finished(self) -> None:
        await self.session.finish()
        # Not on a thread of the pool: all of its threads may be blocked.
        threading.Thread(target=self._end_when_written, name="bridge-end", daemon=True).start()

    def _end_when_written(self) -> None:
        self.writer.close()
        self._soon(partial(self.end, _DONE))

    def _soon(self, call: Callable[[], None]) -> None:
        # Raised after the loop was closed, when nothing is left to do.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)


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
    options = command.model_dump(exclude=_OTHER_FIELDS, exclude_none=True)
    media = MediaOptions(allow_urls=bool(command.allow_image_urls))
    # The attribute imports MLX, on this thread, while commands are read.
    engine = proxy_engine.InferenceEngine(command.path, media=media, **options)
    process_runtime.freeze()
    return engine
