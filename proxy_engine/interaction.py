"""One turn of a conversation, with typed content.

Interactions are what an agent keeps: immutable, with an identity and a time, and equal to
themselves after a trip through a dict (and so through JSON).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeAlias

from .errors import PromptError

__all__ = ["Content", "Interaction", "JsonContent", "Role", "TextContent"]


class Role(StrEnum):
    """Who speaks. The values are the names that chat templates know."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class TextContent:
    """Plain text."""

    text: str

    def to_text(self) -> str:
        """The text as the model reads it."""
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """``{"type": "text", "text": …}``, as OpenAI's content parts are written."""
        return {"type": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class JsonContent:
    """A JSON value, such as a tool's result; the model reads it as JSON text."""

    value: Any

    def to_text(self) -> str:
        """The value as ``json.dumps`` writes it, in Unicode."""
        return json.dumps(self.value, ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        """``{"type": "json", "value": …}``."""
        return {"type": "json", "value": self.value}


Content: TypeAlias = TextContent | JsonContent


@dataclass(frozen=True, slots=True, init=False)
class Interaction:
    """One turn: a role, content parts, and what the application wants to remember with it.

    ``content`` may be given as a string or a single part and is kept as a tuple. ``metadata`` is
    copied and read-only; it must hold JSON values if the interaction is to be written as JSON.
    ``created_at`` is an aware ``datetime``. Raises ``PromptError`` for an unknown role or content.
    """

    role: Role
    content: tuple[Content, ...]
    metadata: Mapping[str, Any] = field(hash=False)
    id: str
    created_at: datetime

    def __init__(
        self,
        role: Role | str,
        content: str | Content | Sequence[Content],
        *,
        metadata: Mapping[str, Any] | None = None,
        id: str | None = None,
        created_at: datetime | None = None,
    ) -> None:
        if created_at is not None and created_at.tzinfo is None:
            raise PromptError("created_at needs a time zone")
        fields: dict[str, Any] = {
            "role": _role(role),
            "content": _parts(content),
            "metadata": MappingProxyType(dict(metadata or {})),
            "id": uuid.uuid4().hex if id is None else id,
            "created_at": datetime.now(UTC) if created_at is None else created_at,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def text(self) -> str:
        """All parts as the model reads them, one after another."""
        return "".join(part.to_text() for part in self.content)

    def to_message(self) -> dict[str, str]:
        """The OpenAI-style message that chat templates take: role and content."""
        return {"role": self.role.value, "content": self.text}

    def to_dict(self) -> dict[str, Any]:
        """Everything, in JSON's types. ``Interaction.from_dict`` is the inverse."""
        return {
            "role": self.role.value,
            "content": [part.to_dict() for part in self.content],
            "metadata": dict(self.metadata),
            "id": self.id,
            "created_at": self.created_at.isoformat(),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Interaction:
        """Read what ``to_dict`` wrote. ``metadata``, ``id`` and ``created_at`` may be missing.

        Raises ``PromptError`` where the dict is malformed or has unknown keys.
        """
        unknown = set(value) - {"role", "content", "metadata", "id", "created_at"}
        if unknown:
            raise PromptError(f"an interaction has no {', '.join(map(repr, sorted(unknown)))}")
        for key in ("role", "content"):
            if key not in value:
                raise PromptError(f"an interaction needs {key!r}")
        content = value["content"]
        created_at = value.get("created_at")
        try:
            time = None if created_at is None else datetime.fromisoformat(created_at)
        except (TypeError, ValueError) as error:
            raise PromptError(f"created_at is no ISO 8601 time: {created_at!r}") from error
        return cls(
            value["role"],
            content if isinstance(content, str) else [_part(part) for part in content],
            metadata=value.get("metadata"),
            id=value.get("id"),
            created_at=time,
        )


def _role(role: Role | str) -> Role:
    try:
        return Role(role)
    except ValueError as error:
        raise PromptError(
            f"unknown role {role!r}", hint=f"Known are {', '.join(map(repr, map(str, Role)))}."
        ) from error


def _parts(content: str | Content | Sequence[Content]) -> tuple[Content, ...]:
    if isinstance(content, str):
        return (TextContent(content),)
    parts = (content,) if isinstance(content, TextContent | JsonContent) else tuple(content)
    for part in parts:
        if not isinstance(part, TextContent | JsonContent):
            raise PromptError(f"content of type {type(part).__name__} is not known")
    return parts


def _part(value: Any) -> Content:
    match value:
        case {"type": "text", "text": str(text), **rest} if not rest:
            return TextContent(text)
        case {"type": "json", "value": inner, **rest} if not rest:
            return JsonContent(inner)
    raise PromptError(f"a content part is not known: {value!r:.80}")
