"""A cache of bounded size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Recent"]

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Recent(Generic[_K, _V]):
    """A mapping that forgets what was not used for longest. Not safe for threads by itself.

    ``most`` bounds the sum of the entries' weights; an entry weighs 1 if nothing else is said.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._weight = 0
        self._entries: OrderedDict[_K, tuple[_V, int]] = OrderedDict()

    def get(self, key: _K) -> _V | None:
        """Return the value of a key and note its use; ``None`` where there is none."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: _K, value: _V, weight: int = 1) -> _V:
        """Keep the value of a new key, and return it."""
        self._entries[key] = (value, weight)
        self._weight += weight
        while self._weight > self._most and len(self._entries) > 1:
            _, (_, freed) = self._entries.popitem(last=False)
            self._weight -= freed
        return value

    def __len__(self) -> int:
        return len(self._entries)
