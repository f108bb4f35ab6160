"""Anthropic's ``POST /v1/messages`` and ``POST /v1/messages/count_tokens``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from fastapi import Request, Response
from pydantic import Field

from ...checks import short_repr
from ...options.fields import with_options
from ...options.generation import PartOptions, ReasoningOptions
from ...options.overrides import OptionOverrides
from ..encoders.messages import MessagesEncoder
from ..errors import AnthropicErrorResponse, ApiError, translated_errors
from ..host import Lease
from ..running import ServicesOfRequest
from ..schemas.request_model import MAX_MESSAGES, RequestModel
from ..schemas.sampling import CONVERSATION_OPTIONS, TextFields
from ..settings import ServerSettings
from ..streaming import json_reply, unless_disconnected
from .generating import (
    STREAMED,
    GenerationRequest,
    encoder_options,
    generating_router,
    read_request,
    reply,
)


class MessageParam(RequestModel):
    """A message, whose content is a text or blocks."""

    role: Literal["user", "assistant", "system"]
    content: str | list[dict[str, Any]]


class OutputConfig(RequestModel):
    """The format of the answer's text: a JSON Schema."""

    # The model reasons as it does.
    no_effect = frozenset({"effort"})

    format: dict[str, Any] | None = None


class ThinkingConfig(RequestModel):
    """Whether the answer may begin with reasoning, and whether it is sent."""

    type: Literal["enabled", "adaptive", "disabled"]
    budget_tokens: int | None = Field(default=None, ge=1)
    display: Literal["summarized", "omitted"] | None = None


class ToolChoiceParam(RequestModel):
    """Which tools may be called."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


@with_options(**CONVERSATION_OPTIONS)
class MessagesRequest(TextFields):
    """A conversation to answer: Anthropic's fields, and extensions, which are marked."""

    messages: list[MessageParam] = Field(min_length=1, max_length=MAX_MESSAGES)
    system: str | list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = Field(
        default=None, description="Those with an `input_schema`; there are no server tools."
    )
    tool_choice: ToolChoiceParam | None = None
    thinking: ThinkingConfig | None = Field(
        default=None, description="Default: disabled. `budget_tokens` limits the reasoning."
    )
    output_config: OutputConfig | None = None

    @property
    def has_free_text(self) -> bool:
        """Whether free text may be part of the answer, which stop sequences can end."""
        calls = self.tool_choice is not None and self.tool_choice.type in ("any", "tool")
        return super().has_free_text and not calls

    @property
    def text_format(self) -> dict[str, Any] | None:
        """The format of the text."""
        return None if self.output_config is None else self.output_config.format

    @property
    def format_name(self) -> str:
        """The name of the field that has it."""
        return "output_config.format"

    def ineffective_fields(self) -> Iterator[str]:
        """Yield fields whose values have no effect although they should."""
        yield from super().ineffective_fields()
        for index, tool in enumerate(self.tools or ()):
            if "input_schema" not in tool:
                yield f"tools[{index}]"
        if self.include_tokens:
            yield "include_tokens"


router = generating_router(error=AnthropicErrorResponse)

_TOOL_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


@router.post("/messages", responses=STREAMED)
async def create_message(
    body: MessagesRequest, request: Request, services: ServicesOfRequest
) -> Response:
    """Answer a conversation; with ``stream``, as server-sent events."""
    services.unknown_fields.check(request, body)
    return await reply(request, services, lambda: _read_request(body, services.settings))


@router.post("/messages/count_tokens")
async def count_tokens(
    body: MessagesRequest, request: Request, services: ServicesOfRequest
) -> Response:
    """Return the number of tokens of a conversation, and of its tools."""
    services.unknown_fields.check(request, body)

    async def counted() -> Response:
        parsed = await asyncio.to_thread(_read_request, body, services.settings)
        (generation,) = parsed.generations
        with translated_errors(parsed.names, parsed.part_name):
            async with services.host.lease(parsed.model) as lease:
                count = await asyncio.to_thread(
                    lease.engine.count_tokens,
                    generation.prompt,
                    generation.response_format,
                    tools=generation.tools,
                    tool_choice=generation.tool_choice,
                    **generation.options,
                )
        return json_reply({"input_tokens": count})

    return await unless_disconnected(request.receive, counted())


