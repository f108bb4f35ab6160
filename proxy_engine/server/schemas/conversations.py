"""``/v1/conversations``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from .common import ResponseModel
from .items import unknown_item_keys
from .request_model import RequestModel


class ItemsRequest(RequestModel):
    """Items to add to a conversation."""

    items: list[dict[str, Any]] = Field(min_length=1)

    def unknown_fields(self) -> Iterator[tuple[str, Any]]:
        """Yield the path and the value of each unknown field, also of items."""
        yield from super().unknown_fields()
        yield from _unknown_in_items(self.items)


class ConversationRequest(RequestModel):
    """A conversation to create."""

    items: list[dict[str, Any]] | None = None
    metadata: dict[str, Any] | None = None

    def unknown_fields(self) -> Iterator[tuple[str, Any]]:
        """Yield the path and the value of each unknown field, also of items."""
        yield from super().unknown_fields()
        yield from _unknown_in_items(self.items)


class ConversationUpdate(RequestModel):
    """New metadata of a conversation."""

    metadata: dict[str, Any] | None = None


class Conversation(ResponseModel):
    """A conversation, whose items are listed separately."""

    id: str
    object: Literal["conversation"]
    created_at: int
    metadata: dict[str, Any]


class DeletedConversation(ResponseModel):
    """OpenAI's confirmation that a conversation was deleted."""

    id: str
    object: Literal["conversation.deleted"]
    deleted: Literal[True]


def _unknown_in_items(items: object) -> Iterator[tuple[str, Any]]:
    return ((f"items{path}", value) for path, value in unknown_item_keys(items))
