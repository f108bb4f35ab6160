"""Stored responses of the Responses interface."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic_core import to_json

_MAX_BYTES = 256 << 20

ConversationItem: TypeAlias = dict[str, Any]
"""An item of a conversation. Stored items are never changed."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """The conversation up to the end of a response.

    Attributes:
        items: The items of the conversation.
        outputs: The number of items at the end that are the response's own output.
        size: The size of all items as JSON, in bytes.
    """

    items: tuple[ConversationItem, ...] = ()
    outputs: int = 0
    size: int = 0

    @classmethod
    def after(
        cls,
        earlier: StoredResponse | None,
        inputs: Sequence[ConversationItem],
        outputs: Sequence[ConversationItem],
    ) -> StoredResponse:
        """Return a response that continues the conversation of an earlier one.

        Args:
            earlier: The earlier response; ``None`` for a new conversation.
            inputs: The new items before its output.
            outputs: The items of its output.
        """
        before = earlier or cls()
        added = (*inputs, *outputs)
        size = before.size + sum(len(to_json(item)) for item in added)
        return cls((*before.items, *added), len(outputs), size)

    @property
    def own_items(self) -> tuple[ConversationItem, ...]:
        """The items of its output."""
        return self.items[len(self.items) - self.outputs :]


class ResponseStore:
    """The latest ``capacity`` responses, up to 256 MiB. Thread-safe.

    The oldest responses are dropped first. Each counts with its whole conversation,
    although the responses of a conversation share its items.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._responses: dict[str, StoredResponse] = {}
        self._items: dict[str, ConversationItem] = {}
        self._lock = threading.Lock()
        self.stored_bytes = 0
        """The size of everything stored, as JSON."""

    @property
    def is_enabled(self) -> bool:
        """Whether anything is stored."""
        return self._capacity > 0

    def response(self, id: str) -> StoredResponse | None:
        """Return the response of that id; ``None`` if it is not stored."""
        return self._responses.get(id)

    def item(self, id: str) -> ConversationItem | None:
        """Return the item of that id; ``None`` if no stored response has it in its output."""
        return self._items.get(id)

    def put(self, id: str, response: StoredResponse) -> None:
        """Store a response under a new id."""
        with self._lock:
            self._responses[id] = response
            self._items |= {item["id"]: item for item in response.own_items}
            self.stored_bytes += response.size
            while len(self._responses) > self._capacity or self.stored_bytes > _MAX_BYTES:
                self._drop(next(iter(self._responses)))

    def _drop(self, id: str) -> None:
        response = self._responses.pop(id)
        self.stored_bytes -= response.size
        for item in response.own_items:
            self._items.pop(item["id"], None)
