"""Caches of bounded size."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar
from weakref import ref

__all__ = ["LruCache", "WeakKeyLruCache"]

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class LruCache(Generic[_K, _V]):
    """An LRU cache. Safe to use from several threads.

    ``most`` bounds the sum of the entries' weights; an entry weighs 1 if nothing else is said.
    The lock is held for a few dictionary operations only, never while a value is made or freed. It
    is reentrant, since the garbage collector may run a finalizer in the midst of these.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._weight = 0
        self._entries: OrderedDict[Hashable, _V] = OrderedDict()
        # Apart, since numbers are none of the garbage collector's business.
        self._weights: dict[Hashable, int] = {}
        self._lock = threading.RLock()

    def peek(self, key: object) -> _V | None:
        """Return the value of a key without noting its use; ``None`` where there is none."""
        return self._entries.get(key)

    def get(self, key: _K) -> _V | None:
        """Return the value of a key and note its use; ``None`` where there is none."""
        return self._used(key)

    def _used(self, key: Hashable) -> _V | None:
        with self._lock:
            value = self._entries.get(key)
            if key in self._entries:
                self._entries.move_to_end(key)
        return value

    def put(self, key: _K, value: _V, weight: int = 1) -> _V:
        """Keep the value of a key, and return it."""
        self._keep(key, value, weight)
        return value

    def _keep(self, key: Hashable, value: _V, weight: int) -> None:
        # Values are freed after the lock is released: a destructor may come back to this cache.
        freed: list[_V | None] = []
        with self._lock:
            freed.append(self._without(key))
            self._entries[key] = value
            self._weights[key] = weight
            self._weight += weight
            while self._weight > self._most and len(self._entries) > 1:
                oldest, old = self._entries.popitem(last=False)
                self._weight -= self._weights.pop(oldest, 0)
                freed.append(old)

    def _without(self, key: Hashable) -> _V | None:
        """Remove a key and return its value; the caller holds the lock."""
        value = self._entries.pop(key, None)
        self._weight -= self._weights.pop(key, 0)
        return value

    def __len__(self) -> int:
        return len(self._entries)


class WeakKeyLruCache(LruCache[_K, _V]):
    """The same, and an entry goes when nobody else holds its key."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._dead: deque[Hashable] = deque()

    def get(self, key: _K) -> _V | None:
        """Return the value of a key and note its use; ``None`` where there is none."""
        return self._used(ref(key))

    def put(self, key: _K, value: _V, weight: int = 1) -> _V:
        """Keep the value of a key, and return it."""
        self._keep(ref(key, self._forget), value, weight)
        # A key may have died while the lock was held.
        self._remove_dead()
        return value

    def _forget(self, key: Hashable) -> None:
        """Remove the entry of a key that has died.

        A weak reference calls this in any thread, at any allocation. To wait for the lock there
        could be a deadlock: where another thread has it, the entry is left to the next call.
        """
        self._dead.append(key)
        self._remove_dead()

    def _remove_dead(self) -> None:
        freed: list[_V | None] = []
        while self._dead and self._lock.acquire(blocking=False):
            try:
                while self._dead:
                    freed.append(self._without(self._dead.popleft()))
            finally:
                self._lock.release()
