"""Read content parts and tool calls from dicts, in OpenAI's form or as ``to_dict`` writes them."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import Any

from state_machines.argument_notations import INPUT

from ..checks.texts import short_repr
from ..errors import MediaError, PromptError
from .content import (
    AudioContent,
    Content,
    FileContent,
    ImageContent,
    JsonContent,
    TextContent,
    ToolCall,
    VideoContent,
    check_text,
)

_DATA_URL = re.compile(r"data:([^,;]*)((?:;[^,;]*)*);base64,(.*)", re.DOTALL)
_MEDIA: dict[str, type[ImageContent | AudioContent | VideoContent | FileContent]] = {
    cls.kind: cls for cls in (ImageContent, AudioContent, VideoContent, FileContent)
}
# Fields of OpenAI's and Anthropic's parts that say nothing to a language model.
_IGNORED = ("annotations", "logprobs", "cache_control")
_CALL_KEYS = ("id", "type", "index", "function")
_CUSTOM_CALL_KEYS = ("id", "type", "index", "custom")
_FUNCTION_KEYS = ("name", "arguments", "parsed_arguments")
_FLAT_CALL_KEYS = ("id", "type", "index", "name", "arguments", "raw", "is_custom")
_FLAT_CUSTOM_CALL_KEYS = ("id", "type", "index", "name", "input", "raw")


def refuse_unknown_keys(what: str, given: Mapping[Any, Any], known: Collection[str]) -> None:
    """Raise ``PromptError`` for keys that are not known, unless their values are ``None``.

    Clients send responses back with ``null`` for each absent field.
    """
    unknown = [key for key, value in given.items() if key not in known and value is not None]
    if unknown:
        raise PromptError(
            f"{what} has no {', '.join(map(short_repr, unknown))}",
            hint=f"Known are {', '.join(map(repr, sorted(known)))}.",
        )


def content_from_dict(part: Any) -> Content:
    """Read a content part.

    Raises:
        PromptError: The part is of no known type, has an unknown key, or an invalid value.
    """
    rest: dict[Any, Any] = {}
    match part:
        case {"type": "text", "text": str(text), **rest}:
            read: Content = TextContent(text)
        case {"type": "refusal", "refusal": str(text), **rest}:
            read = TextContent(text)
        case {"type": "json", "value": value, **rest}:
            read = JsonContent(value)
        case {"type": "action", "name": str(), **rest}:
            read, rest = tool_call_from_dict(part), {}
        case {"type": "image_url" | "video_url" | "audio_url" as kind, **rest} if kind in rest:
            url = rest.pop(kind)
            source = _source(url["url"] if isinstance(url, Mapping) and "url" in url else url)
            read = _MEDIA[kind.removesuffix("_url")](**source)
        case {
            "type": "input_audio",
            "input_audio": {"data": data, "format": str(kind)},
            **rest,
        }:
            media_type = "audio/mpeg" if kind == "mp3" else f"audio/{kind}"
            read = AudioContent(data=_decoded(data), media_type=media_type)
        case {"type": "input_image", "image_url": url, **rest}:
            rest.pop("detail", None)
            read = ImageContent(**_source(url))
        case {"type": "file", "file": {"file_data": url} as file, **rest}:
            read = FileContent(name=file.get("filename"), **_file_source(url))
        case {"type": "file", "file_url": url, **rest}:
            read = FileContent(**_file_source(url))
        case {"type": "image" | "video" | "audio" as kind, **rest} if f"{kind}_url" in rest:
            read = _MEDIA[kind](**_source(rest.pop(f"{kind}_url")))
        case {"type": "action", "action": {"name": str()} as call, **rest}:
            read = tool_call_from_dict(call)
        case {"type": str(kind), **more} if kind in _MEDIA:
            read, rest = _media(kind, more), {}
        case _:
            raise PromptError(f"a content part is not known: {short_repr(part)}")
    refuse_unknown_keys(f"a part of type {part['type']!r}", rest, _IGNORED)
    return read


def tool_call_from_dict(call: Any, new_id: Callable[[], str] | None = None) -> ToolCall:
    """Read a tool call.

    Args:
        call: ``{"id": …, "type": "function", "function": {"name": …, "arguments": …}}``, or the
            same without the inner object. The arguments are an object or its JSON text. The call of
            a custom tool is ``{"id": …, "type": "custom", "custom": {"name": …, "input": …}}``.
        new_id: Makes the id of a call that has none; without it, the call needs one.

    Raises:
        PromptError: The call is malformed.
    """
    match call:
        case {"type": "custom", "custom": {"name": str(name), "input": str(text), **rest}}:
            refuse_unknown_keys("a tool call", call, _CUSTOM_CALL_KEYS)
            refuse_unknown_keys("the custom tool of a call", rest, ())
            return _custom_call(call, name, text, new_id)
        case {"type": "custom" | "action", "name": str(name), "input": str(text)}:
            refuse_unknown_keys("a tool call", call, _FLAT_CUSTOM_CALL_KEYS)
            return _custom_call(call, name, text, new_id)
        case {"function": {"name": str(name)} as inner}:
            refuse_unknown_keys("a tool call", call, _CALL_KEYS)
            refuse_unknown_keys("the function of a tool call", inner, _FUNCTION_KEYS)
        case {"name": str(name)}:
            refuse_unknown_keys("a tool call", call, _FLAT_CALL_KEYS)
            inner = call
        case _:
            raise PromptError(
                f"a tool call is not known: {short_repr(call)}",
                hint='It is {"id": …, "function": {"name": …, "arguments": …}}.',
            )
    check_text("the name of a tool call", name)
    if call.get("type") not in (None, "function", "action"):
        raise PromptError(f"a tool call of type {short_repr(call['type'])} is not known")
    arguments = inner.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError) as error:
            raise PromptError(
                f"the arguments of a call of {short_repr(name)} are not JSON: {error}"
            ) from error
    id = call.get("id")
    if id is None and new_id is not None:
        id = new_id()
    raw = call.get("raw") or ""
    is_custom = bool(call.get("is_custom"))
    return ToolCall(id, name, {} if arguments is None else arguments, raw, is_custom=is_custom)


def _custom_call(
    call: Mapping[Any, Any], name: str, text: str, new_id: Callable[[], str] | None
) -> ToolCall:
    check_text("the name of a tool call", name)
    id = call.get("id")
    if id is None and new_id is not None:
        id = new_id()
    return ToolCall(id, name, {INPUT: text}, call.get("raw") or "", is_custom=True)  # type: ignore[arg-type]  # checked there


def _media(kind: str, values: Mapping[Any, Any]) -> Content:
    given = {name: value for name, value in values.items() if value is not None}
    refuse_unknown_keys(f"{kind} content", given, [field.name for field in fields(_MEDIA[kind])])
    if "data" in given:
        given["data"] = _decoded(given["data"])
    return _MEDIA[kind](**given)


def _source(url: Any) -> dict[str, Any]:
    """Return the fields of media content for a URL, with the data of a ``data:`` URL."""
    check_text("a URL", url)
    match = _DATA_URL.fullmatch(url)
    if match is None:
        return {"url": url}
    return {"data": _decoded(match[3]), "media_type": match[1] or None}


def _file_source(url: Any) -> dict[str, Any]:
    source = _source(url)
    match = _DATA_URL.fullmatch(url)
    if match and match[1] == "text/plain" and match[2].lower() == ";charset=utf-8":
        try:
            return {"text": source["data"].decode("utf-8")}
        except UnicodeDecodeError as error:
            raise PromptError("a file declared as UTF-8 is not UTF-8") from error
    return source


def _decoded(data: Any) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise MediaError("the data of a content part is not base64") from error
