"""Responses that are kept for a while, so that others may go on from them."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

__all__ = ["ResponseStore", "StoredResponse"]

_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response as it was sent, and the whole conversation up to its end."""

    body: str
    messages: list[dict[str, Any]]


class ResponseStore:
    """At most ``capacity`` responses, and 64 MiB of them; the oldest go first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._responses: OrderedDict[str, tuple[StoredResponse, int]] = OrderedDict()
        self._bytes = 0

    @property
    def is_used(self) -> bool:
        """Whether anything is kept at all."""
        return self._capacity > 0

    def get(self, id: str) -> StoredResponse | None:
        """Return a response, if it is still there."""
        known = self._responses.get(id)
        return None if known is None else known[0]

    def put(self, id: str, response: StoredResponse) -> None:
        """Keep a response."""
        size = len(response.body) + len(json.dumps(response.messages))
        self._responses[id] = response, size
        self._bytes += size
        while len(self._responses) > self._capacity or self._bytes > _MOST_BYTES:
            self.remove(next(iter(self._responses)))

    def remove(self, id: str) -> bool:
        """Forget a response; return whether it was there."""
        known = self._responses.pop(id, None)
        if known is not None:
            self._bytes -= known[1]
        return known is not None
