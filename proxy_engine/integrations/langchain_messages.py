"""LangChain's messages as messages of the engine, and results as LangChain's messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from state_machines import Vocabulary

from ..results.events import (
    Event,
    Finished,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from ..results.generation import GenerationResult
from ..runtime.extras import requires_extra
from .conversion import openai_logprobs, reasoning_tokens

with requires_extra("langchain", purpose="LangChain's messages"):
    from langchain_core.messages import (
        AIMessage,
        AIMessageChunk,
        BaseMessage,
        convert_to_openai_messages,
    )
    from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
    from langchain_core.messages.tool import tool_call, tool_call_chunk
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

PROVIDER = "proxy_engine"
"""The provider's name in metadata of messages and traces."""

_REASONING_BLOCKS = ("reasoning", "thinking")
# The calls are also in `message.tool_calls`; nothing reads hidden reasoning.
_UNREAD_BLOCKS = (
    *_REASONING_BLOCKS,
    "redacted_thinking",
    "tool_call",
    "tool_call_chunk",
    "invalid_tool_call",
)


def to_engine_messages(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Return a conversation as OpenAI messages, with the reasoning of earlier answers.

    Raises:
        ValueError: LangChain cannot convert a block of content.
    """
    written: list[dict[str, Any]] = []
    for message in messages:
        if not isinstance(message, AIMessage):
            written += convert_to_openai_messages([message])
            continue
        readable = message
        if isinstance(message.content, list):
            blocks = [block for block in message.content if _kind(block) not in _UNREAD_BLOCKS]
            readable = message.model_copy(update={"content": blocks})
        (answer,) = convert_to_openai_messages([readable])
        reasoning = _reasoning_of(message)
        written.append({**answer, "reasoning_content": reasoning} if reasoning else answer)
    return written


def to_chat_result(vocabulary: Vocabulary, result: GenerationResult[Any]) -> ChatResult:
    """Return a result, with ``n`` above 1 all of its answers."""
    answers = result.choices or (result,)
    messages = [_message(vocabulary, answer) for answer in answers]
    return ChatResult(generations=[ChatGeneration(message=message) for message in messages])


def to_chunk(vocabulary: Vocabulary, event: Event) -> ChatGenerationChunk | None:
    """Return what an event adds to the answer; ``None`` if that is nothing."""
    match event:
        case TextDelta(text=text):
            message = AIMessageChunk(content=text)
        case ReasoningDelta(text=text):
            message = AIMessageChunk(content="", additional_kwargs={"reasoning_content": text})
        case ToolCallStarted(index=index, id=id, name=name):
            call = tool_call_chunk(name=name, args="", id=id, index=index)
            message = AIMessageChunk(content="", tool_call_chunks=[call])
        case ToolCallDelta(index=index, arguments=arguments):
            # The id is merged by concatenation, so only the first chunk of a call has it.
            call = tool_call_chunk(args=arguments, index=index)
            message = AIMessageChunk(content="", tool_call_chunks=[call])
        case ToolCallFinished(index=index, arguments=arguments, is_custom=True):
            # LangChain reads arguments as JSON, so the input is sent once it is complete.
            written = json.dumps(arguments, ensure_ascii=False)
            call = tool_call_chunk(args=written, index=index)
            message = AIMessageChunk(content="", tool_call_chunks=[call])
        case Finished(result=result):
            message = AIMessageChunk(
                content="",
                usage_metadata=_usage(vocabulary, result),
                response_metadata=_metadata(vocabulary, result),
                chunk_position="last",
            )
        case _:
            return None
    return ChatGenerationChunk(message=message)


def _message(vocabulary: Vocabulary, result: GenerationResult[Any]) -> AIMessage:
    # LangChain makes a reasoning block of `content_blocks` from it, and keeps `content` a string.
    reasoning = {"reasoning_content": result.reasoning} if result.reasoning else {}
    return AIMessage(
        content=result.text,
        additional_kwargs=reasoning,
        tool_calls=[
            tool_call(name=call.name, args=dict(call.arguments), id=call.id)
            for call in result.tool_calls
        ],
        usage_metadata=_usage(vocabulary, result),
        response_metadata=_metadata(vocabulary, result),
    )


def _usage(vocabulary: Vocabulary, result: GenerationResult[Any]) -> UsageMetadata:
    usage = result.usage
    read = InputTokenDetails(cache_read=usage.cached_tokens)
    if usage.audio_tokens:
        read["audio"] = usage.audio_tokens
    return UsageMetadata(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        input_token_details=read,
        output_token_details=OutputTokenDetails(reasoning=reasoning_tokens(vocabulary, result)),
    )


def _metadata(vocabulary: Vocabulary, result: GenerationResult[Any]) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "finish_reason": result.finish_reason,
        "model_name": result.model,
        "model_provider": PROVIDER,
    }
    if result.logprobs is not None:
        metadata["logprobs"] = openai_logprobs(vocabulary, result.logprobs)
    return metadata


def _kind(block: Any) -> str | None:
    return block.get("type") if isinstance(block, dict) else None


def _reasoning_of(message: AIMessage) -> str:
    blocks = message.content if isinstance(message.content, list) else []
    found = [
        str(block.get(_kind(block)) or "")
        for block in blocks
        if isinstance(block, dict) and _kind(block) in _REASONING_BLOCKS
    ]
    return "".join(found) or message.additional_kwargs.get("reasoning_content", "")
