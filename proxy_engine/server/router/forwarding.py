"""Forwards requests to workers, and their responses to clients."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import h11
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from ..errors import ApiError, shutting_down
from ..streaming import DONE, ClientDisconnectedError, unless_disconnected
from .choice import WorkerChoice
from .exchange import Exchange, WorkerLostError
from .prompts import PromptKeys, read_prompt, stored_on
from .workers import Workers

_ATTEMPTS = 2
"""A request that makes a worker crash must not make all of them crash."""

_LONG_BODY = 1 << 18
"""Bytes from which on a body is read on a thread: 50 MB of images take 0.3 s."""

_UPLOADS = "/v1/audio/"
_HOP_BY_HOP = {
    b"connection",
    b"expect",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}
_SEQUENCE_NUMBER = re.compile(rb'"sequence_number":(\d+)')


class Forwarder:
    """The ASGI application that forwards every request.

    A request whose worker dies is run again on another one, once, if the client has received
    nothing yet: what the worker had stored is lost, so nothing is done twice. Otherwise a stream
    ends with an error event, and another response is cut off.

    Args:
        workers: The workers.
        choice: Chooses a worker for each request.
        write_seconds: Seconds for a client to accept a piece of a response.
    """

    def __init__(self, workers: Workers, choice: WorkerChoice, write_seconds: float) -> None:
        self._workers = workers
        self._choice = choice
        self._write_seconds = write_seconds
        self.repeated = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request.

        Raises:
            ApiError: 503 without a worker, or if the worker died.
        """
        # An upload goes to the worker while it arrives; the worker stores it on disk.
        is_upload = scope["path"].startswith(_UPLOADS)
        body = None if is_upload else b"".join([piece async for piece in _received(receive)])
        prompt = await _prompt(scope, body)
        tried: set[int] = set()
        while len(tried) < _ATTEMPTS:
            number = self._choose(prompt, tried)
            self.repeated += bool(tried)
            tried.add(number)
            scope["state"]["log_fields"]["workers"] = sorted(tried)
            reply = _Reply(send, self._write_seconds)
            self._workers.queues[number] += 1
            try:
                exchange = await Exchange.connect(self._workers.sockets[number])
                # The worker logs and counts it.
                scope["state"]["is_forwarded"] = True
                try:
                    await _exchange(exchange, scope, body, receive, reply)
                finally:
                    exchange.close()
                return
            except WorkerLostError:
                scope["state"]["is_forwarded"] = False
                if reply.has_begun:
                    scope["state"]["log_fields"]["error"] = _worker_lost().code
                    await reply.fail(scope["path"])
                    return
                if body is None:
                    break
            finally:
                self._workers.queues[number] -= 1
        raise _worker_lost()

    def _choose(self, prompt: PromptKeys, tried: Collection[int]) -> int:
        if self._workers.is_closed:
            raise shutting_down()
        ready = [number for number in self._workers.ready if number not in tried]
        if not ready and tried:
            raise _worker_lost()
        if not ready:
            raise workers_starting()
        return self._choice.choose(prompt, self._workers.queues, ready)


async def _exchange(
    exchange: Exchange, scope: Scope, body: bytes | None, receive: Receive, reply: _Reply
) -> None:
    await exchange.send(_request(scope, body))
    if body is None:
        async for piece in _received(receive):
            await exchange.send(h11.Data(piece))
            if exchange.is_refused:
                # The worker has answered already. The end of the body is not waited for.
                await _relay(exchange, reply)
                return
    elif body:
        await exchange.send(h11.Data(body))
    await exchange.send(h11.EndOfMessage())
    await unless_disconnected(receive, _relay(exchange, reply))


async def _relay(exchange: Exchange, reply: _Reply) -> None:
    head = await exchange.response()
    async with aclosing(exchange.pieces()) as pieces:
        # A response without its first piece can still be replaced.
        first = await anext(pieces, None)
        await reply.begin(head)
        if first is not None:
            await reply.send(first)
            async for piece in pieces:
                await reply.send(piece)
    await reply.send(b"", is_last=True)


