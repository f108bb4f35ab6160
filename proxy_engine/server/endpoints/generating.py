"""What the endpoints that generate do alike: from a request that was read to its response."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json

from state_machines.errors import ProxyError

from ..disconnects import until_gone
from ..encoders.encoder import Encoder
from ..errors import ApiError, ErrorResponse, api_error, naming
from ..model_host import Lease
from ..replies import json_reply
from ..running import Generation, Running, begin
from ..services import Services
from ..settings import ServerSettings
from ..sse import ServerSentEvents

__all__ = [
    "ERRORS",
    "STREAMED",
    "Asked",
    "StrictRoute",
    "check_count",
    "check_size",
    "generating_router",
    "reply",
    "size",
]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for.

    ``generations``: each answer. ``encoder`` makes the encoder, once the model is known. ``names``:
    what the endpoint calls the engine's parameters.
    """

    model: str | None
    generations: Sequence[Generation]
    encoder: Callable[[Lease], Encoder]
    is_streamed: bool
    names: Mapping[str, str]


async def reply(request: Request, services: Services, read: Callable[[], Asked]) -> Response:
    """Generate, and return the response, or one that streams.

    ``read`` may take a while; it is called on a thread.
    """

    async def beginning() -> tuple[Asked, Running]:
        asked = await asyncio.to_thread(read)
        with naming(asked.names):
            running = await begin(
                asked.generations,
                asked.model,
                queue=services.queue,
                host=services.host,
                metrics=services.metrics,
                running=services.running,
            )
        return asked, running

    asked, running = await until_gone(request.receive, beginning())
    facts: dict[str, Any] = request.state.facts
    facts["model"] = running.lease.model.name
    if services.settings.log_prompts:
        facts["prompts"] = [generation.prompt for generation in asked.generations]
    async with AsyncExitStack() as stack:
        stack.push_async_callback(running.close)
        encoder = asked.encoder(running.lease)
        if asked.is_streamed:
            settings = services.settings
            # From here on it is the response that closes it.
            stack.pop_all()
            return ServerSentEvents(
                _frames(encoder, running, asked, facts),
                running.close,
                keep_alive=settings.keep_alive_seconds,
                patience=settings.write_seconds,
            )
        with naming(asked.names):
            await until_gone(request.receive, _consume(encoder, running, facts))
        return json_reply(encoder.response())


async def _consume(encoder: Encoder, running: Running, facts: dict[str, Any]) -> None:
    async with aclosing(running.events()) as events:
        async for index, event in events:
            for _ in encoder.encode(index, event):
                pass
    facts.update(running.facts)


async def _frames(
    encoder: Encoder, running: Running, asked: Asked, facts: dict[str, Any]
) -> AsyncIterator[bytes]:
    for data in encoder.begin():
        yield data
    try:
        async with aclosing(running.events()) as events:
            async for index, event in events:
                for data in encoder.encode(index, event):
                    yield data
    except (ApiError, ProxyError) as error:
        told = error if isinstance(error, ApiError) else api_error(error, asked.names)
        facts["error"] = told.code
        for data in encoder.fail(told):
            yield data
        return
    except Exception:
        _logger.exception("a stream failed")
        facts["error"] = "internal"
        told = ApiError(500, "something went wrong; it is in the log", code="internal")
        for data in encoder.fail(told):
            yield data
        return
    for data in encoder.end():
        yield data
    facts.update(running.facts)


_MAX_VALUES = 300_000
"""JSON values in a body. While a body is parsed, which takes some 0.1 µs a value and cannot be
interrupted, no thread generates."""


def _has_too_many_values(body: bytes) -> bool:
    if _count(body) <= _MAX_VALUES:
        return False
    # Exactly: without what stands in strings.
    body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if body.count(b'"') > 2 * _MAX_VALUES:
        return True
    return _count(b"".join(body.split(b'"')[::2])) > _MAX_VALUES


def _count(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


class _StrictRequest(Request):
    async def json(self) -> Any:
        body = await self.body()
        if _has_too_many_values(body):
            raise HTTPException(413, f"a body has at most {_MAX_VALUES:,} JSON values")
        try:
            return from_json(body, allow_inf_nan=False)
        except ValueError as error:
            raise json.JSONDecodeError(str(error), "", 0) from error


class StrictRoute(APIRoute):
    """Takes JSON that is no more than JSON: no NaN, no half characters, no endless brackets."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler."""
        handler = super().get_route_handler()

        async def handling(request: Request) -> Response:
            return await handler(_StrictRequest(request.scope, request.receive))

        return handling


def generating_router() -> APIRouter:
    """Return a router for endpoints of this kind."""
    return APIRouter(prefix="/v1", route_class=StrictRoute, responses=ERRORS)


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse} for status in (400, 401, 403, 404, 408, 413, 422, 503, 507)
}
"""How endpoints that generate say that they do not."""

STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer; with `stream`, piece by piece.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}
"""What endpoints that generate answer besides JSON."""


def check_count(count: int, settings: ServerSettings) -> None:
    """Raise for more answers than one request may ask for, before any of them takes room."""
    if count > settings.max_choices:
        raise ApiError(
            400,
            f"{count} answers to one request are too many; {settings.max_choices} are the most",
            code="too_many",
            param="n",
        )


def check_size(characters: int, settings: ServerSettings, param: str) -> None:
    """Raise for a prompt that is too large to be looked at."""
    most = settings.max_prompt_characters
    if characters > most:
        raise ApiError(
            413,
            f"the prompt has {characters:,} characters; {most:,} are the most",
            code="prompt_too_large",
            param=param,
        )


def size(value: Any) -> int:
    """Return how many characters there are in a JSON value's texts."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(size, value.values()))
    return sum(map(size, value)) if isinstance(value, list) else 0
