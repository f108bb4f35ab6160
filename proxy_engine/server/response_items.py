"""Items of the Responses interface as messages.

One assistant message corresponds to several items: reasoning, text, and one for each tool call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..conversation.content_reading import refuse_unknown_keys
from ..errors import PromptError
from ..text_checks import short_repr
from .errors import ApiError
from .schemas.responses import FunctionCallItem, MessageItem, OutputItem

# Keys by type. Clients send back the output of a response with keys that no model reads.
_ITEM_KEYS = {
    "message": {"role", "content", "phase"},
    "function_call": {"call_id", "name", "arguments", "parsed_arguments"},
    "function_call_output": {"call_id", "output", "name"},
    "reasoning": {"content", "summary", "encrypted_content"},
}
_PART_KEYS = {
    "text": {"text"},
    "input_text": {"text"},
    "output_text": {"text", "annotations", "logprobs", "parsed"},
    "reasoning_text": {"text"},
    "summary_text": {"text"},
    "refusal": {"refusal"},
    "input_image": {"image_url", "detail"},
    "input_audio": {"input_audio"},
    "input_file": {"file_data", "filename", "detail"},
}


def messages_of_input(
    given: str | list[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the input of a request as messages, and for each the field with its parts.

    Raises:
        ApiError: An item is of no known type, has an unknown key, or an invalid value.
    """
    if isinstance(given, str):
        return [{"role": "user", "content": given}], ["input"]
    messages: list[dict[str, Any]] = []
    fields: list[str] = []
    for index, item in enumerate(given):
        try:
            _add_item(messages, item)
        except PromptError as error:
            raise ApiError(
                400, str(error), code="invalid_prompt", param=f"input[{index}]"
            ) from error
        # An item adds to the last message, or adds one.
        key = "output" if item.get("type") == "function_call_output" else "content"
        fields += [f"input[{index}].{key}"] * (len(messages) - len(fields))
    return messages, fields


def messages_of_output(items: Iterable[OutputItem]) -> list[dict[str, Any]]:
    """Return the output of a response as messages, to be followed by further input."""
    messages: list[dict[str, Any]] = []
    for item in items:
        if isinstance(item, MessageItem):
            _add_text(messages, "".join(part.text for part in item.content))
        elif isinstance(item, FunctionCallItem):
            _add_call(messages, item.call_id, item.name, item.arguments)
        else:
            _add_reasoning(messages, "".join(part.text for part in item.content))
    return messages


def _add_item(messages: list[dict[str, Any]], item: Mapping[str, Any]) -> None:
    kind = item.get("type", "message")
    what = _checked(item, kind, "an item", _ITEM_KEYS)
    match kind, item:
        case "message", {"role": "assistant", "content": content}:
            _add_text(messages, _content(content))
        case "message", {"role": "user" | "system" | "developer" as role, "content": content}:
            messages.append({"role": role, "content": _content(content)})
        case "function_call", {"name": str(name), "arguments": str(arguments)}:
            _add_call(messages, item.get("call_id"), name, arguments)
        case "function_call_output", {"call_id": str(id), "output": output}:
            messages.append({"role": "tool", "tool_call_id": id, "content": _content(output)})
        case "reasoning", _:
            parts = _content(item.get("content") or item.get("summary") or [])
            _add_reasoning(messages, "".join(part["text"] for part in parts))
        case _:
            raise PromptError(f"{what} lacks a key, or has a value of a wrong type")


def _checked(value: Any, kind: Any, what: str, known: Mapping[str, set[str]]) -> str:
    """Raise ``PromptError`` for an unknown type or key; return a description of the value."""
    described = f"{what} of type {short_repr(kind)}"
    if not isinstance(kind, str) or kind not in known:
        raise PromptError(f"{described} is not supported")
    refuse_unknown_keys(described, value, {"type", "id", "status"} | known[kind])
    return described


def _content(content: Any) -> Any:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise PromptError("content should be text or a list of parts")
    return [_part(part) for part in content]


def _part(part: Any) -> dict[str, Any]:
    """Return a part as it is in messages of chat completions."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    what = _checked(part, kind, "a content part", _PART_KEYS)
    match part:
        case {"text": str(text)} | {"refusal": str(text)}:
            return {"type": "text", "text": text}
        case {"image_url": str(url)}:
            return {"type": "image_url", "image_url": {"url": url}}
        case {"input_audio": Mapping() as audio}:
            return {"type": "input_audio", "input_audio": audio}
        case {"file_data": str(data)}:
            return {"type": "file", "file": {"file_data": data, "filename": part.get("filename")}}
    raise PromptError(f"{what} lacks a key, or has a value of a wrong type")


def _add_text(messages: list[dict[str, Any]], content: Any) -> None:
    _message_before_content(messages)["content"] = content


def _add_reasoning(messages: list[dict[str, Any]], text: str) -> None:
    if text:
        message = _message_before_content(messages)
        message["reasoning_content"] = message.get("reasoning_content", "") + text


def _add_call(messages: list[dict[str, Any]], id: Any, name: str, arguments: str) -> None:
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    if isinstance(id, str):
        call["id"] = id
    _assistant_message(messages).setdefault("tool_calls", []).append(call)


def _assistant_message(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the last message if it is the assistant's, or else a new one."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    return messages[-1]


def _message_before_content(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return an assistant message that has neither content nor calls yet."""
    message = _assistant_message(messages)
    if message.get("content") or message.get("tool_calls"):
        message = {"role": "assistant", "content": None}
        messages.append(message)
    return message
