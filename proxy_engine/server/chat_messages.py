"""Messages of chat completions as the engine reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .schemas.chat import Message

_READ = {"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "reasoning_content"}
# Parts of history that contain the reasoning of an answer, and their members with its text.
_REASONING_PARTS = {"thinking": "thinking", "reasoning": "text", "redacted_thinking": None}


def engine_messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return the messages of a request, with the fields that a model can read."""
    return [_engine_message(message) for message in messages]


def _engine_message(message: Message) -> dict[str, Any]:
    written = message.model_dump(include=_READ, exclude_unset=True)
    written["role"] = "tool" if message.role == "function" else message.role
    call = message.function_call
    if call is not None and not message.tool_calls:
        written["tool_calls"] = [{"type": "function", "function": call}]
    if message.role in ("assistant", "agent"):
        reasoning = _move_reasoning(written)
        given = (message.reasoning_content, message.reasoning, _text(message.thinking), reasoning)
        written["reasoning_content"] = next((text for text in given if text), None)
    return written


def _move_reasoning(written: dict[str, Any]) -> str:
    """Remove the parts of reasoning from a message's content, and return their text."""
    content = written.get("content")
    if not isinstance(content, list):
        return ""
    reasoning = [part for part in content if _is_reasoning(part)]
    if reasoning:
        written["content"] = [part for part in content if not _is_reasoning(part)]
    return "".join(_text(part.get(_REASONING_PARTS[part["type"]])) for part in reasoning)


def _is_reasoning(part: dict[str, Any]) -> bool:
    kind = part.get("type")
    return isinstance(kind, str) and kind in _REASONING_PARTS


def _text(thinking: Any) -> str:
    """Return the text of reasoning, which some clients write as a list of text parts."""
    if isinstance(thinking, str):
        return thinking
    parts = thinking if isinstance(thinking, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))
