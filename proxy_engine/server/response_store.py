"""Stored responses and conversations of the Responses interface."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

_MAX_BYTES = 256 << 20

Item: TypeAlias = dict[str, Any]
"""An item with its ``id``, as the interface returns it. Stored items are never changed."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response as it was sent.

    Attributes:
        body: The response as JSON.
        items: The items of the conversation up to its end.
        input_count: The number of items before its output.
    """

    body: str
    items: tuple[Item, ...] = ()
    input_count: int = 0

    @property
    def size(self) -> int:
        """The size without the items, in characters of JSON."""
        return len(self.body)


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A conversation.

    Attributes:
        created_at: When it was created, in seconds since 1970.
        metadata: The client's.
        items: Its items.
    """

    created_at: int
    metadata: dict[str, Any] = field(default_factory=dict)
    items: tuple[Item, ...] = ()

    @property
    def size(self) -> int:
        """The size without the items, in characters of JSON."""
        return len(json.dumps(self.metadata))


class ResponseStore:
    """The latest ``capacity`` responses and conversations, up to 256 MiB. Thread-safe.

    The least recently written ones are dropped first. The responses of a conversation share its
    items, and with them its images. A shared item counts once.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: dict[str, StoredResponse | StoredConversation] = {}
        # By id: an item, its size, and the number of its occurrences in entries.
        self._items: dict[str, tuple[Item, int, int]] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def is_enabled(self) -> bool:
        """Whether anything is stored."""
        return self._capacity > 0

    @property
    def stored_bytes(self) -> int:
        """The size of everything stored, as JSON."""
        return self._bytes

    def response(self, id: str) -> StoredResponse | None:
        """Return the response of that id; ``None`` if it is not stored."""
        entry = self._entries.get(id)
        return entry if isinstance(entry, StoredResponse) else None

    def conversation(self, id: str) -> StoredConversation | None:
        """Return the conversation of that id; ``None`` if it is not stored."""
        entry = self._entries.get(id)
        return entry if isinstance(entry, StoredConversation) else None

    def item(self, id: str) -> Item | None:
        """Return the item of that id; ``None`` if no response or conversation has it."""
        known = self._items.get(id)
        return None if known is None else known[0]

    def put(self, id: str, entry: StoredResponse | StoredConversation) -> None:
        """Store a response or a conversation under its id."""
        with self._lock:
            self._put(id, entry)

    def extend(self, id: str, items: Sequence[Item]) -> StoredConversation | None:
        """Add items to a conversation, and return it; ``None`` if it is not stored."""
        with self._lock:
            known = self.conversation(id)
            if known is not None:
                known = replace(known, items=(*known.items, *items))
                self._put(id, known)
            return known

    def set_metadata(self, id: str, metadata: dict[str, Any]) -> StoredConversation | None:
        """Replace a conversation's metadata, and return it; ``None`` if it is not stored."""
        with self._lock:
            known = self.conversation(id)
            if known is not None:
                known = replace(known, metadata=metadata)
                self._put(id, known)
            return known

    def remove_item(self, id: str, item_id: str) -> StoredConversation | None:
        """Remove an item from a conversation, and return it; ``None`` if it has no such item."""
        with self._lock:
            known = self.conversation(id)
            if known is None or all(item["id"] != item_id for item in known.items):
                return None
            left = tuple(item for item in known.items if item["id"] != item_id)
            known = replace(known, items=left)
            self._put(id, known)
            return known

    def remove(self, id: str) -> bool:
        """Remove a response or a conversation; return whether it was stored."""
        with self._lock:
            return self._remove(id)

    def _put(self, id: str, entry: StoredResponse | StoredConversation) -> None:
        # Counted before the former entry is removed: the size of shared items is not computed anew.
        self._bytes += entry.size
        for item in entry.items:
            _, size, users = self._items.get(item["id"], (item, 0, 0))
            if not users:
                size = len(json.dumps(item))
                self._bytes += size
            self._items[item["id"]] = item, size, users + 1
        self._remove(id)
        self._entries[id] = entry
        while len(self._entries) > self._capacity or self._bytes > _MAX_BYTES:
            self._remove(next(iter(self._entries)))

    def _remove(self, id: str) -> bool:
        known = self._entries.pop(id, None)
        if known is None:
            return False
        self._bytes -= known.size
        for item in known.items:
            _, size, users = self._items.pop(item["id"])
            if users > 1:
                self._items[item["id"]] = item, size, users - 1
            else:
                self._bytes -= size
        return True
