"""One turn of a conversation, with typed content.

Interactions are what an agent keeps: immutable, with an identity and a time, and equal to
themselves after a trip through a dict (and so through JSON).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timezone
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from ..errors import PromptError
from ..text_checks import listed, short_repr
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
)

__all__ = [
    "AudioContent",
    "Content",
    "FileContent",
    "ImageContent",
    "Interaction",
    "JsonContent",
    "Role",
    "TextContent",
    "ToolCall",
    "VideoContent",
]


class Role(StrEnum):
    """Who speaks. The values are the names that chat templates know.

    ``"agent"`` is another name of the assistant's, ``"developer"`` of the system's.
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


@dataclass(frozen=True, slots=True, init=False)
class Interaction:
    """One turn: a role, content parts, and what the application wants to remember with it.

    ``content`` may be given as a string or a single part and is kept as a tuple. ``tool_calls``
    are appended to it; only the assistant has some. ``reasoning`` is what the assistant thought
    before. ``tool_call_id`` and ``name`` say which call, of which tool, a turn of the tool's
    answers. ``metadata`` is copied and read-only; it must hold JSON values if the interaction is
    to be written as JSON. ``created_at`` is an aware ``datetime``.

    Raises ``PromptError`` for an unknown role or content, and for what a role cannot have.
    """

    role: Role
    content: tuple[Content, ...]
    metadata: Mapping[str, Any] = field(hash=False)
    id: str
    created_at: datetime
    reasoning: str | None
    tool_call_id: str | None
    name: str | None

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
        if not isinstance(metadata, Mapping | None):
            raise PromptError(f"metadata is a mapping, not {short_repr(metadata)}")
        fields: dict[str, Any] = {
            "role": _role(role),
            "content": (*_parts(content), *_calls(tool_calls)),
            "metadata": MappingProxyType(dict(metadata or {})),
            "id": uuid.uuid4().hex if id is None else id,
            "created_at": datetime.now(UTC) if created_at is None else _time(created_at),
            "reasoning": reasoning,
            "tool_call_id": tool_call_id,
            "name": name,
        }
        check_text("the id", fields["id"])
        for key, value in fields.items():
            object.__setattr__(self, key, value)
        self._check_role()

    @classmethod
    def tool_result(cls, call: ToolCall, value: Any, **more: Any) -> Interaction:
        """The turn that answers ``call``: ``value`` as it is for a string, else as JSON.

        ``more`` are keywords of ``Interaction``.
        """
        content = TextContent(value) if isinstance(value, str) else JsonContent(value)
        return cls(Role.TOOL, content, tool_call_id=call.id, name=call.name, **more)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools that this turn calls, in their order."""
        return tuple(part for part in self.content if isinstance(part, ToolCall))

    @property
    def text(self) -> str:
        """All parts that are text, one after another; not what cannot be read, nor tool calls."""
        return "".join(
            part.to_text() for part in self.content if isinstance(part, TextContent | JsonContent)
        )

    def to_message(self) -> dict[str, Any]:
        """The OpenAI-style message that chat templates take.

        ``role``, ``content`` as one string, and where there are some: ``tool_calls`` whose
        ``arguments`` are objects, ``reasoning_content``, ``tool_call_id`` and ``name``. Raises
        ``PromptError`` where content is not for language models.
        """
        message: dict[str, Any] = {
            "role": self.role.value,
            "content": "".join(
                part.to_text() for part in self.content if not isinstance(part, ToolCall)
            ),
        }
        if self.tool_calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.to_dict()["arguments"]},
                }
                for call in self.tool_calls
            ]
        more = {
            "reasoning_content": self.reasoning,
            "tool_call_id": self.tool_call_id,
            "name": self.name,
        }
        return message | {key: value for key, value in more.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """Everything, in JSON's types. ``Interaction.from_dict`` is the inverse."""
        more = {
            "reasoning": self.reasoning,
            "tool_call_id": self.tool_call_id,
            "name": self.name,
        }
        return {
            "role": self.role.value,
            "content": [part.to_dict() for part in self.content],
            "metadata": dict(self.metadata),
            "id": self.id,
            "created_at": self.created_at.isoformat(),
        } | {key: value for key, value in more.items() if value is not None}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Interaction:
        """Read what ``to_dict`` wrote. All but ``role`` and ``content`` may be missing.

        Raises ``PromptError`` where the dict is malformed or has unknown keys.
        """
        if not isinstance(value, Mapping):
            raise PromptError(f"an interaction is a dict, not {short_repr(value)}")
        unknown = [short_repr(key) for key in value if key not in _KEYS]
        if unknown:
            raise PromptError(f"an interaction has no {', '.join(sorted(unknown))}")
        for key in ("role", "content"):
            if key not in value:
                raise PromptError(f"an interaction needs {key!r}")
        content = value["content"]
        created_at = value.get("created_at")
        try:
            time = None if created_at is None else datetime.fromisoformat(created_at)
        except (TypeError, ValueError) as error:
            raise PromptError(
                f"created_at is no ISO 8601 time: {short_repr(created_at)}"
            ) from error
        if not isinstance(content, str):
            if not isinstance(content, list | tuple):
                raise PromptError(f"content is a string or a list, not {short_repr(content)}")
            content = [content_from_dict(part) for part in content]
        return cls(
            value["role"],
            content,
            reasoning=value.get("reasoning"),
            tool_call_id=value.get("tool_call_id"),
            name=value.get("name"),
            metadata=value.get("metadata"),
            id=value.get("id"),
            created_at=time,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only view of a dict can be neither pickled nor copied deeply.
        more = {name: getattr(self, name) for name in _KEYS - {"role", "content", "metadata"}}
        return _revived, (self.role, self.content, dict(self.metadata), more)

    def _check_role(self) -> None:
        for name, owner in _OWNERS.items():
            value = getattr(self, name)
            if value is None:
                continue
            check_text(name, value)
            if self.role is not owner:
                raise PromptError(f"only the role {owner.value!r} has {name}")
        if self.tool_calls and self.role is not Role.ASSISTANT:
            raise PromptError("only the role 'assistant' has tool calls")


_KEYS = {
    "role",
    "content",
    "metadata",
    "id",
    "created_at",
    "reasoning",
    "tool_call_id",
    "name",
}
_OWNERS = {"reasoning": Role.ASSISTANT, "tool_call_id": Role.TOOL, "name": Role.TOOL}


def _revived(
    role: Role, content: tuple[Content, ...], metadata: dict[str, Any], more: dict[str, Any]
) -> Interaction:
    return Interaction(role, content, metadata=metadata, **more)


def _time(given: datetime) -> datetime:
    """``given`` at a fixed offset from UTC.

    A time zone may repeat an hour. Times within it are equal to no time of another zone, and so
    would not be equal to themselves after a trip through a dict.
    """
    if not isinstance(given, datetime):
        raise PromptError(f"created_at is a datetime, not {short_repr(given)}")
    offset = given.utcoffset()
    if offset is None:
        raise PromptError("created_at needs a time zone")
    return given.replace(tzinfo=timezone(offset) if offset else UTC, fold=0)


def _role(role: Role | str) -> Role:
    try:
        return Role(role)
    except ValueError as error:
        raise PromptError(
            f"unknown role {short_repr(role)}",
            hint=f"Known are {', '.join(map(repr, map(str, Role)))}.",
        ) from error


_CONTENT = (TextContent, JsonContent, MediaContent, ToolCall)


def _calls(given: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    items = listed(given)
    calls = [given] if items is None else items
    for call in calls:
        if not isinstance(call, ToolCall):
            raise PromptError(f"a tool call is a ToolCall, not {short_repr(call)}")
    return tuple(calls)


def _parts(content: str | Content | Sequence[Content]) -> tuple[Content, ...]:
    if isinstance(content, str):
        return (TextContent(content),)
    if isinstance(content, _CONTENT):
        return (content,)
    items = listed(content)
    parts = [content] if items is None else items
    for part in parts:
        if not isinstance(part, _CONTENT):
            raise PromptError(f"content of type {type(part).__name__} is not known")
    return tuple(parts)