class _Reply:
    """The response to a client, who must accept each piece in ``seconds``."""

    def __init__(self, send: Send, seconds: float) -> None:
        self._send = send
        self._seconds = seconds
        self._is_stream = False
        self._latest = b""
        self.has_begun = False

    async def begin(self, head: h11.Response) -> None:
        """Send the status and the headers."""
        self.has_begun = True
        headers = _end_to_end(head.headers)
        kind = dict(headers).get(b"content-type", b"")
        self._is_stream = kind.startswith(b"text/event-stream")
        await self._send(
            {"type": "http.response.start", "status": head.status_code, "headers": headers}
        )

    async def send(self, data: bytes, *, is_last: bool = False) -> None:
        """Send a piece of the body.

        Raises:
            ClientDisconnectedError: The client does not accept it in time.
        """
        self._latest = data or self._latest
        message = {"type": "http.response.body", "body": data, "more_body": not is_last}
        try:
            async with asyncio.timeout(self._seconds):
                await self._send(message)
        except TimeoutError as error:
            raise ClientDisconnectedError from error

    async def fail(self, path: str) -> None:
        """End a stream by an error, or cut off another response: its end is missing."""
        if self._is_stream and self._latest.endswith(b"\n\n"):
            await self.send(_error_events(path, self._latest), is_last=True)


async def _prompt(scope: Scope, body: bytes | None) -> PromptKeys:
    stored = stored_on(scope["path"])
    if stored is not None:
        return PromptKeys(worker=stored)
    if body is None or len(body) < _LONG_BODY:
        return read_prompt(body or b"")
    return await asyncio.to_thread(read_prompt, body)


def _request(scope: Scope, body: bytes | None) -> h11.Request:
    target = scope["raw_path"]
    if scope["query_string"]:
        target += b"?" + scope["query_string"]
    given = [
        (name, value) for name, value in _end_to_end(scope["headers"]) if name != b"x-request-id"
    ]
    if body is not None:
        given = [(name, value) for name, value in given if name != b"content-length"]
        given.append((b"content-length", str(len(body)).encode()))
    elif "content-length" not in Headers(raw=given):
        given.append((b"transfer-encoding", b"chunked"))
    own = [
        (b"x-request-id", scope["state"]["request_id"].encode()),
        (b"connection", b"close"),
    ]
    if "host" not in Headers(raw=given):
        own.append((b"host", b"localhost"))
    return h11.Request(method=scope["method"], target=target, headers=[*given, *own])


def _end_to_end(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.lower() not in _HOP_BY_HOP]


async def _received(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnectedError
        if message.get("body"):
            yield message["body"]
        if not message.get("more_body", False):
            return


def _error_events(path: str, latest: bytes) -> bytes:
    """Return the last events of a stream, as the endpoint writes them."""
    error = _worker_lost()
    if not path.endswith("/responses"):
        data = error.body.model_dump_json(exclude_unset=True)
        end = b"" if path.startswith(_UPLOADS) else DONE
        return f"data: {data}\n\n".encode() + end
    numbers = _SEQUENCE_NUMBER.findall(latest)
    event: Mapping[str, Any] = {
        "type": "error",
        "sequence_number": int(numbers[-1]) + 1 if numbers else 0,
        "code": error.code,
        "message": error.message,
        "param": None,
    }
    return f"event: error\ndata: {json.dumps(event)}\n\n".encode()


def workers_starting() -> ApiError:
    """Return the error for requests that arrive while no worker is ready."""
    return ApiError(
        503, "all workers are starting", code="workers_starting", headers={"Retry-After": "5"}
    )


def _worker_lost() -> ApiError:
    return ApiError(
        503,
        "the process that worked on this request has ended; send the request again",
        code="worker_lost",
        headers={"Retry-After": "1"},
    )
