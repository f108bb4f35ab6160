"""Stored responses of the Responses interface, for ``previous_response_id``."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any

_MAX_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response as it was sent, and the messages of the conversation up to its end."""

    body: str
    messages: list[dict[str, Any]]


class ResponseStore:
    """The latest ``capacity`` responses, up to 256 MiB; the oldest are dropped first. Thread-safe.

    The responses of a conversation share its messages, and with them its images. A shared message
    counts once.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._responses: dict[str, StoredResponse] = {}
        # By id of the object, which a stored response keeps alive: its size, and its users.
        self._messages: dict[int, tuple[int, int]] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def is_enabled(self) -> bool:
        """Whether any response is stored."""
        return self._capacity > 0

    @property
    def stored_bytes(self) -> int:
        """The size of all stored responses and messages as JSON."""
        return self._bytes

    def get(self, name: str) -> StoredResponse | None:
        """Return the response of that id; ``None`` if it is not stored."""
        return self._responses.get(name)

    def put(self, name: str, response: StoredResponse) -> None:
        """Store a response under its id."""
        with self._lock:
            self._remove(name)
            self._responses[name] = response
            self._bytes += len(response.body)
            for message in response.messages:
                size, users = self._messages.get(id(message), (0, 0))
                if not users:
                    size = len(json.dumps(message))
                    self._bytes += size
                self._messages[id(message)] = size, users + 1
            while len(self._responses) > self._capacity or self._bytes > _MAX_BYTES:
                self._remove(next(iter(self._responses)))

    def remove(self, name: str) -> bool:
        """Remove a response; return whether it was stored."""
        with self._lock:
            return self._remove(name)

    def _remove(self, name: str) -> bool:
        known = self._responses.pop(name, None)
        if known is None:
            return False
        self._bytes -= len(known.body)
        for message in known.messages:
            size, users = self._messages.pop(id(message))
            if users > 1:
                self._messages[id(message)] = size, users - 1
            else:
                self._bytes -= size
        return True
