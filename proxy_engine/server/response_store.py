"""Stored responses of the Responses interface."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic_core import to_json

_MAX_BYTES = 256 << 20

Item: TypeAlias = dict[str, Any]
"""An item of a conversation. Stored items are never changed."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response as it was sent, and the conversation up to its end.

    Attributes:
        body: The response as JSON.
        items: The items of the conversation.
        outputs: The number of those at the end that are its own output.
        items_bytes: The size of all items as JSON.
    """

    body: bytes
    items: tuple[Item, ...] = ()
    outputs: int = 0
    items_bytes: int = 0

    @classmethod
    def after(
        cls,
        earlier: StoredResponse | None,
        body: bytes,
        inputs: Sequence[Item],
        outputs: Sequence[Item],
    ) -> StoredResponse:
        """Return a response that continues the conversation of an earlier one.

        Args:
            earlier: The earlier response; ``None`` for a new conversation.
            body: The response as JSON.
            inputs: The new items before its output.
            outputs: The items of its output.
        """
        before = cls(b"") if earlier is None else earlier
        added = (*inputs, *outputs)
        size = before.items_bytes + sum(len(to_json(item)) for item in added)
        return cls(body, (*before.items, *added), len(outputs), size)

    @property
    def own_items(self) -> tuple[Item, ...]:
        """The items of its output."""
        return self.items[len(self.items) - self.outputs :]

    @property
    def size(self) -> int:
        """The size of everything stored, as JSON."""
        return len(self.body) + self.items_bytes


class ResponseStore:
    """The latest ``capacity`` responses, up to 256 MiB. Thread-safe.

    The ones that were stored first are dropped first. Each counts with its whole conversation,
    although the responses of a conversation share its items.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._responses: dict[str, StoredResponse] = {}
        self._items: dict[str, Item] = {}
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

    def item(self, id: str) -> Item | None:
        """Return the item of that id; ``None`` if no stored response has it in its output."""
        return self._items.get(id)

    def put(self, id: str, response: StoredResponse) -> None:
        """Store a response under a new id."""
        with self._lock:
            self._responses[id] = response
            self._items |= {item["id"]: item for item in response.own_items}
            self.stored_bytes += response.size
            while len(self._responses) > self._capacity or self.stored_bytes > _MAX_BYTES:
                self._remove(next(iter(self._responses)))

    def remove(self, id: str) -> bool:
        """Remove a response; return whether it was stored."""
        with self._lock:
            return self._remove(id)

    def _remove(self, id: str) -> bool:
        response = self._responses.pop(id, None)
        if response is None:
            return False
        self.stored_bytes -= response.size
        for item in response.own_items:
            self._items.pop(item["id"], None)
        return True
