"""Chat completions: responses and chunks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from state_machines import Vocabulary

from ...conversation.content import ToolCall
from ...results.events import (
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    ToolInputDelta,
)
from ...results.generation import GenerationResult
from ..schemas.chat import (
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatCustomTool,
    ChatDelta,
    ChatFinishReason,
    ChatFunction,
    ChatLogprobs,
    ChatMessage,
    ChatToolCall,
)
from ..schemas.common import TokenLogprob
from .choices import ChoicesEncoder, EncoderOptions


class ChatEncoder(ChoicesEncoder[ChatDelta]):
    """Encodes the answers to one conversation.

    Args:
        model: The model's name.
        vocabulary: The model's vocabulary.
        choices: The number of answers.
        options: The optional contents of the response.
        has_function_call: Whether a tool call is a ``function_call``, as for requests with the
            older field ``functions``. An answer then has one call at most.
    """

    id_prefix = "chatcmpl-"
    response_type = ChatCompletion
    response_object = "chat.completion"
    chunk_type = ChatChunk
    chunk_object = "chat.completion.chunk"

    def __init__(
        self,
        model: str,
        vocabulary: Vocabulary,
        *,
        choices: int,
        options: EncoderOptions,
        has_function_call: bool = False,
    ) -> None:
        super().__init__(model, vocabulary, choices=choices, options=options)
        self._has_function_call = has_function_call

    def begin(self) -> Iterator[bytes]:
        """Return a chunk with the role for each answer."""
        for index in range(len(self._choices)):
            delta = ChatDelta(role="assistant", content="")
            yield self._chunk(choices=[self._chunk_choice(index, delta, None, None)])

    def _delta(self, event: StreamEvent[Any]) -> ChatDelta | None:
        match event:
            case TextDelta(text=text):
                return ChatDelta(content=text)
            case ReasoningDelta(text=text) if self._options.reasoning:
                return ChatDelta(reasoning_content=text, reasoning=text)
            case ToolCallStarted(is_custom=True):
                custom = ChatCustomTool(name=event.name, input="")
                call = ChatToolCall(index=event.index, id=event.id, type="custom", custom=custom)
                return ChatDelta(tool_calls=[call])
            case ToolInputDelta():
                custom = ChatCustomTool(input=event.input)
                return ChatDelta(tool_calls=[ChatToolCall(index=event.index, custom=custom)])
            case ToolCallStarted():
                function = ChatFunction(name=event.name, arguments="")
                if self._has_function_call:
                    return ChatDelta(function_call=function)
                call = ChatToolCall(
                    index=event.index, id=event.id, type="function", function=function
                )
                return ChatDelta(tool_calls=[call])
            case ToolCallDelta():
                function = ChatFunction(arguments=event.arguments)
                if self._has_function_call:
                    return ChatDelta(function_call=function)
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
            finish_reason=None if result is None else self._reason(result),
        )
        if logprobs is not None:
            choice.logprobs = logprobs
        return choice

    def _whole_choice(
        self, index: int, result: GenerationResult[Any], logprobs: ChatLogprobs | None
    ) -> ChatChoice:
        content = result.text if result.text or not result.tool_calls else None
        message = ChatMessage(role="assistant", content=content, refusal=None)
        if result.reasoning and self._options.reasoning:
            message.reasoning_content = message.reasoning = result.reasoning
        calls = [_whole_call(call) for call in result.tool_calls]
        if calls and self._has_function_call:
            message.function_call = calls[0].function
        elif calls:
            message.tool_calls = calls
        return ChatChoice(
            index=index, message=message, logprobs=logprobs, finish_reason=self._reason(result)
        )

    def _logprobs(self, earlier: list[TokenLogprob], logprobs: list[TokenLogprob]) -> ChatLogprobs:
        return ChatLogprobs(content=logprobs, refusal=None)

    def _reason(self, result: GenerationResult[Any]) -> ChatFinishReason:
        reason = result.finish_reason
        if reason == "length" and self._options.is_complete:
            # OpenAI's clients raise for "length": their answers would be truncated.
            reason = "tool_calls" if result.tool_calls else "stop"
        if reason == "tool_calls" and self._has_function_call:
            return "function_call"
        # The client of a cancelled request gets an error, not this.
        return "stop" if reason == "cancelled" else reason


def _whole_call(call: ToolCall) -> ChatToolCall:
    if call.input is not None:
        custom = ChatCustomTool(name=call.name, input=call.input)
        return ChatToolCall(id=call.id, type="custom", custom=custom)
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    function = ChatFunction(name=call.name, arguments=arguments)
    return ChatToolCall(id=call.id, type="function", function=function)
