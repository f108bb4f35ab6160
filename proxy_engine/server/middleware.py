"""Middleware for every request: host names, API key, request id, log line, limits on bodies."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import io
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from fastapi import HTTPException
from fastapi.middleware.cors import CORSMiddleware
from prometheus_client import Counter
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..checks import short_repr
from ..runtime import process_runtime
from .errors import INTERNAL_ERROR, ApiError, error_reply, http_error, path_of
from .settings import ServerSettings
from .streaming import ClientDisconnectedError
from .unknown_fields import HEADER, TOOLS_HEADER

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_CLIENT_CLOSED_REQUEST = 499
# These paths reveal neither models nor requests.
_KEYLESS_PATHS = {"/", "/health", "/docs", "/docs/oauth2-redirect", "/openapi.json"}
_UPLOAD_PATHS = "/v1/audio/"
# Smaller bodies do not count: the number of connections limits them, and large ones that arrive
# slowly must not keep out all others.
_SMALL_BODY_BYTES = 1 << 16
_RETRY_LATER = {"Retry-After": "2"}
_TRIMMED_BYTES = 16 << 20
_TRIM_SECONDS = 0.1
_LOCAL_HOSTS = {"localhost", "127.0.0.1", "[::1]"}

ReadsMedia: TypeAlias = Callable[[], Awaitable[bool]]

_logger = logging.getLogger(__name__)


class RequestMiddleware:
    """Gives every response an ``X-Request-ID``, counts and logs it, and turns exceptions into 500.

    The client's own id is used if it is a plain word. ``scope["state"]["log_fields"]`` is a dict to
    which request handlers add fields of the log line, ``scope["state"]["ignored_fields"]`` and
    ``["ignored_tools"]`` the values of the headers that list ignored fields and tools.

    Args:
        app: The application.
        requests: Counts requests, with the labels ``path`` and ``status``.
    """

    def __init__(self, app: ASGIApp, requests: Counter) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else f"req_{secrets.token_hex(12)}"
        log_fields: dict[str, object] = {}
        scope.setdefault("state", {}).update(request_id=request_id, log_fields=log_fields)
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = request_id
                if ignored := scope["state"].get("ignored_fields"):
                    headers[HEADER] = ignored
                if left_out := scope["state"].get("ignored_tools"):
                    headers[TOOLS_HEADER] = left_out
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except ClientDisconnectedError:
            pass
        except Exception:
            # A defect of the server: its text is for the log.
            _logger.exception("request failed", extra={"fields": {"request_id": request_id}})
            if not status:
                await error_reply(INTERNAL_ERROR, path_of(scope))(scope, receive, sending)
        finally:
            shown = status or _CLIENT_CLOSED_REQUEST
            # All unknown paths share one label: a client must not create labels without bound.
            path = str(getattr(scope.get("route"), "path", "other"))
            self._requests.labels(path, str(shown)).inc()
            fields = {
                "request_id": request_id,
                "method": scope["method"],
                "path": scope["path"],
                "status": shown,
                "seconds": round(time.perf_counter() - started, 4),
                **log_fields,
            }
            _logger.info("request", extra={"fields": fields})


class BodyMiddleware:
    """Limits the size of a request's body, the time in which it arrives, and all bodies together.

    A body counts from the request's head until the response is complete, since the request refers
    to it. It is passed on as one message: pieces of some 64 kB, once joined, would leave holes that
    the allocator cannot return. A form with a recording is stored on disk while it arrives, so it
    is passed on in pieces, and such forms have a separate bound.

    Args:
        app: The application.
        settings: Limits of the server.
        reads_media: Returns whether a model can read images or recordings; without it, one can.
    """

    def __init__(
        self, app: ASGIApp, settings: ServerSettings, reads_media: ReadsMedia | None = None
    ) -> None:
        self._app = app
        self._settings = settings
        self._reads_media = reads_media
        # Of bodies in memory, and of those on disk.
        self._held = [0, 0]
        self._freed = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.body_seconds
        headers = Headers(scope=scope)
        # Other forms are read in memory.
        is_form = headers.get("content-type", "").lower().startswith("multipart/")
        is_upload = is_form and path_of(scope).startswith(_UPLOAD_PATHS)
        bound = self._settings.all_bodies_bytes
        if is_upload:
            bound = self._settings.all_uploads_bytes
        stated = headers.get("content-length", "")
        stated_size = int(stated) if stated.isdecimal() else 0
        # A body without a stated length can have any.
        is_large = "transfer-encoding" in headers or stated_size > self._settings.text_body_bytes
        max_bytes = self._settings.upload_bytes if is_upload else await self._max_bytes(is_large)
        size = held = 0
        is_whole = False

        def hold(size: int) -> None:
            nonlocal held
            if size > max_bytes:
                raise HTTPException(413, f"the body has more than {max_bytes:,} bytes")
            more = size - held
            if size <= _SMALL_BODY_BYTES or more <= 0:
                return
            if self._held[is_upload] + more > bound:
                raise HTTPException(503, "too many large bodies at a time", _RETRY_LATER)
            self._held[is_upload] += more
            held = size

        async def receiving() -> Message:
            nonlocal size, is_whole
            if is_whole:
                return await receive()
            content = io.BytesIO()
            try:
                async with asyncio.timeout_at(deadline):
                    while not is_whole:
                        message = await receive()
                        if message["type"] != "http.request":
                            return message
                        size += content.write(message.get("body", b""))
                        hold(size)
                        is_whole = not message.get("more_body", False)
                        if is_upload:
                            return message
            except TimeoutError as error:
                raise HTTPException(408, "the body did not arrive in time") from error
            # Not a copy.
            return {"type": "http.request", "body": content.getvalue()}

        try:
            hold(stated_size)
        except HTTPException as error:
            await error_reply(http_error(error), path_of(scope))(scope, receive, send)
            return
        try:
            await self._app(scope, receiving, send)
        finally:
            self._held[is_upload] -= held
            self._freed += held
            if held and not any(self._held) and self._freed > _TRIMMED_BYTES:
                self._freed = 0
                # Once the frames that refer to the body have ended.
                loop.call_later(_TRIM_SECONDS, loop.run_in_executor, None, process_runtime.trim)

    async def _max_bytes(self, is_large: bool) -> int:
        largest = min(self._settings.body_bytes, self._settings.all_bodies_bytes)
        if is_large and self._reads_media is not None and not await self._reads_media():
            return min(self._settings.text_body_bytes, largest)
        return largest


class HostMiddleware:
    """Refuses requests whose ``Host`` header is not a name of this server: DNS rebinding.

    A foreign web page can make its own name resolve to this computer; a browser then treats the
    server as part of that page's origin. Its requests carry the foreign name.

    Args:
        app: The application.
        names: Names of the server besides those of the loopback interface.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str] = ()) -> None:
        self._app = app
        known = "|".join(map(re.escape, {*_LOCAL_HOSTS, *names}))
        # RFC 3986: a port may be empty.
        self._host = re.compile(rf"({known})(:[0-9]*)?", re.ASCII | re.IGNORECASE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http":
            # HTTP/1.0 requires no header. Browsers always send one.
            for host in Headers(scope=scope).getlist("host"):
                if self._host.fullmatch(host) is None:
                    message = f"this server is not named {short_repr(host)}; see --allowed-hosts"
                    error = ApiError(403, message, code="unknown_host")
                    await error_reply(error, path_of(scope))(scope, receive, send)
                    return
        await self._app(scope, receive, send)


class KeyMiddleware:
    """Requires the API key for models and metrics, before any of the body is read.

    OpenAI's clients send it as ``Authorization: Bearer``, Anthropic's as ``x-api-key``.

    Args:
        app: The application.
        key: The key.
        open_paths: Further paths that need no key.
    """

    def __init__(self, app: ASGIApp, key: str, open_paths: Iterable[str] = ()) -> None:
        self._app = app
        self._key = key
        self._open_paths = {*_KEYLESS_PATHS, *open_paths}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http" and path_of(scope) not in self._open_paths:
            headers = Headers(scope=scope)
            scheme, _, given = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer":
                given = headers.get("x-api-key", "")
            if not self._matches(given.strip()):
                error = ApiError(
                    401,
                    "wrong API key" if given else "API key required: `Authorization: Bearer …`",
                    code="invalid_api_key",
                    headers={"WWW-Authenticate": "Bearer"},
                )
                await error_reply(error, path_of(scope))(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _matches(self, given: str) -> bool:
        """Compare with the key; clients encode header values as Latin-1 or as UTF-8."""
        in_utf8 = given.encode("latin-1").decode("utf-8", "replace")
        return is_key(given, self._key) | is_key(in_utf8, self._key)


def middleware_for(
    settings: ServerSettings, requests: Counter, reads_media: ReadsMedia | None = None
) -> list[Middleware]:
    """Return the middleware of a server in the order in which it handles a request.

    Args:
        settings: The settings.
        requests: Counts requests, with the labels ``path`` and ``status``.
        reads_media: Returns whether a model can read images or recordings; without it, one can.
    """
    stack = [Middleware(RequestMiddleware, requests=requests)]
    if settings.checks_hosts:
        stack.append(Middleware(HostMiddleware, names=settings.allowed_hosts))
    if settings.cors_origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=["X-Request-ID", HEADER, TOOLS_HEADER],
        )
        stack.append(cors)
    if settings.api_key is not None:
        key = settings.api_key.get_secret_value()
        open_paths = ["/metrics"] if settings.open_metrics else []
        stack.append(Middleware(KeyMiddleware, key=key, open_paths=open_paths))
    return [*stack, Middleware(BodyMiddleware, settings=settings, reads_media=reads_media)]


def is_key(given: str, key: str) -> bool:
    """Compare in constant time: the time depends neither on the key nor on its length."""
    digests = [hashlib.sha256(text.encode("utf-8", "replace")).digest() for text in (given, key)]
    return hmac.compare_digest(*digests)