def _read_request(body: MessagesRequest, settings: ServerSettings) -> GenerationRequest:
    conversation = _Conversation(body)
    choice: Any = None
    if body.tool_choice is not None:
        named = {"type": "function", "function": {"name": body.tool_choice.name}}
        choice = _TOOL_CHOICES.get(body.tool_choice.type, named)

    async def encoder(lease: Lease) -> MessagesEncoder:
        shows = body.thinking is None or body.thinking.display != "omitted"
        options = encoder_options(body, tokens=False, reasoning=shows)
        return MessagesEncoder(
            lease.name, lease.engine.vocabulary, options, stop_sequences=body.stop_strings
        )

    return read_request(
        body,
        [conversation.messages],
        encoder,
        settings,
        names={"prompt": "messages", "reasoning": "thinking"},
        options=lambda _: _options(body),
        tools=[_tool(tool) for tool in body.tools or () if "input_schema" in tool],
        tool_choice=choice,
        part_name=conversation.part_name,
    )


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool as chat completions have it."""
    function = {"name": tool.get("name"), "parameters": tool["input_schema"]}
    if tool.get("description"):
        function["description"] = tool["description"]
    return {"type": "function", "function": function}


def _options(body: MessagesRequest) -> OptionOverrides:
    options = body.options()
    thinking = body.thinking
    if thinking is None or thinking.type == "disabled":
        options["reasoning"] = False
    else:
        options["reasoning"] = ReasoningOptions(is_required=False)
        if thinking.budget_tokens is not None:
            options["parts"] = {"reasoning": PartOptions(max_tokens=thinking.budget_tokens)}
    if body.tool_choice is not None and body.tool_choice.disable_parallel_tool_use:
        options["parallel_tool_calls"] = False
    return options


class _Conversation:
    """The messages of a request as chat completions have them.

    Attributes:
        messages: The messages.
    """

    def __init__(self, body: MessagesRequest) -> None:
        self.messages: list[dict[str, Any]] = []
        # By message: the fields of the request that its parts are.
        self._names: list[list[str]] = []
        if body.system:
            self._add("system", body.system, "system")
        for index, message in enumerate(body.messages):
            self._add(message.role, message.content, f"messages[{index}].content")

    def part_name(self, message: int, part: int) -> str:
        """Return the field of the request that is a content part."""
        return self._names[message][part]

    def _add(self, role: str, content: str | list[dict[str, Any]], name: str) -> None:
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        message: dict[str, Any] = {"role": role, "content": []}
        names: list[str] = []
        for index, block in enumerate(content):
            field = f"{name}[{index}]"
            match block:
                case {"type": "thinking", "thinking": str(text)} if role == "assistant":
                    message["reasoning_content"] = message.get("reasoning_content", "") + text
                case {"type": "redacted_thinking"}:
                    pass
                case {"type": "tool_use", "id": str(id), "name": str(tool), "input": given}:
                    function = {"name": tool, "arguments": json.dumps(given)}
                    call = {"id": id, "type": "function", "function": function}
                    message.setdefault("tool_calls", []).append(call)
                case {"type": "tool_result", "tool_use_id": str(id), **rest}:
                    # Results precede the other blocks of their message.
                    parts = [*_parts(rest.get("content") or "", f"{field}.content")]
                    self._append(
                        {"role": "tool", "tool_call_id": id, "content": [p for p, _ in parts]},
                        [name for _, name in parts],
                    )
                case _:
                    for part, part_name in _parts([block], name, index):
                        message["content"].append(part)
                        names.append(part_name)
        if len(message) > 2 or message["content"]:
            self._append(message, names)

    def _append(self, message: dict[str, Any], names: list[str]) -> None:
        self.messages.append(message)
        self._names.append(names)


def _parts(content: Any, name: str, start: int = 0) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield content blocks as parts of chat completions, and the fields that they are."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        message = f"the content is {short_repr(content)}, neither a text nor a list of blocks"
        raise ApiError(400, message, code="invalid_prompt", param=name)
    for index, block in enumerate(content, start):
        field = f"{name}[{index}]"
        match block:
            case {"type": "text", "text": str(text)}:
                yield {"type": "text", "text": text}, field
            case {"type": "image", "source": {"type": "base64", "data": str(data), **rest}}:
                url = f"data:{rest.get('media_type', '')};base64,{data}"
                yield {"type": "image_url", "image_url": {"url": url}}, field
            case {"type": "image", "source": {"type": "url", "url": str(url)}}:
                yield {"type": "image_url", "image_url": {"url": url}}, field
            case {"type": "document", "source": {"type": "text", "data": str(text)}, **rest}:
                title = rest.get("title")
                yield {"type": "text", "text": f"{title}\n\n{text}" if title else text}, field
            case _:
                kind = block.get("type") if isinstance(block, Mapping) else None
                message = f"a content block of type {short_repr(kind)} is not supported here"
                raise ApiError(400, message, code="invalid_prompt", param=field)
