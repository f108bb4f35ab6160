"""Conversations and answers in pydantic-ai's types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..conversation.content import (
    AudioContent,
    Content,
    FileContent,
    ImageContent,
    TextContent,
    ToolCall,
    VideoContent,
)
from ..conversation.interaction import Interaction, Role
from ..results.generation import GenerationResult
from ..runtime.extras import requires_extra

with requires_extra("pydantic-ai", purpose="ProxyEngineModel"):
    from pydantic_ai import messages as ai
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import ModelRequestParameters


def to_interactions(
    messages: Sequence[ai.ModelMessage], parameters: ModelRequestParameters
) -> list[Interaction]:
    """Return a conversation, with the instructions behind its first system messages.

    Raises:
        UserError: A part is not known to models: ``Model.prepare_messages`` has not run.
        PromptError: The content of a part is invalid.
    """
    turns: list[Interaction] = []
    for message in messages:
        if isinstance(message, ai.ModelRequest):
            turns += _request(message)
        else:
            turns += _response(message)
    instructions = _instructions(messages, parameters)
    if instructions:
        roles = (index for index, turn in enumerate(turns) if turn.role is not Role.SYSTEM)
        turns.insert(next(roles, len(turns)), Interaction(Role.SYSTEM, instructions))
    return turns


def response_parts(result: GenerationResult[Any]) -> list[ai.ModelResponsePart]:
    """Return the parts of an answer: its reasoning, its text, and its tool calls."""
    parts: list[ai.ModelResponsePart] = []
    if result.reasoning:
        parts.append(ai.ThinkingPart(result.reasoning))
    if result.text:
        parts.append(ai.TextPart(result.text))
    for call in result.tool_calls:
        parts.append(ai.ToolCallPart(call.name, call.arguments, tool_call_id=call.id))
    return parts


def _instructions(
    messages: Sequence[ai.ModelMessage], parameters: ModelRequestParameters
) -> str | None:
    if parameters.instruction_parts is not None:
        return ai.InstructionPart.join(parameters.instruction_parts)
    # A caller without an agent has them in the newest request only.
    requests = (message for message in reversed(messages) if isinstance(message, ai.ModelRequest))
    newest = next(requests, None)
    return None if newest is None else newest.instructions


def _request(message: ai.ModelRequest) -> Iterator[Interaction]:
    files: list[ai.UserContent] = []
    for part in message.parts:
        match part:
            case ai.SystemPromptPart():
                yield Interaction(Role.SYSTEM, part.content)
            case ai.UserPromptPart():
                yield Interaction(Role.USER, _content(part.content))
            case ai.ToolReturnPart():
                # Results are text for chat templates. Files follow in a message of the user.
                text, more = part.model_response_str_and_user_content()
                files += more
                yield Interaction(
                    Role.TOOL, text, tool_call_id=part.tool_call_id, name=part.tool_name
                )
            case _:
                raise UserError(
                    f"ProxyEngineModel cannot write {type(part).__name__}. Pass the messages "
                    "through `model.prepare_messages(messages)` first, as agents do."
                )
    if files:
        yield Interaction(Role.USER, _content(files))


def _response(message: ai.ModelResponse) -> Iterator[Interaction]:
    """Yield the answer. Files and tools that another provider ran are not repeated to the model."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    for part in message.parts:
        match part:
            case ai.TextPart():
                texts.append(part.content)
            case ai.ThinkingPart():
                thoughts.append(part.content)
            case ai.ToolCallPart():
                calls.append(ToolCall(part.tool_call_id, part.tool_name, part.args_as_dict()))
    text, reasoning = "".join(texts), "".join(thoughts)
    if text or reasoning or calls:
        yield Interaction(Role.ASSISTANT, text or (), tool_calls=calls, reasoning=reasoning or None)


def _content(given: str | Sequence[ai.UserContent]) -> list[Content]:
    items = [given] if isinstance(given, str) else given
    # Prompts are cached without being told where.
    return [_part(item) for item in items if not isinstance(item, ai.CachePoint)]


def _part(item: ai.UserContent) -> Content:
    match item:
        case str():
            return TextContent(item)
        case ai.TextContent():
            return TextContent(item.content)
        case ai.ImageUrl():
            return ImageContent(url=item.url)
        case ai.AudioUrl():
            return AudioContent(url=item.url)
        case ai.VideoUrl():
            return VideoContent(url=item.url)
        case ai.DocumentUrl():
            return FileContent(url=item.url)
        case ai.BinaryContent() if item.is_image:
            return ImageContent(data=item.data)
        case ai.BinaryContent() if item.is_audio:
            return AudioContent(data=item.data)
        case ai.BinaryContent() if item.is_video:
            return VideoContent(data=item.data, media_type=item.media_type)
        case ai.BinaryContent():
            return FileContent(data=item.data, media_type=item.media_type, name=item.identifier)
    raise UserError(f"ProxyEngineModel cannot read {type(item).__name__}")
