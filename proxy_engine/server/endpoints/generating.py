"""The common path of the generating endpoints from a parsed request to its response."""

from __future__ import annotations

import asyncio
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic_core import from_json

from state_machines.errors import ProxyError

from ...conversation.messages import RawPrompt
from ...errors import InvalidToolError
from ...options.generation import GenerationOptions, ReasoningOptions
from ...options.overrides import OptionOverrides
from ...options.values import MAX_COUNT
from ...results.events import Finished
from ..encoders.encoder import Encoder, EncoderOptions
from ..errors import (
    INTERNAL_ERROR,
    ApiError,
    ErrorResponse,
    PartName,
    api_error,
    conflict,
    translated_errors,
)
from ..generation_settings import merged_options
from ..host import Lease
from ..media_parts import check_urls, prompt_characters, without_media
from ..models import ModelChoice
from ..running import Event, Generation, Running, Services, begin
from ..schemas.sampling import SamplingFields, TextFields
from ..settings import ServerSettings
from ..streaming import ServerSentEvents, unless_disconnected
from ..tool_lists import ToolList

T = TypeVar("T")

MakeEncoder: TypeAlias = Callable[[Lease], Coroutine[Any, Any, Encoder]]
"""Makes the encoder of an answer."""

MAX_VALUES = 300_000
"""The maximum number of JSON values in a body.

Parsing takes some 0.1 µs per value and cannot be interrupted; no thread generates meanwhile.
"""

