"""The common path of the generating endpoints, from the body of a request to its response."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic_core import from_json

from state_machines.errors import ProxyError

from ...results.events import Finished
from ..admission import Lease
from ..encoders import Encoder
from ..errors import (
    INTERNAL_ERROR,
    ApiError,
    ErrorResponse,
    api_error,
    translated_errors,
)
from ..message_content import without_media
from ..running import Event, Running, ServedRequest, Services, begin
from ..schemas import RequestModel
from ..streaming import ServerSentEvents, unless_disconnected

T = TypeVar("T")
B = TypeVar("B", bound=RequestModel)
R = TypeVar("R", bound=ServedRequest)

MAX_VALUES = 300_000
"""The maximum number of JSON values in a body.

Parsing takes some 0.1 µs per value and cannot be interrupted; no thread generates meanwhile.
"""

_MAX_INLINE_BYTES = 16_384
_MAX_INLINE_TOKENS = 256
# The time after which a stream begins although the prompt is not processed.
_START_SECONDS = 0.1

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Dialect(Generic[B, R]):
    """How an endpoint writes its requests and responses.

    Attributes:
        read: Converts the body of a request; called on a thread if the body is long. It raises
            ``ApiError`` for a request that is invalid.
        encode: Makes the encoder of the answers, once the model is in memory.
    """

    read: Callable[[B, Services], R]
    encode: Callable[[B, R, Lease], Coroutine[Any, Any, Encoder]]


async def reply(dialect: Dialect[B, R], body: B, request: Request, services: Services) -> Response:
    """Generate the answers, and return the whole response or a stream.

    Args:
        dialect: The dialect of the endpoint.
        body: The body of the request.
        request: The HTTP request.
        services: The application's shared objects.

    Raises:
        ApiError: The request is invalid, or cannot be served.
        ClientDisconnectedError: The client disconnected.
    """
    services.unknown_fields.check(request, body)
    begun: list[Running] = []

    async def replied() -> Response:
        if await _is_long(request):
            served = await asyncio.to_thread(dialect.read, body, services)
        else:
            served = dialect.read(body, services)
        with translated_errors(served.names, served.part_name):
            running = await begin(served, services)
        begun.append(running)
        services.unknown_fields.list_tools(request, running.left_out_tools)
        log_fields: dict[str, Any] = request.state.log_fields
        log_fields["model"] = running.lease.model.name
        if running.lease.model.adapter is not None:
            log_fields["adapter"] = running.lease.model.adapter.name
        settings = services.settings
        if settings.log_prompts:
            log_fields["prompts"] = [without_media(prompt) for prompt in served.prompts]
        async with AsyncExitStack() as stack:
            stack.push_async_callback(running.close)
            with translated_errors(served.names, served.part_name):
                encoder = await dialect.encode(body, served, running.lease)
                if not served.is_streamed:
                    await _consume(encoder, running, log_fields)
                    return await _off_loop(encoder.reply, running)
                # The request is valid and queued. A failure at once gets an HTTP status.
                await running.wait_for_output(_START_SECONDS)
            # From here on the response closes what runs.
            stack.pop_all()
            return ServerSentEvents(
                _frames(encoder, running, served, log_fields),
                running.close,
                keep_alive=settings.keep_alive_seconds,
                patience=settings.write_seconds,
                media_type=encoder.media_type,
            )

    try:
        return await unless_disconnected(request.receive, replied())
    except asyncio.CancelledError:
        # A response that was ready at this moment will not be sent, and closes nothing.
        for running in begun:
            await running.close()
        raise


async def _is_long(request: Request) -> bool:
    """Whether a thread begins sooner than the body is read. The texts of forms are short."""
    return isinstance(request, _StrictRequest) and len(await request.body()) > _MAX_INLINE_BYTES


async def _off_loop(work: Callable[[], T], running: Running) -> T:
    """Do the work on a thread if answers are long: meanwhile, no other request is served."""
    if running.completion_tokens > _MAX_INLINE_TOKENS:
        return await asyncio.to_thread(work)
    return work()


async def _consume(encoder: Encoder, running: Running, log_fields: dict[str, Any]) -> None:
    async with aclosing(running.events()) as events:
        async for index, event in events:
            await _encoded(encoder, running, index, event)
    log_fields.update(running.log_fields)


async def _encoded(encoder: Encoder, running: Running, index: int, event: Event) -> list[bytes]:
    if isinstance(event, Finished):
        # Confidences of a long answer take seconds, in which other requests must not wait.
        return await _off_loop(lambda: list(encoder.encode(index, event)), running)
    return list(encoder.encode(index, event))


async def _frames(
    encoder: Encoder, running: Running, served: ServedRequest, log_fields: dict[str, Any]
) -> AsyncIterator[bytes]:
    for data in encoder.begin(running.prompt_progress):
        yield data
    failure = None
    try:
        async with aclosing(running.events()) as events:
            async for index, event in events:
                for data in await _encoded(encoder, running, index, event):
                    yield data
    except ApiError as error:
        failure = error
    except ProxyError as error:
        failure = api_error(error, served.names, served.part_name)
    except Exception:
        # A defect of the server, when the status is sent already.
        _logger.exception("stream failed")
        failure = INTERNAL_ERROR
    if failure is None:
        log_fields.update(running.log_fields)
    else:
        log_fields["error"] = failure.code
    for data in encoder.end() if failure is None else encoder.fail(failure):
        yield data


def _has_too_many_values(body: bytes) -> bool:
    """Count commas and opening brackets: first everywhere, then outside of strings."""
    if _count_separators(body) <= MAX_VALUES:
        return False
    body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if body.count(b'"') > 2 * MAX_VALUES:
        return True
    return _count_separators(b"".join(body.split(b'"')[::2])) > MAX_VALUES


def _count_separators(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


class _StrictRequest(Request):
    async def json(self) -> Any:
        body = await self.body()
        if _has_too_many_values(body):
            raise HTTPException(413, f"the body has more than {MAX_VALUES:,} JSON values")
        try:
            return from_json(body, allow_inf_nan=False)
        except ValueError as error:
            raise json.JSONDecodeError(str(error), "", 0) from error


class _StrictRoute(APIRoute):
    """Accepts only RFC 8259 JSON: no NaN, no lone surrogates, bounded nesting and size."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handling(request: Request) -> Response:
            scope = request.scope
            # Web pages of other origins can send bodies without a type, but not JSON.
            if "content-type" not in request.headers:
                kind = b"application/octet-stream"
                if "origin" not in request.headers:
                    kind = b"application/json"
                scope = {**scope, "headers": [*scope["headers"], (b"content-type", kind)]}
            return await handler(_StrictRequest(scope, request.receive))

        return handling


def generating_router(prefix: str = "/v1", error: type[BaseModel] = ErrorResponse) -> APIRouter:
    """Return a router for generating endpoints.

    Args:
        prefix: The beginning of their paths.
        error: The envelope of their errors.
    """
    return APIRouter(prefix=prefix, route_class=_StrictRoute, responses=described_errors(error))


def described_errors(error: type[BaseModel] = ErrorResponse) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI's description of errors in an envelope."""
    statuses = (400, 401, 403, 404, 408, 413, 501, 503, 507)
    return {status: {"model": error} for status in statuses}


STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The response; with `stream`, server-sent events.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}
"""OpenAPI's description of streamed responses."""
