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
from ...tools.tool import Tool
from ..admission import Lease
from ..encoders.messages import MessagesEncoder
from ..errors import AnthropicErrorResponse, ApiError, translated_errors
from ..running import Services, ServicesOfRequest
from ..schemas import MAX_MESSAGES, RequestModel
from ..schemas.sampling import CONVERSATION_OPTIONS, TextFields
from ..streaming import json_reply, unless_disconnected
from ..tool_definitions import is_hosted, unread_members
from ..tool_lists import ToolList
from .generating import STREAMED, Dialect, generating_router, reply
from .served_requests import (
    GenerationRequest,
    encoder_options,
    read_request,
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
    display: str | None = Field(
        default=None, description="`omitted` leaves it out; other values are as `summarized`."
    )


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
            else:
                yield from unread_members(tool, f"tools[{index}]")
        if self.include_tokens:
            yield "include_tokens"


# The beginning of the types of hosted tools that search other tools.
_TOOL_SEARCH = "tool_search_tool"
_TOOL_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def _read(body: MessagesRequest, services: Services) -> GenerationRequest:
    conversation = _Conversation(body)
    choice: Any = None
    if body.tool_choice is not None:
        named = {"type": "function", "function": {"name": body.tool_choice.name}}
        choice = _TOOL_CHOICES.get(body.tool_choice.type, named)

    return read_request(
        body,
        [conversation.messages],
        services.settings,
        names={"prompt": "messages", "reasoning": "thinking"},
        options=lambda _: _options(body),
        tools=conversation.tools(choice),
        part_name=conversation.part_name,
    )


async def _encode(
    body: MessagesRequest, request: GenerationRequest, lease: Lease
) -> MessagesEncoder:
    shows = body.thinking is None or body.thinking.display != "omitted"
    options = encoder_options(body, tokens=False, reasoning=shows)
    return MessagesEncoder(
        lease.name, lease.engine.vocabulary, options, stop_sequences=body.stop_strings
    )


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
    """The messages of a request as chat completions have them, and the tools in them.

    A tool with ``defer_loading`` can be called from the start. The message that first names it
    describes it. If the tools are searched by a hosted tool, no message would: the prompt describes
    them at once.

    Attributes:
        messages: The messages.
    """

    def __init__(self, body: MessagesRequest) -> None:
        self.messages: list[dict[str, Any]] = []
        self._body_tools = body.tools or []
        # By name: the tools that no message has described.
        self._deferred: dict[str, Mapping[str, Any]] = {}
        if not any(str(tool.get("type")).startswith(_TOOL_SEARCH) for tool in self._body_tools):
            self._deferred = {
                str(tool.get("name")): tool
                for tool in self._body_tools
                if tool.get("defer_loading")
            }
        self._deferred_names = [*self._deferred]
        self._added: list[Mapping[str, Any]] = []
        self._removed: set[str] = set()
        # By message: the fields of the request that its parts are.
        self._names: list[list[str]] = []
        if body.system:
            self._add("system", body.system, "system")
        for index, message in enumerate(body.messages):
            self._add(message.role, message.content, f"messages[{index}].content")

    def part_name(self, message: int, part: int) -> str:
        """Return the field of the request that is a content part."""
        return self._names[message][part]

    def tools(self, choice: Any) -> ToolList:
        """Return the tools of the request and of its messages, without removed tools."""
        given = [
            None if tool.get("name") in self._removed else _definition(tool)
            for tool in self._body_tools
        ]
        left = (tool for tool in self._added if tool.get("name") not in self._removed)
        added = [tool for tool in map(_definition, left) if tool is not None]
        return ToolList.read(given, choice, added=added, deferred=self._deferred_names)

    def _tool_text(self, name: str) -> str:
        """Return the text that refers to a tool, which describes it if no earlier text does."""
        self._removed.discard(name)
        tool = self._deferred.pop(name, None)
        if tool is None:
            return f"Tool available: {name}"
        keys = ("name", "description", "input_schema")
        shown = {key: tool[key] for key in keys if tool.get(key) is not None}
        return f"Tool available: {json.dumps(shown, ensure_ascii=False)}"

    def _changed_tool(self, kind: str, tool: Mapping[str, Any]) -> str:
        """Add or remove a tool from here on, and return the text that says so."""
        definition = tool.get("definition")
        if isinstance(definition, Mapping):
            tool = definition
            self._added.append(definition)
            self._deferred[str(tool.get("name"))] = definition
        name = str(tool.get("name"))
        if kind == "tool_addition":
            return self._tool_text(name)
        self._removed.add(name)
        return f"Tool no longer available: {name}"

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
                    parts = [*self._parts(rest.get("content") or "", f"{field}.content")]
                    self._append(
                        {"role": "tool", "tool_call_id": id, "content": [p for p, _ in parts]},
                        [name for _, name in parts],
                    )
                case _:
                    for part, part_name in self._parts([block], name, index):
                        message["content"].append(part)
                        names.append(part_name)
        if len(message) > 2 or message["content"]:
            self._append(message, names)

    def _append(self, message: dict[str, Any], names: list[str]) -> None:
        self.messages.append(message)
        self._names.append(names)

    def _parts(
        self, content: Any, name: str, start: int = 0
    ) -> Iterator[tuple[dict[str, Any], str]]:
        """Yield content blocks as parts of chat completions, and the fields that they are."""
        for block, field in _blocks(content, name, start):
            match block:
                case {"type": "tool_reference", "tool_name": str(tool)}:
                    yield {"type": "text", "text": self._tool_text(tool)}, field
                case {"type": "tool_addition" | "tool_removal" as kind, "tool": Mapping() as tool}:
                    yield {"type": "text", "text": self._changed_tool(str(kind), tool)}, field
                case _:
                    yield _part(block, field), field


def _definition(tool: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return a tool, unless it has no schema. A tool with a schema has no other type."""
    if "input_schema" in tool:
        return {key: value for key, value in tool.items() if key != "type"}
    return tool if is_hosted(tool) else None


def _blocks(content: Any, name: str, start: int) -> Iterator[tuple[Any, str]]:
    """Yield content blocks, and the fields that they are."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        message = f"the content is {short_repr(content)}, neither a text nor a list of blocks"
        raise ApiError(400, message, code="invalid_prompt", param=name)
    for index, block in enumerate(content, start):
        yield block, f"{name}[{index}]"


def _part(block: Any, field: str) -> dict[str, Any]:
    """Return a content block as a part of chat completions."""
    match block:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "image", "source": {"type": "base64", "data": str(data), **rest}}:
            url = f"data:{rest.get('media_type', '')};base64,{data}"
            return {"type": "image_url", "image_url": {"url": url}}
        case {"type": "image", "source": {"type": "url", "url": str(url)}}:
            return {"type": "image_url", "image_url": {"url": url}}
        case {"type": "document", "source": {"type": "text", "data": str(text)}, **rest}:
            title = rest.get("title")
            return {"type": "text", "text": f"{title}\n\n{text}" if title else text}
    kind = block.get("type") if isinstance(block, Mapping) else None
    message = f"a content block of type {short_repr(kind)} is not supported here"
    raise ApiError(400, message, code="invalid_prompt", param=field)


MESSAGES = Dialect(_read, _encode)

router = generating_router(error=AnthropicErrorResponse)


@router.post("/messages", responses=STREAMED)
async def create_message(
    body: MessagesRequest, request: Request, services: ServicesOfRequest
) -> Response:
    """Answer a conversation; with ``stream``, as server-sent events."""
    return await reply(MESSAGES, body, request, services)


@router.post("/messages/count_tokens")
async def count_tokens(
    body: MessagesRequest, request: Request, services: ServicesOfRequest
) -> Response:
    """Return the number of tokens of a conversation, and of its tools."""
    services.unknown_fields.check(request, body)

    async def counted() -> Response:
        parsed = await asyncio.to_thread(MESSAGES.read, body, services)

        async def count(tools: list[Tool] | None, choice: Any) -> int:
            return await asyncio.to_thread(
                lease.engine.count_tokens,
                parsed.prompts[0],
                parsed.response_format,
                tools=tools,
                tool_choice=choice,
                **parsed.options[0],
            )

        with translated_errors(parsed.names, parsed.part_name):
            async with services.host.lease(parsed.model) as lease:
                tokens, left_out = await parsed.without_refused_tools(count)
        services.unknown_fields.list_tools(request, left_out)
        return json_reply({"input_tokens": tokens})

    return await unless_disconnected(request.receive, counted())
