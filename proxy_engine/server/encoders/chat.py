"""Chat completions: responses and chunks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from ...events import ReasoningDelta, StreamEvent, TextDelta, ToolCallDelta, ToolCallStarted
from ...results import GenerationResult
from ..schemas.chat import (
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatDelta,
    ChatFunction,
    ChatLogprobs,
    ChatMessage,
    ChatToolCall,
)
from ..schemas.common import TokenLogprob
from .choices import ChoicesEncoder


class ChatEncoder(ChoicesEncoder[ChatDelta]):
    """Encodes the answers to one conversation."""

    id_prefix = "chatcmpl-"
    response_type = ChatCompletion
    response_object = "chat.completion"
    chunk_type = ChatChunk
    chunk_object = "chat.completion.chunk"

    def begin(self) -> Iterator[bytes]:
        """Return a chunk with the role for each answer."""
        for index in range(len(self._choices)):
            delta = ChatDelta(role="assistant", content="")
            yield self._chunk(choices=[self._chunk_choice(index, delta, None, None)])

    def _delta(self, event: StreamEvent[Any]) -> ChatDelta | None:
        match event:
            case TextDelta(text=text):
                return ChatDelta(content=text)
            case ReasoningDelta(text=text):
                return ChatDelta(reasoning_content=text)
            case ToolCallStarted():
                function = ChatFunction(name=event.name, arguments="")
                call = ChatToolCall(
                    index=event.index, id=event.id, type="function", function=function
                )
                return ChatDelta(tool_calls=[call])
            case ToolCallDelta():
                function = ChatFunction(arguments=event.arguments)
                return ChatDelta(tool_calls=[ChatToolCall(index=event.index, function=function)])
        return None

    def _chunk_choice(
        self,
        index: int,
        delta: ChatDelta | None,
        logprobs: ChatLogprobs | None,
        result: GenerationResult[Any] | None,
    ) -> ChatChunkChoice:
        choice = ChatChunkChoice(
            index=index,
            delta=delta or ChatDelta(),
            finish_reason=None if result is None else _reason(result),
        )
        if logprobs is not None:
            choice.logprobs = logprobs
        return choice

    def _whole_choice(
        self, index: int, result: GenerationResult[Any], logprobs: ChatLogprobs | None
    ) -> ChatChoice:
        content = result.text if result.text or not result.tool_calls else None
        message = ChatMessage(role="assistant", content=content, refusal=None)
        if result.reasoning:
            message.reasoning_content = result.reasoning
        if result.tool_calls:
            message.tool_calls = [
                ChatToolCall(
                    id=call.id,
                    type="function",
                    function=ChatFunction(
                        name=call.name, arguments=json.dumps(call.arguments, ensure_ascii=False)
                    ),
                )
                for call in result.tool_calls
            ]
        return ChatChoice(
            index=index, message=message, logprobs=logprobs, finish_reason=_reason(result)
        )

    def _logprobs(self, earlier: list[TokenLogprob], logprobs: list[TokenLogprob]) -> ChatLogprobs:
        return ChatLogprobs(content=logprobs, refusal=None)


def _reason(result: GenerationResult[Any]) -> Literal["stop", "length", "tool_calls"]:
    reason = result.finish_reason
    # The client of a cancelled request gets an error, not this.
    return "stop" if reason == "cancelled" else reason
