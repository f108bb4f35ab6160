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
        self._entries: OrderedDict[Hashable, _V] = OrderedDict()
        # Apart, since numbers are none of the garbage collector's business.
        self._weights: dict[Hashable, int] = {}

    def peek(self, key: object) -> _V | None:
        """Return the value of a key without noting its use; ``None`` where there is none.

        Safe from any thread.
        """
        return self._entries.get(key)

    def get(self, key: _K) -> _V | None:
        """Return the value of a key and note its use; ``None`` where there is none."""
        return self._used(key)

    def _used(self, key: Hashable) -> _V | None:
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: _K, value: _V, weight: int = 1) -> _V:
        """Keep the value of a key, and return it."""
        self._keep(key, value, weight)
        return value

    def _keep(self, key: Hashable, value: _V, weight: int) -> None:
        self._forget(key)
        self._entries[key] = value
        self._weights[key] = weight
        self._weight += weight
        while self._weight > self._most and len(self._entries) > 1:
            oldest, _ = self._entries.popitem(last=False)
            self._weight -= self._weights.pop(oldest, 0)

    def _forget(self, key: Hashable) -> None:
        # Weak keys come here whenever the collector runs: the weight is taken once.
        self._entries.pop(key, None)
        self._weight -= self._weights.pop(key, 0)

    def __len__(self) -> int:
        return len(self._entries)


class RecentWeak(Recent[_K, _V]):
    """The same, and an entry goes when nobody else holds its key."""

    def get(self, key: _K) -> _V | None:
        """Return the value of a key and note its use; ``None`` where there is none."""
        return self._used(ref(key))

    def put(self, key: _K, value: _V, weight: int = 1) -> _V:
        """Keep the value of a key, and return it."""
        self._keep(ref(key, self._forget), value, weight)
        return value
