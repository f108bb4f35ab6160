"""What holds for every request: an identifier, an end in the log, bounds for what is sent."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .disconnects import ClientGoneError
from .errors import ApiError
from .metrics import Metrics
from .replies import send_error

__all__ = ["BodyMiddleware", "RequestMiddleware"]

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_CLIENT_CLOSED_REQUEST = 499

_logger = logging.getLogger(__name__)


class RequestMiddleware:
    """Gives every response an ``X-Request-ID``, counts and logs it, and answers what went wrong.

    The client's own identifier is taken where it is a plain word. ``scope["state"]["facts"]`` is a
    dict to which whoever handles the request adds what the log is to say of it.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else f"req_{secrets.token_hex(12)}"
        facts: dict[str, object] = {}
        scope.setdefault("state", {}).update(request_id=request_id, facts=facts)
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except ClientGoneError:
            pass
        except Exception:
            _logger.exception("request failed", extra={"fields": {"request_id": request_id}})
            if not status:
                error = ApiError(500, "something went wrong; it is in the log", code="internal")
                await send_error(error, scope, receive, sending)
        finally:
            # Unknown paths are one label: whoever guesses at them must not fill the memory.
            path = _pattern(scope)
            shown = status or _CLIENT_CLOSED_REQUEST
            self._metrics.requests.labels(path, str(shown)).inc()
            fields = {
                "request_id": request_id,
                "method": scope["method"],
                "path": scope["path"],
                "status": shown,
                "seconds": round(time.perf_counter() - started, 4),
                **facts,
            }
            _logger.info("request", extra={"fields": fields})


class BodyMiddleware:
    """Bounds the size of what clients send, and the time that they take for it."""

    def __init__(self, app: ASGIApp, max_bytes: int, seconds: float) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        stated = Headers(scope=scope).get("content-length", "")
        if stated.isdecimal() and int(stated) > self._max_bytes:
            error = ApiError(413, self._too_large(), code="body_too_large")
            await send_error(error, scope, receive, send)
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._seconds
        size = 0
        is_whole = False

        async def receiving() -> Message:
            nonlocal size, is_whole
            if is_whole:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), deadline - loop.time())
            except TimeoutError as error:
                raise HTTPException(408, "the body did not come in time") from error
            if message["type"] == "http.request":
                size += len(message.get("body", b""))
                is_whole = not message.get("more_body", False)
                if size > self._max_bytes:
                    raise HTTPException(413, self._too_large())
            return message

        await self._app(scope, receiving, send)

    def _too_large(self) -> str:
        return f"a request has at most {self._max_bytes:,} bytes"


def _pattern(scope: Scope) -> str:
    route = scope.get("route")
    return str(getattr(route, "path", "other"))
