"""The content of messages that clients send: media, and calls and results of earlier turns.

The model reads no text from images, recordings and video. Their data counts neither as characters
of a prompt, nor is it logged. Their URLs are fetched only if the settings allow it.

A client sends each earlier turn again, so a turn that is refused would end the conversation: calls
with unreadable arguments and media of tool results are converted.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from ..checks import short_repr
from ..errors import MediaError
from .errors import PartName, media_error

# Not `file`, since the text of a file is read.
_MEDIA_TYPES = frozenset(
    ("image_url", "audio_url", "video_url", "input_audio", "image", "audio", "video")
)
_IMAGE_TYPES = {"png", "jpeg", "jpg", "webp", "gif", "bmp", "tiff"}
_UNREADABLE = "arguments"
_MAX_TEXT = 200

_logger = logging.getLogger(__name__)


def check_urls(messages: list[dict[str, Any]], part_name: PartName, *, is_allowed: bool) -> None:
    """Raise ``ApiError`` for media at other than ``data:`` URLs, unless URLs are allowed.

    The server refuses them whatever the options of the engine allow.

    Args:
        messages: The messages of a request.
        part_name: The endpoint's names for content parts.
        is_allowed: Whether the setting allows them.
    """
    for index, number, url in () if is_allowed else _media_urls(messages):
        if url[:5].lower() != "data:":
            is_fetchable = url.lower().startswith(("http:", "https:"))
            error = MediaError(
                f"this server reads data: URLs only, not {short_repr(url)}",
                where=f"message {index}, part {number}",
                limit="allow_urls" if is_fetchable else None,
            )
            raise media_error(error, part_name(index, number))


def prompt_characters(messages: list[dict[str, Any]]) -> int:
    """Return the number of characters in the strings of messages, without media."""
    return _count_characters(without_media(messages))


def without_media(prompt: Any) -> Any:
    """Return a prompt with the size of each image, recording or video in place of its data.

    Only lists of messages have such parts; other prompts are returned unchanged.
    """
    if not isinstance(prompt, list):
        return prompt
    return [{key: _shortened(key, value) for key, value in message.items()} for message in prompt]


def _media_urls(messages: list[dict[str, Any]]) -> Iterator[tuple[int, int, str]]:
    """Yield the URLs of media, with the indexes of their messages and parts."""
    for index, message in enumerate(messages):
        content = message.get("content")
        for number, part in enumerate(content if isinstance(content, list) else ()):
            if _is_media(part):
                url = part.get(part["type"], part.get("url"))
                url = url.get("url") if isinstance(url, Mapping) else url
                if isinstance(url, str):
                    yield index, number, url


def _shortened(key: str, value: Any) -> Any:
    # Elsewhere, as in the arguments of a tool call, an object of this form is text to the model.
    if key != "content" or not isinstance(value, list):
        return value
    return [
        {"type": part["type"], "characters": _count_characters(part)} if _is_media(part) else part
        for part in value
    ]


def _is_media(part: Any) -> bool:
    kind = part.get("type") if isinstance(part, Mapping) else None
    return isinstance(kind, str) and kind in _MEDIA_TYPES


def _count_characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_count_characters, value.values()))
    return sum(map(_count_characters, value)) if isinstance(value, list) else 0


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
