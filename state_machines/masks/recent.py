"""Caches of bounded size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar
from weakref import ref

__all__ = ["Recent", "RecentWeak"]

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Recent(Generic[_K, _V]):
    """A mapping that forgets what was not used for longest. Not safe for threads by itself.

    ``most`` bounds the sum of the entries' weights; an entry weighs 1 if nothing else is said.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._weight = 0
        self._entries: OrderedDict[Hashable, tuple[_V, int]] = OrderedDict()

    def get(self, key: _K) -> _V | None:
        """Return the value of a key and note its use; ``None`` where there is none."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: _K, value: _V, weight: int = 1) -> _V:
        """Keep the value of a key, and return it."""
        self._keep(key, value, weight)
        return value

    def _keep(self, key: Hashable, value: _V, weight: int) -> None:
        self._forget(key)
        self._entries[key] = (value, weight)
        self._weight += weight
        while self._weight > self._most and len(self._entries) > 1:
            _, (_, freed) = self._entries.popitem(last=False)
            self._weight -= freed

    def _forget(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._weight -= entry[1]

    def __len__(self) -> int:
        return len(self._entries)


class RecentWeak(Recent[_K, _V]):
    """The same, and an entry goes when nobody else holds its key."""

    def get(self, key: _K) -> _V | None:
        """Return the value of a key and note its use; ``None`` where there is none."""
        reference = ref(key)
        entry = self._entries.get(reference)
        if entry is None:
            return None
        self._entries.move_to_end(reference)
        return entry[0]

    def put(self, key: _K, value: _V, weight: int = 1) -> _V:
        """Keep the value of a key, and return it."""
        self._keep(ref(key, self._forget), value, weight)
        return value
