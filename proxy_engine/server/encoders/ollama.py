"""Ollama's responses, and the lines of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from state_machines import Vocabulary

from ...results.events import ReasoningDelta, StreamEvent, TextDelta, ToolCallFinished
from ..errors import ApiError
from ..streaming import one_line
from .encoder import AnswerEncoder, EncoderOptions, Fields, draft_counts


class OllamaEncoder(AnswerEncoder):
    """Encodes one answer.

    Args:
        model: The model's name.
        vocabulary: The model's vocabulary.
        options: The optional contents of the response.
        is_chat: Whether the answer is a message, rather than a text.
    """

    media_type = "application/x-ndjson"

    def __init__(
        self, model: str, vocabulary: Vocabulary, options: EncoderOptions, *, is_chat: bool
    ) -> None:
        super().__init__(vocabulary, options)
        self._model = model
        self._is_chat = is_chat

    def end(self) -> Iterator[bytes]:
        """Return the last line."""
        yield json_line(self._fields("", **self._end()))

    def fail(self, error: ApiError) -> Iterator[bytes]:
        """Return the error as the last line."""
        yield json_line(error.ollama_body)

    def response(self) -> Fields:
        """Return the whole response."""
        (result,) = self._results()
        more: Fields = {}
        if result.reasoning and self._options.reasoning:
            more["thinking"] = result.reasoning
        if result.tool_calls:
            more["tool_calls"] = [_call(call.name, call.arguments) for call in result.tool_calls]
        return self._fields(result.text, more, **self._end())

    def _content(self, index: int, event: StreamEvent[Any]) -> Iterator[bytes]:
        fields = None
        match event:
            case TextDelta(text=text):
                fields = self._fields(text)
            case ReasoningDelta(text=text) if self._options.reasoning:
                fields = self._fields("", {"thinking": text})
            case ToolCallFinished(name=name, arguments=arguments):
                fields = self._fields("", {"tool_calls": [_call(name, arguments)]})
        if fields is not None and self._options.is_streamed:
            yield json_line(fields)

    def _token(self, index: int, token: Fields) -> bytes:
        return json_line(self._fields("", proxy_engine={"tokens": [token]}))

    def _fields(self, text: str, more: Fields | None = None, **end: Any) -> Fields:
        return answer_fields(self._model, text, more, is_chat=self._is_chat, **end)

    def _end(self) -> Fields:
        """Return the fields of the end: counts, and times in nanoseconds."""
        (result,) = self._results()
        usage = result.usage
        prompt = round(usage.prompt_seconds * 1e9)
        completion = round(usage.completion_seconds * 1e9)
        before = round((usage.preparation_seconds + usage.queue_seconds) * 1e9)
        end: Fields = {
            "done": True,
            "done_reason": "length" if result.finish_reason == "length" else "stop",
            "total_duration": before + prompt + completion,
            "load_duration": 0,
            "prompt_eval_count": usage.prompt_tokens,
            "prompt_eval_duration": prompt,
            "eval_count": usage.completion_tokens,
            "eval_duration": completion,
            **draft_counts([usage]),
        }
        extension = {**self._timings(result), **self._extension(result)}
        return {**end, "proxy_engine": extension} if extension else end


def _call(name: str, arguments: Any) -> Fields:
    return {"function": {"name": name, "arguments": arguments}}


def json_line(fields: Fields) -> bytes:
    """Return a line of a stream."""
    return one_line(fields) + b"\n"


def answer_fields(
    model: str, text: str, more: Fields | None = None, *, is_chat: bool, **end: Any
) -> Fields:
    """Return an answer, or a piece of one.

    Args:
        model: The model's name.
        text: Its text.
        more: Further members beside the text.
        is_chat: Whether it is a message, rather than a text.
        end: The members of the end.
    """
    head = {"model": model, "created_at": datetime.now(UTC).isoformat(), "done": False}
    content = {"response": text, **(more or {})}
    if is_chat:
        content = {"message": {"role": "assistant", "content": text, **(more or {})}}
    return {**head, **content, **end}
