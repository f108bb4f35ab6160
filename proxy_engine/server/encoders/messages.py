"""Anthropic's messages: responses, and the events of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from state_machines import Vocabulary

from ...answers.composition import REASONING
from ...results.events import PromptProgress, StreamEvent, TokenGenerated, ToolCallStarted
from ...results.generation import GenerationResult
from ..errors import ApiError
from ..streaming import frame
from . import BlocksEncoder, EncoderOptions, Fields, draft_counts, new_id

# By type of a block: the type of its deltas, and their member with the text.
_DELTAS = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}
_STOP_REASONS = {"length": "max_tokens", "tool_calls": "tool_use"}


class MessagesEncoder(BlocksEncoder):
    """Encodes one answer as content blocks.

    Args:
        model: The model's name.
        vocabulary: The model's vocabulary.
        options: The optional contents of the response.
        stop_sequences: The stop strings of the request.
    """

    def __init__(
        self,
        model: str,
        vocabulary: Vocabulary,
        options: EncoderOptions,
        *,
        stop_sequences: Sequence[str],
    ) -> None:
        super().__init__(vocabulary, options)
        self._stop_sequences = stop_sequences
        # Of the tokens after the reasoning, which stop strings do not end.
        self._token_ids: list[int] = []
        self._arguments = ""
        self._message: Fields = {
            "id": new_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": self._blocks,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(0, 0, 0),
        }

    def begin(self, prompt: PromptProgress | None = None) -> Iterator[bytes]:
        """Return the first events. They count the tokens of a prompt that waits as none."""
        if prompt is not None:
            # `processed` of the first event is the number of cached tokens.
            self._message["usage"] = _usage(prompt.total, prompt.processed, 0)
        yield self._event("message_start", message=self._message)
        yield self._event("ping")

    def encode(self, index: int, event: StreamEvent[Any]) -> Iterator[bytes]:
        """Return the frames for an event."""
        if isinstance(event, TokenGenerated) and event.part != REASONING:
            self._token_ids.append(event.token_id)
        yield from super().encode(index, event)

    def end(self) -> Iterator[bytes]:
        """Return the last events."""
        names = ("stop_reason", "stop_sequence", "proxy_engine")
        delta = {name: self._message[name] for name in names if name in self._message}
        yield self._event("message_delta", delta=delta, usage=self._message["usage"])
        yield self._event("message_stop")

    def fail(self, error: ApiError) -> Iterator[bytes]:
        """Return the error as the last event."""
        yield frame(error.anthropic_body, "error")

    def response(self) -> Fields:
        """Return the message."""
        return self._message

    def _text_block(self, is_reasoning: bool) -> Fields:
        if is_reasoning:
            return {"type": "thinking", "thinking": "", "signature": ""}
        return {"type": "text", "text": ""}

    def _call_block(self, event: ToolCallStarted) -> Fields:
        self._arguments = ""
        return {"type": "tool_use", "id": event.id, "name": event.name, "input": {}}

    def _opened(self, block: Fields) -> Iterator[bytes]:
        yield self._block_event("content_block_start", content_block=block)

    def _extended(self, block: Fields, text: str) -> Iterator[bytes]:
        kind, member = _DELTAS[block["type"]]
        if member in block:
            block[member] += text
        else:
            self._arguments += text
        yield self._block_event("content_block_delta", delta={"type": kind, member: text})

    def _closed(self, block: Fields, is_complete: bool) -> Iterator[bytes]:
        if block["type"] == "tool_use":
            block["input"] = json.loads(self._arguments)
        yield self._block_event("content_block_stop")

    def _finish(self, index: int, result: GenerationResult[Any]) -> Iterator[bytes]:
        if all(block["type"] == "thinking" for block in self._blocks):
            # An empty text is an answer.
            yield from self._add_text("", is_reasoning=False)
        yield from self._close()
        usage, stopped = result.usage, self._stop_sequence(result)
        self._message |= {
            "stop_reason": "stop_sequence"
            if stopped is not None
            else _STOP_REASONS.get(result.finish_reason, "end_turn"),
            "stop_sequence": stopped,
            "usage": _usage(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens)
            | draft_counts([usage]),
        }
        extension = self._extension(result)
        if extension:
            self._message["proxy_engine"] = extension

    def _stop_sequence(self, result: GenerationResult[Any]) -> str | None:
        """Return the stop string that ended the answer: its tokens have it, its text does not."""
        if result.finish_reason != "stop":
            return None
        written = self._texts.text(self._token_ids)
        found = [text for text in self._stop_sequences if text in written]
        return min(found, key=written.index) if found else None

    def _block_event(self, kind: str, **fields: Any) -> bytes:
        return self._event(kind, index=len(self._blocks) - 1, **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        return frame({"type": kind, **fields}, kind) if self._options.is_streamed else b""


def _usage(prompt: int, cached: int, completion: int) -> Fields:
    """Return the numbers of tokens: Anthropic counts cached tokens apart."""
    return {
        "input_tokens": prompt - cached,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": completion,
    }
