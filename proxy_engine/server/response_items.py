"""Items of the Responses interface, and the messages that they are.

An item is less than a message: what the model thought, what it said and what it called come one by
one, and are one turn of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .errors import ApiError
from .schemas.responses import FunctionCallItem, MessageItem, OutputItem

__all__ = ["messages_of_input", "messages_of_output"]

_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}


def messages_of_input(given: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what clients send as messages. Raises ``ApiError``."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    messages: list[dict[str, Any]] = []
    for index, item in enumerate(given):
        _add(messages, item, f"input[{index}]")
    return messages


def messages_of_output(items: Iterable[OutputItem]) -> list[dict[str, Any]]:
    """Return what was answered as messages, for what comes after it."""
    messages: list[dict[str, Any]] = []
    for item in items:
        if isinstance(item, MessageItem):
            _say(messages, "".join(part.text for part in item.content))
        elif isinstance(item, FunctionCallItem):
            _call(messages, item.call_id, item.name, item.arguments)
        else:
            _think(messages, "".join(part.text for part in item.content))
    return messages


def _add(messages: list[dict[str, Any]], item: Mapping[str, Any], place: str) -> None:
    match item:
        case {"type": "function_call", "name": str(name), "arguments": str(arguments)}:
            _call(messages, item.get("call_id"), name, arguments)
        case {"type": "function_call_output", "call_id": str(id), "output": str(output)}:
            messages.append({"role": "tool", "tool_call_id": id, "content": output})
        case {"type": "function_call_output", "call_id": str(id), "output": list(parts)}:
            content = [_part(part, place) for part in parts]
            messages.append({"role": "tool", "tool_call_id": id, "content": content})
        case {"type": "reasoning"}:
            parts = item.get("content") or item.get("summary") or []
            texts = [part.get("text") for part in parts if isinstance(part, dict)]
            _think(messages, "".join(text for text in texts if isinstance(text, str)))
        case {"role": str(role), "content": content} if (
            item.get("type", "message") == "message" and role in _ROLES
        ):
            if isinstance(content, list):
                content = [_part(part, place) for part in content]
            elif not isinstance(content, str):
                raise _unknown("content that is neither text nor a list of parts", place)
            if role == "assistant":
                _say(messages, content)
            else:
                messages.append({"role": _ROLES[role], "content": content})
        case _:
            raise _unknown(f"an item of type {item.get('type', 'message')!r} like this", place)


def _part(part: Any, place: str) -> dict[str, Any]:
    match part:
        case {"type": "input_text" | "output_text" | "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "refusal", "refusal": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "input_image", "image_url": str(url)}:
            return {"type": "image_url", "image_url": {"url": url}}
        case {"type": "input_file", "file_data": str(data)}:
            file = {"file_data": data}
            if isinstance(part.get("filename"), str):
                file["filename"] = part["filename"]
            return {"type": "file", "file": file}
    raise _unknown("a part of content like this", place)


def _say(messages: list[dict[str, Any]], content: Any) -> None:
    turn = _turn(messages)
    if turn.get("content") or turn.get("tool_calls"):
        turn = {"role": "assistant"}
        messages.append(turn)
    turn["content"] = content


def _call(messages: list[dict[str, Any]], id: Any, name: str, arguments: str) -> None:
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    if isinstance(id, str):
        call["id"] = id
    _turn(messages).setdefault("tool_calls", []).append(call)


def _think(messages: list[dict[str, Any]], text: str) -> None:
    if not text:
        return
    turn = _turn(messages)
    if turn.get("content") or turn.get("tool_calls"):
        turn = {"role": "assistant", "content": None}
        messages.append(turn)
    turn["reasoning_content"] = turn.get("reasoning_content", "") + text


def _turn(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the assistant's turn that goes on, or a new one."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    return messages[-1]


def _unknown(what: str, place: str) -> ApiError:
    return ApiError(400, f"{what} is not known", code="invalid_prompt", param=place)
