"""The server's application on an engine in the same process: its interface without a connection.

Event loops run the application themselves. For threads, a daemon thread runs an event loop.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from queue import SimpleQueue
from typing import Self, TypeAlias
from urllib.parse import unquote

from ..engine.inference_engine import InferenceEngine
from ..options.generation import GenerationOptions
from ..options.overrides import OptionOverrides
from ..runtime.extras import requires_extra
from ..runtime.worker import check_process

with requires_extra("openai", purpose="OpenAI's interface in the same process"):
    from starlette.types import ASGIApp, Scope
    from starlette.types import Message as Message

    from ..server.admission import EngineHost
    from ..server.app import create_app
    from ..server.settings import ServerSettings

Put: TypeAlias = Callable[[Message | None], None]
"""Receives the messages of a response, and ``None`` behind the last one."""

BASE_URL = "http://engine/v1"
"""The address of every engine: it selects nothing, and must not be empty."""

API_KEY = "none"
"""A key for clients that require one. It is not checked."""

_UNLIMITED = sys.maxsize
_SECONDS_WITHOUT_A_FRAME = 3600.0


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """An HTTP request.

    Attributes:
        method: The method.
        target: The path with the query, percent-encoded.
        headers: The headers, with lower-case names.
        body: The whole body.
    """

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def scope(self) -> Scope:
        """Return the request as ASGI describes it."""
        path, _, query = self.target.partition(b"?")
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": self.method,
            "scheme": "http",
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": self.headers,
            "client": None,
            "server": None,
        }


class Body:
    """The body of a response, in the pieces that the application sends, for threads.

    Closing or dropping it cancels the request.
    """

    def __init__(self, messages: SimpleQueue[Message | None], request: Future[None]) -> None:
        self._messages = messages
        self._request = request
        self._is_complete = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        while not self._is_complete:
            try:
                message = self._messages.get()
            except BaseException:
                self.close()
                raise
            self._is_complete = not (message and message.get("more_body"))
            if message and (data := message.get("body")):
                return bytes(data)
        raise StopIteration

    def close(self) -> None:
        """Cancel the request unless its response is complete. Idempotent."""
        if not self._is_complete:
            self._is_complete = True
            self._request.cancel()

    def __del__(self) -> None:
        self.close()


class AsyncBody:
    """:class:`Body` for an event loop."""

    def __init__(self, messages: asyncio.Queue[Message | None], request: asyncio.Task[None]):
        self._messages = messages
        self._request = request
        self._is_complete = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._is_complete:
            try:
                message = await self._messages.get()
            except BaseException:
                self._cancel()
                raise
            self._is_complete = not (message and message.get("more_body"))
            if message and (data := message.get("body")):
                return bytes(data)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Cancel the request unless its response is complete. Idempotent."""
        self._cancel()

    def _cancel(self) -> None:
        if not self._is_complete:
            self._is_complete = True
            # Python may drop an object on any thread, and after the end of the loop.
            with suppress(RuntimeError):
                self._request.get_loop().call_soon_threadsafe(self._request.cancel)

    def __del__(self) -> None:
        self._cancel()


class Application:
    """Sends HTTP requests to the server's application on an engine.

    Options that a request does not give are those of the engine, and tool calls that have a result
    are not repeated unless the request or the engine allows it. Neither limits of the server nor
    its settings from files and variables apply.

    Args:
        engine: The engine. It stays the caller's.
    """

    def __init__(self, engine: InferenceEngine) -> None:
        self._app: ASGIApp = create_app(_settings(engine), host=EngineHost(engine))

    def send(self, call: HttpRequest) -> tuple[Message, Body]:
        """Send a request from a thread.

        Returns:
            ASGI's start of the response, with ``status`` and ``headers``, and the body.

        Raises:
            EngineForkedError: The process was forked.
        """
        check_process()
        messages: SimpleQueue[Message | None] = SimpleQueue()
        running = _run(self._app, call, messages.put)
        request = asyncio.run_coroutine_threadsafe(running, _loop_of_threads())
        body = Body(messages, request)
        try:
            head = messages.get()
        except BaseException:
            body.close()
            raise
        return _started(head), body

    async def asend(self, call: HttpRequest) -> tuple[Message, AsyncBody]:
        """:meth:`send` for event loops. Cancelling the task cancels the request."""
        check_process()
        messages: asyncio.Queue[Message | None] = asyncio.Queue()
        request = asyncio.create_task(_run(self._app, call, messages.put_nowait))
        body = AsyncBody(messages, request)
        try:
            head = await messages.get()
        except BaseException:
            await body.aclose()
            raise
        return _started(head), body


class _EngineSettings(ServerSettings):
    """Settings that leave the options of requests to the engine."""

    engine_options: GenerationOptions

    def request_defaults(self, *, is_raw: bool = False) -> OptionOverrides:
        options = self.engine_options
        allowed = options.allow_repeated_calls
        return {
            "confidence": False,
            # Responses repeat these two.
            "temperature": options.temperature,
            "parallel_tool_calls": options.parallel_tool_calls,
            # The clients are those of agent frameworks, whose loops are as that of `run_tools`.
            "allow_repeated_calls": False if allowed is None else allowed,
        }


def _settings(engine: InferenceEngine) -> ServerSettings:
    # Unvalidated, since validation reads files and environment variables.
    return _EngineSettings.model_construct(
        engine_options=engine.options,
        model=engine.model_name,
        allowed_hosts=("*",),
        allow_image_urls=engine.media.allow_urls,
        max_running=_UNLIMITED,
        max_queue=_UNLIMITED,
        max_choices=_UNLIMITED,
        max_body_bytes=_UNLIMITED,
        max_all_bodies_bytes=_UNLIMITED,
        max_prompt_characters=_UNLIMITED,
        keep_alive_seconds=_SECONDS_WITHOUT_A_FRAME,
    )


async def _run(app: ASGIApp, call: HttpRequest, put: Put) -> None:
    """Run the application for one request."""
    is_read = False

    async def receive() -> Message:
        nonlocal is_read
        if is_read:
            # The client leaves by cancelling the task.
            await asyncio.get_running_loop().create_future()
        is_read = True
        return {"type": "http.request", "body": call.body, "more_body": False}

    async def send(message: Message) -> None:
        put(message)

    try:
        await app(call.scope(), receive, send)
    finally:
        put(None)


def _started(message: Message | None) -> Message:
    if message is None:
        raise RuntimeError("the request ended without a response")
    return message


@cache
def _loop_of_threads() -> asyncio.AbstractEventLoop:
    """Return the event loop of requests that come from threads."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="proxy-engine-requests", daemon=True).start()
    return loop
