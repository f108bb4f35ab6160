"""Stored responses of the Responses interface, for ``previous_response_id``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

_MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response as it was sent, and the messages of the conversation up to its end."""

    body: str
    messages: list[dict[str, Any]]


class ResponseStore:
    """The latest ``capacity`` responses, up to 64 MiB; the oldest are dropped first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._responses: dict[str, tuple[StoredResponse, int]] = {}
        self._bytes = 0

    @property
    def is_enabled(self) -> bool:
        """Whether any response is stored."""
        return self._capacity > 0

    def get(self, id: str) -> StoredResponse | None:
        """Return a response; ``None`` if it is not stored."""
        known = self._responses.get(id)
        return None if known is None else known[0]

    def put(self, id: str, response: StoredResponse) -> None:
        """Store a response."""
        size = len(response.body) + len(json.dumps(response.messages))
        self._responses[id] = response, size
        self._bytes += size
        while len(self._responses) > self._capacity or self._bytes > _MAX_BYTES:
            self.remove(next(iter(self._responses)))

    def remove(self, id: str) -> bool:
        """Remove a response; return whether it was stored."""
        known = self._responses.pop(id, None)
        if known is not None:
            self._bytes -= known[1]
        return known is not None
