"""The canonical message type."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timezone
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BeforeValidator

from ..checks import as_list, short_repr, summary
from ..errors import PromptError
from .content import (
    AudioContent,
    Content,
    ContentPart,
    FileContent,
    ImageContent,
    JsonContent,
    MediaContent,
    TextContent,
    ToolCall,
    new_call_id,
)
from .parsing import PromptText, Validated, call_fields, message_fields, present, validated


class Role(StrEnum):
    """The author of a message. The values are the names that chat templates use.

    ``"agent"`` is read as the assistant, ``"developer"`` as the system.
    """

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    AGENT = "assistant"

    @classmethod
    def _missing_(cls, value: object) -> Role | None:
        known = {"agent": cls.ASSISTANT, "developer": cls.SYSTEM}
        return known.get(value) if isinstance(value, str) else None


def _role(role: object) -> Role:
    try:
        return Role(role)  # type: ignore[arg-type]
    except ValueError as error:
        raise PromptError(
            f"unknown role {short_repr(role)}",
            hint=f"Known are {', '.join(map(repr, map(str, Role)))}.",
        ) from error


def _parts(content: object) -> tuple[Any, ...]:
    if isinstance(content, str):
        return (TextContent(content),)
    items = None if isinstance(content, Validated) else as_list(content)
    return (content,) if items is None else tuple(items)


def _metadata(metadata: object) -> Mapping[str, Any]:
    if not isinstance(metadata, Mapping | None):
        raise PromptError(f"metadata should be a mapping, not {short_repr(metadata)}")
    return MappingProxyType(dict(metadata or {}))


def _time(time: object) -> datetime:
    """Return the same time at a fixed offset from UTC; now if there is none.

    In a time zone, an hour can occur twice. Times in such an hour are equal to no time of another
    zone, so they would not be equal to themselves after ``to_dict`` and ``from_dict``.
    """
    if time is None:
        return datetime.now(UTC)
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    if not isinstance(time, datetime) or (offset := time.utcoffset()) is None:
        raise PromptError(f"the time should be one with a time zone, not {short_repr(time)}")
    return time.replace(tzinfo=timezone(offset) if offset else UTC, fold=0)


def _id(id: object) -> object:
    return uuid.uuid4().hex if id is None else id


@validated
class Interaction(Validated):
    """A message of a conversation: a role and typed content. Immutable.

    Two interactions are equal if all their attributes are; their hash is that of the id.
    ``from_dict(turn.to_dict()) == turn``.

    Attributes:
        role: The author.
        content: The parts, tool calls last.
        metadata: The application's own data, copied and read-only; JSON values, if the interaction
            is to be written as JSON.
        id: Identifies the message; random by default.
        created_at: An aware ``datetime``; now by default.
        reasoning: The reasoning of the assistant before the content.
        tool_call_id: The call whose result a message of role ``tool`` is.
        name: The tool of that call.
    """

    role: Annotated[Role, BeforeValidator(_role)]
    content: tuple[ContentPart, ...]
    metadata: Annotated[Any, BeforeValidator(_metadata)]
    id: Annotated[PromptText, BeforeValidator(_id)]
    created_at: Annotated[datetime, BeforeValidator(_time)]
    reasoning: PromptText | None
    tool_call_id: PromptText | None
    name: PromptText | None

    def __init__(
        self,
        role: Role | str,
        content: str | Content | Sequence[Content] = (),
        *,
        tool_calls: Sequence[ToolCall] = (),
        reasoning: str | None = None,
        tool_call_id: str | None = None,
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        id: str | None = None,
        created_at: datetime | None = None,
    ) -> None:
        """Create a message; the arguments are the attributes.

        ``content`` is text, a part, or several parts; ``tool_calls`` are appended to it.

        Raises:
            PromptError: A value is invalid, or the role cannot have it.
        """
        self._set(
            {
                "role": role,
                "content": (*_parts(content), *_parts(tool_calls)),
                "metadata": metadata,
                "id": id,
                "created_at": created_at,
                "reasoning": reasoning,
                "tool_call_id": tool_call_id,
                "name": name,
            }
        )

    def __post_init__(self) -> None:
        for name, owner in _OWNERS.items():
            if getattr(self, name) is not None and self.role is not owner:
                raise PromptError(f"only the role {owner.value!r} has {name}")
        if self.tool_calls and self.role is not Role.ASSISTANT:
            raise PromptError("only the role 'assistant' has tool calls")

    @classmethod
    def tool_result(cls, call: ToolCall, value: Any, **more: Any) -> Interaction:
        """Return the message with the result of ``call``.

        Args:
            call: The call.
            value: The result; a string as it is, other values as JSON.
            more: Further arguments of ``Interaction``.
        """
        content = TextContent(value) if isinstance(value, str) else JsonContent(value)
        return cls(Role.TOOL, content, tool_call_id=call.id, name=call.name, **more)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls among the content."""
        return tuple(part for part in self.content if isinstance(part, ToolCall))

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    def __repr__(self) -> str:
        kinds = tuple(
            part.kind for part in self.content if part.kind not in ("text", "json", "action")
        )
        names = tuple(call.name for call in self.tool_calls)
        return summary(self, self.text, role=str(self.role), content=kinds, tool_calls=names)

    @property
    def text(self) -> str:
        """The concatenated text and JSON content."""
        return "".join(
            part.to_text() for part in self.content if isinstance(part, TextContent | JsonContent)
        )

    def to_message(self) -> dict[str, Any]:
        """Return an OpenAI message. It has no id, time and metadata.

        ``content`` is a string for one part of text and for the text of an answer, ``None`` for a
        message of tool calls alone, and otherwise a list of parts. The arguments of tool calls are
        JSON text.
        """
        parts = [part for part in self.content if not isinstance(part, ToolCall)]
        content: Any = self.text if parts or not self.tool_calls else None
        # Prompts separate parts of text, but for those of an answer.
        is_one_text = len(parts) < 2 or self.role is Role.ASSISTANT
        if not is_one_text or not all(isinstance(p, TextContent | JsonContent) for p in parts):
            content = [_openai_part(part) for part in parts]
        more = {
            "tool_calls": [openai_call(call) for call in self.tool_calls] or None,
            "reasoning_content": self.reasoning,
            "tool_call_id": self.tool_call_id,
            "name": self.name,
        }
        return {"role": self.role.value, "content": content} | present(more)

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes as JSON values, for ``from_dict``."""
        values = {name: getattr(self, name) for name in _FIELDS}
        return present(values) | {
            "role": self.role.value,
            "content": [part.to_dict() for part in self.content],
            "metadata": dict(self.metadata),
            "created_at": self.created_at.isoformat(),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Interaction:
        """Read what ``to_dict`` or ``to_message`` wrote, or any other OpenAI message.

        Raises:
            PromptError: The dict is malformed or has unknown keys.
        """
        return read_interaction(value, lambda _: new_call_id())

    def __hash__(self) -> int:
        # Metadata and JSON content are not hashable.
        return hash(self.id)

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only view of a dict can be neither pickled nor deep-copied.
        values = {name: getattr(self, name) for name in _FIELDS}
        return Interaction._read, (values | {"metadata": dict(self.metadata)},)


def read_interaction(value: Any, new_call_id: Callable[[int], str]) -> Interaction:
    """Read a message from a dict: an OpenAI message, or the result of ``Interaction.to_dict``.

    Args:
        value: The dict.
        new_call_id: Makes the id of a tool call that has none, from its index in the message.

    Raises:
        PromptError: The message is malformed or has unknown keys.
    """
    values: dict[str, Any] = dict.fromkeys(_FIELDS) | message_fields(value)
    for index, call in enumerate(values.pop("tool_calls")):
        try:
            read = ToolCall._read({"id": new_call_id(index), **call_fields(call)})
        except PromptError as error:
            raise error.at(f"tool_calls[{index}]") from error
        values["content"].append(read)
    return Interaction._read(values)


_FIELDS = tuple(known.name for known in fields(Interaction))
_OWNERS = {"reasoning": Role.ASSISTANT, "tool_call_id": Role.TOOL, "name": Role.TOOL}


def openai_call(call: ToolCall) -> dict[str, Any]:
    """Return a tool call as OpenAI writes it."""
    if call.is_custom:
        custom = {"name": call.name, "input": call.input}
        return {"id": call.id, "type": "custom", "custom": custom}
    return function_call(call, json.dumps(call.arguments, ensure_ascii=False))


def function_call(call: ToolCall, arguments: object) -> dict[str, Any]:
    """Return a tool call as OpenAI writes calls of functions.

    Args:
        call: The call; also one of a custom tool, which chat templates do not know.
        arguments: The arguments, as an object or as text.
    """
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _openai_part(part: Content) -> dict[str, Any]:
    match part:
        case FileContent(text=text, name=name):
            # Not `text/plain` alone, whose encoding would be a guess.
            data = None if text is None else text.encode("utf-8")
            url = _url(part) if data is None else _data_url("text/plain;charset=utf-8", data)
            file = {"file_data": url}
            return {"type": "file", "file": {"filename": name, **file} if name else file}
        case AudioContent(data=bytes(data), media_type=str(kind)) if kind.startswith("audio/"):
            coded = base64.b64encode(data).decode("ascii")
            form = "mp3" if kind == "audio/mpeg" else kind.removeprefix("audio/")
            audio = {"data": coded, "format": form}
            return {"type": "input_audio", "input_audio": audio}
        case ImageContent() | AudioContent():
            kind = f"{part.kind}_url"
            return {"type": kind, kind: {"url": _url(part)}}
        case TextContent() | JsonContent():
            return {"type": "text", "text": part.to_text()}
    raise AssertionError("tool calls are no parts of OpenAI's content")


def _url(part: MediaContent) -> str:
    return part.url or "" if part.data is None else _data_url(part.media_type or "", part.data)


def _data_url(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"
