"""Interactions to and from OpenAI's chat messages, as clients and servers exchange them.

There the arguments of a tool call are JSON *text*; chat templates take them as objects
(``Interaction.to_message``).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any

from ..errors import PromptError
from ..text_checks import short_repr
from .content import (
    AudioContent,
    Content,
    FileContent,
    ImageContent,
    JsonContent,
    MediaContent,
    TextContent,
    ToolCall,
    VideoContent,
    check_text,
    content_from_dict,
    json_copy,
    new_call_id,
)
from .interaction import Interaction, Role

__all__ = [
    "checked_message",
    "from_openai_message",
    "part_from_openai",
    "read_tool_call",
    "to_openai_message",
]

_DATA_URL = re.compile(r"data:([^,;]*)((?:;[^,;]*)*);base64,(.*)", re.DOTALL)
# The fields with text. Some chat templates call reasoning "thinking".
_TEXTS = ("tool_call_id", "name", "reasoning_content", "reasoning", "thinking", "refusal")
_KEYS = {"role", "content", "tool_calls", *_TEXTS}
# Clients send back these fields of OpenAI's responses. The model does not read them. Some servers
# need "prefix" to continue a last message of the assistant; this library always continues it.
_IGNORED = {"annotations", "parsed", "prefix"}
_CALL_KEYS = {"id", "type", "index", "function"}
_FUNCTION_KEYS = {"name", "arguments", "parsed_arguments"}
_FLAT_CALL_KEYS = {"id", "type", "index", "name", "arguments", "raw"}


def to_openai_message(interaction: Interaction) -> dict[str, Any]:
    """``interaction`` as OpenAI writes it; identity, time and metadata stay behind.

    ``content`` is a string where all of it is text, ``None`` for a turn of tool calls alone, and
    else a list of parts. JSON content becomes text.
    """
    message: dict[str, Any] = {"role": interaction.role.value}
    parts = [part for part in interaction.content if not isinstance(part, ToolCall)]
    if all(isinstance(part, TextContent | JsonContent) for part in parts):
        message["content"] = interaction.text if parts or not interaction.tool_calls else None
    else:
        message["content"] = [_part_to_openai(part) for part in parts]
    if interaction.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": json.dumps(call.arguments, ensure_ascii=False),
                },
            }
            for call in interaction.tool_calls
        ]
    more = {
        "reasoning_content": interaction.reasoning,
        "tool_call_id": interaction.tool_call_id,
        "name": interaction.name,
    }
    return message | {key: value for key, value in more.items() if value is not None}


def checked_message(message: Any) -> dict[str, Any]:
    """Return the known fields of an OpenAI message, without those that are ``None``.

    Clients send a response back with ``null`` for each absent field, so ``None`` is accepted for an
    unknown field. Another value of an unknown field raises ``PromptError``, and so does a value of
    a wrong type.
    """
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise PromptError(f"a message is a dict with a role, not {short_repr(message)}")
    _refuse_unknown("a message", message, _KEYS | _IGNORED)
    given = {key: message[key] for key in _KEYS if message.get(key) is not None}
    for name in _TEXTS:
        if name in given:
            check_text(f"the {name} of a message", given[name])
    if message.get("annotations"):
        raise PromptError("the annotations of a message are not for a model to read")
    if not isinstance(message.get("prefix"), bool | None):
        raise PromptError("the prefix of a message is true or false")
    calls = given.get("tool_calls", ())
    if not isinstance(calls, list | tuple):
        raise PromptError(f"the tool calls of a message are a list, not {short_repr(calls)}")
    if calls and given["role"] in (Role.SYSTEM, Role.USER, Role.TOOL, "developer"):
        raise PromptError("only the role 'assistant' has tool calls")
    return given


def from_openai_message(message: Mapping[str, Any]) -> Interaction:
    """Read an OpenAI message, as clients send it. Raises ``PromptError``."""
    given = checked_message(message)
    content = given.get("content")
    parts: list[Content]
    if content is None:
        parts = []
    elif isinstance(content, str):
        parts = [TextContent(content)]
    elif isinstance(content, list | tuple):
        parts = [part_from_openai(part) for part in content]
    else:
        raise PromptError(f"content of type {type(content).__name__} is not known")
    if given.get("refusal"):
        parts.append(TextContent(given["refusal"]))
    interaction_of_tool = given["role"] == Role.TOOL
    return Interaction(
        given["role"],
        parts,
        tool_calls=[
            ToolCall(id or new_call_id(), name, arguments)
            for id, name, arguments in map(read_tool_call, given.get("tool_calls", ()))
        ],
        reasoning=_first(given, "reasoning_content", "reasoning", "thinking"),
        tool_call_id=given.get("tool_call_id"),
        # For other roles it is the name of a person, which no template shows.
        name=given.get("name") if interaction_of_tool else None,
    )


def read_tool_call(call: Any) -> tuple[str | None, str, dict[str, Any]]:
    """Identifier (or ``None``), name and arguments of a tool call in a message.

    Takes ``{"id": …, "type": "function", "function": {"name": …, "arguments": …}}``, or the same
    without the inner object. The arguments are JSON text, or an object. Raises ``PromptError``.
    """
    match call:
        case {"function": {"name": str(name)} as inner}:
            _refuse_unknown("a tool call", call, _CALL_KEYS)
            _refuse_unknown("the function of a tool call", inner, _FUNCTION_KEYS)
        case {"name": str(name)}:
            _refuse_unknown("a tool call", call, _FLAT_CALL_KEYS)
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
    shown = short_repr(name)
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError) as error:
            raise PromptError(
                f"the arguments of a call of {shown} are not JSON: {error}"
            ) from error
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping):
        raise PromptError(f"the arguments of a call of {shown} are not an object")
    id = call.get("id")
    if id is not None:
        check_text(f"the id of a call of {shown}", id)
    return id, name, json_copy(f"an argument of a call of {shown}", dict(arguments))


def _refuse_unknown(what: str, given: Mapping[Any, Any], known: set[str]) -> None:
    unknown = [key for key, value in given.items() if key not in known and value is not None]
    if unknown:
        raise PromptError(
            f"{what} has no {', '.join(map(short_repr, unknown))}",
            hint=f"Known are {', '.join(map(repr, sorted(known)))}.",
        )


def part_from_openai(part: Any) -> Content:
    """Read one of the parts that a message's content may be a list of.

    Parts as interactions write them are read, too. Raises ``PromptError``.
    """
    match part:
        case {"type": "text", "text": str(text)}:
            return TextContent(text)
        case {"type": "refusal", "refusal": str(text)}:
            return TextContent(text)
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            return ImageContent(**_source(url))
        case {"type": "video_url", "video_url": {"url": str(url)} | str(url)}:
            return VideoContent(**_source(url))
        case {"type": "audio_url", "audio_url": {"url": str(url)} | str(url)}:
            return AudioContent(**_source(url))
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(kind)}}:
            return AudioContent(data=_decoded(data), media_type=f"audio/{kind}")
        case {"type": "file", "file": {"file_data": str(url), "filename": str(name)}}:
            return FileContent(name=name, **_file_source(url))
        case {"type": "file", "file": {"file_data": str(url)}}:
            return FileContent(**_file_source(url))
    return content_from_dict(part)


def _first(message: Mapping[str, Any], *keys: str) -> Any:
    return next((message[key] for key in keys if message.get(key) is not None), None)


def _part_to_openai(part: Any) -> dict[str, Any]:
    match part:
        case FileContent(text=str(text), name=name):
            data = base64.b64encode(text.encode("utf-8")).decode("ascii")
            file = {"file_data": f"data:text/plain;charset=utf-8;base64,{data}"}
            return {"type": "file", "file": {"filename": name, **file} if name else file}
        case FileContent(name=name):
            file = {"file_data": _url(part)}
            return {"type": "file", "file": {"filename": name, **file} if name else file}
        case ImageContent():
            return {"type": "image_url", "image_url": {"url": _url(part)}}
        case VideoContent():
            return {"type": "video_url", "video_url": {"url": _url(part)}}
        case AudioContent(data=bytes(data), media_type=str(kind)) if kind.startswith("audio/"):
            coded = base64.b64encode(data).decode("ascii")
            return {
                "type": "input_audio",
                "input_audio": {"data": coded, "format": kind.removeprefix("audio/")},
            }
        case AudioContent():
            return {"type": "audio_url", "audio_url": {"url": _url(part)}}
    return {"type": "text", "text": part.to_text()}


def _url(part: MediaContent) -> str:
    if part.data is None:
        return part.url or ""
    coded = base64.b64encode(part.data).decode("ascii")
    return f"data:{part.media_type or ''};base64,{coded}"


def _source(url: str) -> dict[str, Any]:
    match = _DATA_URL.fullmatch(url)
    if match is None:
        return {"url": url}
    return {"data": _decoded(match[3]), "media_type": match[1] or None}


def _file_source(url: str) -> dict[str, Any]:
    match = _DATA_URL.fullmatch(url)
    if match and match[1] == "text/plain" and match[2].lower() == ";charset=utf-8":
        try:
            return {"text": _decoded(match[3]).decode("utf-8")}
        except UnicodeDecodeError as error:
            raise PromptError("a file that is said to be UTF-8 is not") from error
    return _source(url)


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (ValueError, binascii.Error) as error:
        raise PromptError("the data of a content part is not base64") from error
