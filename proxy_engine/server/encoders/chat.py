"""Chat completions: responses and chunks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

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
from .choices import ChoicesEncoder
from .encoder import Fields


class ChatEncoder(ChoicesEncoder):
    """Encodes the answers to one conversation."""

    id_prefix = "chatcmpl-"
    response_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def begin(self) -> Iterator[bytes]:
        """Return a chunk with the role for each answer."""
        for index in range(len(self._answers)):
            yield self._chunk(index, {"role": "assistant", "content": ""}, None)

    def _delta(self, event: StreamEvent[Any]) -> Fields | None:
        match event:
            case TextDelta(text=text):
                return {"content": text}
            case ReasoningDelta(text=text) if self._options.reasoning:
                # Clients read one or the other.
                return {"reasoning_content": text, "reasoning": text}
            case ToolCallStarted(is_custom=True):
                inner: Fields = {"custom": {"name": event.name, "input": ""}}
                return _calls({"index": event.index, "id": event.id, "type": "custom", **inner})
            case ToolInputDelta():
                return _calls({"index": event.index, "custom": {"input": event.input}})
            case ToolCallStarted():
                inner = {"function": {"name": event.name, "arguments": ""}}
                return _calls({"index": event.index, "id": event.id, "type": "function", **inner})
            case ToolCallDelta():
                return _calls({"index": event.index, "function": {"arguments": event.arguments}})
        return None

    def _chunk_choice(self, delta: Any, logprobs: Fields | None) -> Fields:
        choice = {"delta": delta or {}}
        return choice if logprobs is None else {**choice, "logprobs": logprobs}

    def _whole_choice(self, index: int, result: GenerationResult[Any]) -> Fields:
        content = result.text if result.text or not result.tool_calls else None
        message: Fields = {"role": "assistant", "content": content, "refusal": None}
        if result.reasoning and self._options.reasoning:
            message["reasoning_content"] = message["reasoning"] = result.reasoning
        if result.tool_calls:
            message["tool_calls"] = [_whole_call(call) for call in result.tool_calls]
        return {"message": message}

    def _logprobs(self, index: int, logprobs: list[Fields]) -> Fields:
        return {"content": logprobs, "refusal": None}

    def _reason(self, result: GenerationResult[Any]) -> str:
        reason = result.finish_reason
        if reason == "length" and self._options.is_complete:
            # OpenAI's clients raise for "length": their answers would be truncated.
            reason = "tool_calls" if result.tool_calls else "stop"
        # The client of a cancelled request gets an error, not this.
        return "stop" if reason == "cancelled" else reason


def _calls(call: Fields) -> Fields:
    return {"tool_calls": [call]}


def _whole_call(call: ToolCall) -> Fields:
    if call.input is not None:
        custom = {"name": call.name, "input": call.input}
        return {"id": call.id, "type": "custom", "custom": custom}
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}
