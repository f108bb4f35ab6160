"""Messages that clients replay: calls with unreadable arguments, and media of tool results.

A client sends each earlier turn again, so that a turn which is refused ends the conversation.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

_IMAGE_TYPES = {"png", "jpeg", "jpg", "webp", "gif", "bmp", "tiff"}
_UNREADABLE = "arguments"
_MAX_TEXT = 200

_logger = logging.getLogger(__name__)


def readable_arguments(name: str, arguments: Any) -> Any:
    """Return the arguments of an earlier call as the text of a JSON object.

    Arguments that were encoded twice are decoded once. Other texts, which a model may have written
    without a grammar, become the only member of an object, and are logged.

    Args:
        name: The tool's name, for the log.
        arguments: The arguments. Values that are no text are returned as they are.
    """
    if not isinstance(arguments, str) or not arguments.strip():
        return arguments
    try:
        value = json.loads(arguments)
        if isinstance(value, str):
            arguments, value = value, json.loads(value)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return arguments
    fields = {"tool": name[:_MAX_TEXT], "arguments": arguments[:_MAX_TEXT]}
    _logger.warning("the arguments of an earlier call are no JSON object", extra={"fields": fields})
    return json.dumps({_UNREADABLE: arguments}, ensure_ascii=False)


def readable_message(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of chat completions whose calls and media the engine can read."""
    calls, content = message.get("tool_calls"), message.get("content")
    if isinstance(calls, list):
        message = {**message, "tool_calls": [_readable_call(call) for call in calls]}
    if isinstance(content, list) and message.get("role") == "tool":
        message = {**message, "content": [media_part(part) for part in content]}
    return message


def media_part(part: Any) -> Any:
    """Convert a content block of the Model Context Protocol to a part; keep other blocks.

    An image of a type that no model reads becomes text that names the type.
    """
    match part:
        case {"type": "image", "data": str(data), **rest}:
            # Without a type, the engine recognises it by the content.
            kind = rest.get("mimeType") or rest.get("media_type") or ""
            if not kind or str(kind).lower().removeprefix("image/") in _IMAGE_TYPES:
                url = f"data:{kind};base64,{data}"
                return {"type": "image_url", "image_url": {"url": url}}
            return _text(f"[image of type {str(kind)[:_MAX_TEXT]}, which cannot be read]")
        case {"type": "resource", "resource": {"text": str(text)}}:
            return _text(text)
        case {"type": "resource", "resource": {"uri": str(uri)}}:
            return _text(f"[resource {uri}]")
        case {"type": "resource_link", "uri": str(uri)}:
            return _text(f"[resource {uri}]")
    return part


def _readable_call(call: Any) -> Any:
    if not isinstance(call, Mapping):
        return call
    inner = call.get("function")
    if isinstance(inner, Mapping) and isinstance(inner.get("arguments"), str):
        arguments = readable_arguments(str(inner.get("name")), inner["arguments"])
        return {**call, "function": {**inner, "arguments": arguments}}
    return call


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