_JSON_BEGINS = ("{", "[")
_MAX_INLINE_BYTES = 16_384
_MAX_INLINE_TOKENS = 256
# The time after which a stream begins although the prompt is not processed.
_START_SECONDS = 0.1

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRequest(ABC):
    """A request of an endpoint, converted for the engine.

    Attributes:
        make_encoder: Makes the encoder, once the model is known.
        is_streamed: Whether to stream the response.
        names: The endpoint's names for the engine's parameters, where they differ. ``media`` is
            that for a recording or an image.
        part_name: The endpoint's names for content parts.
        prompts: The prompts, for the log.
    """

    make_encoder: MakeEncoder
    is_streamed: bool
    names: Mapping[str, str]
    part_name: PartName | None = None
    prompts: Sequence[Any]

    @abstractmethod
    async def begin(self, services: Services) -> Running:
        """Take slots and the model, and start.

        Raises:
            ApiError: The queue is full, or there is no such model, or it is unsuitable.
            ProxyError: The engine refuses the request.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest(ServedRequest):
    """A request for answers.

    Attributes:
        model: The model.
        generations: The answers to generate, with the server's options where it has none.
        tools: The tools of the request.
    """

    model: ModelChoice
    generations: Sequence[Generation]
    tools: ToolList

    async def begin(self, services: Services) -> Running:
        """Start the answers, as :func:`proxy_engine.server.running.begin`."""
        running, left_out = await self.without_refused_tools(
            lambda generations: begin(generations, self.model, services)
        )
        running.left_out_tools = left_out
        return running

    async def without_refused_tools(
        self, work: Callable[[Sequence[Generation]], Awaitable[T]]
    ) -> tuple[T, dict[str, str]]:
        """Work on the answers, without tools that the engine refuses.

        Returns:
            The result of the work, and why tools are left out, by name.

        Raises:
            InvalidToolError: No tool is left, or the tool choice names one that is left out.
        """
        tools, generations = self.tools, self.generations
        while True:
            try:
                result = await work(generations)
            except InvalidToolError as error:
                tools = tools.without(error)
                generations = [
                    replace(each, tools=tools.tools, tool_choice=tools.choice)
                    for each in generations
                ]
            else:
                return result, {name: error.summary for name, error in tools.refused.items()}


def read_request(
    body: SamplingFields,
    prompts: Sequence[list[dict[str, Any]] | RawPrompt],
    make_encoder: MakeEncoder,
    settings: ServerSettings,
    *,
    names: Mapping[str, str],
    options: Callable[[int], OptionOverrides],
    choices: int = 1,
    tools: ToolList | None = None,
    part_name: PartName | None = None,
) -> GenerationRequest:
    """Return a request for the engine.

    Args:
        body: The body of the request.
        prompts: Conversations as chat completions have them, or raw prompts.
        make_encoder: Makes the encoder, once the model is known.
        settings: The settings of the server.
        names: The endpoint's names for the engine's parameters, where they differ.
        options: Returns the options of the answer of a number.
        choices: The number of answers to each prompt.
        tools: The tools, and the choice among them.
        part_name: The endpoint's names for content parts.

    Raises:
        ApiError: The request is invalid, or exceeds a limit of the server.
    """
    tools = tools or ToolList()
    count = choices * len(prompts)
    if count > settings.max_choices:
        what = f"{count} answers are too many for one request; the maximum is"
        raise ApiError(400, f"{what} {settings.max_choices}", code="too_many", param="n")
    is_endless = isinstance(body, TextFields) and bool(body.ignore_eos)
    if is_endless and (tools.listed or not body.has_free_text):
        what = "ignore_eos is for free text; structured output and tool calls end by themselves"
        raise conflict(what, "ignore_eos")
    field, response_format = body.constraint(body.text_format, body.format_name)
    continues = getattr(body, "continue_final_message", None) is not False
    characters = 0
    for prompt in prompts:
        if isinstance(prompt, RawPrompt):
            characters += len(prompt.content)
        else:
            if part_name is not None:
                check_urls(prompt, part_name, is_allowed=settings.allow_image_urls)
            characters += prompt_characters(prompt)
            if continues and body.is_constrained(body.text_format):
                _check_prefix(prompt, field, names.get("prompt", "prompt"))
    if characters > (limit := settings.max_prompt_characters):
        raise ApiError(
            413,
            f"the prompt has {characters:,} characters; the maximum is {limit:,}",
            code="prompt_too_large",
            param=names.get("prompt", "prompt"),
        )
    generations = []
    for number in range(count):
        prompt = prompts[number // choices]
        defaults = settings.request_defaults(is_raw=isinstance(prompt, RawPrompt))
        given = merged_options(options(number), defaults)
        if is_endless:
            length = given.get("max_tokens", GenerationOptions().max_tokens)
            given = {**given, "max_tokens": length, "min_tokens": length or MAX_COUNT}
        generation = Generation(prompt, response_format, tools.tools or None, tools.choice, given)
        generations.append(generation)
    names = {"response_format": field, **names}
    if isinstance(body, TextFields):
        names = {"max_tokens": body.limit_name, **names}
    return GenerationRequest(
        make_encoder=make_encoder,
        is_streamed=body.is_streamed,
        names=names,
        part_name=part_name,
        prompts=[one.prompt for one in generations],
        model=body.model_choice,
        generations=generations,
        tools=tools,
    )


def _check_prefix(messages: list[dict[str, Any]], field: str, name: str) -> None:
    """Refuse a last message of the assistant that begins the JSON of the response format.

    The format applies to the answer, which would begin its JSON again. A prefix of other text may
    precede the JSON.
    """
    last = messages[-1] if messages else {}
    if last.get("role") not in ("assistant", "agent") or last.get("tool_calls"):
        return
    content = last.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    if "".join(text for text in texts if isinstance(text, str)).lstrip()[:1] in _JSON_BEGINS:
        raise conflict(
            f"the last message begins a text of {field}, whose texts are whole answers; leave the "
            "last message out, or continue it without a format",
            f"{name}[{len(messages) - 1}]" if name == "messages" else name,
        )


def encoder_options(body: SamplingFields, **more: bool) -> EncoderOptions:
    """Return the contents of a response that a request asks for, and ``more`` of them."""
    return EncoderOptions(
        **{
            "is_streamed": body.is_streamed,
            "tokens": bool(body.include_tokens),
            "confidence": bool(body.include_confidence),
            "is_complete": not body.has_free_text,
            **more,
        }
    )


async def reply(
    request: Request, services: Services, read: Callable[[], GenerationRequest]
) -> Response:
    """Generate the answers, and return the response, or one that streams.

    Args:
        request: The HTTP request.
        services: The application's shared objects.
        read: Converts the request's body; on a thread if the body is long.

    Raises:
        ApiError: The request is invalid, or cannot be served.
        ClientDisconnectedError: The client disconnected.
    """

    async def converted() -> ServedRequest:
        # A short body is read sooner than a thread begins.
        is_long = len(await request.body()) > _MAX_INLINE_BYTES
        return await asyncio.to_thread(read) if is_long else read()

    return await respond(request, services, converted())


async def respond(
    request: Request, services: Services, converted: Coroutine[Any, Any, ServedRequest]
) -> Response:
    """Serve a request once it is converted, as :func:`reply`."""
    begun: list[Running] = []

    async def replied() -> Response:
        served = await converted
        with translated_errors(served.names, served.part_name):
            running = await served.begin(services)
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
                encoder = await served.make_encoder(running.lease)
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
    """Count commas and opening brackets: first all of them, then only those outside of strings."""
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


def message_part(message: int, part: int) -> str:
    """Return the field that is a content part of a request with ``messages``."""
    return f"messages[{message}].content[{part}]"


def reasoning_option(effort: str) -> bool | ReasoningOptions:
    """Return the engine's option: ``"none"`` disables reasoning, other efforts permit it."""
    return False if effort == "none" else ReasoningOptions(is_required=False)
