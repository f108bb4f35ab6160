"""Thread-safe caches of bounded size.

================================  ==========================================================
:class:`LruCache`                 holds keys and values
:class:`WeakKeyLruCache`          drops an entry when nothing else holds its key
:class:`WeakValueLruCache`        finds every value that is alive, and holds the last few
================================  ==========================================================

No lock is held while a value is made or freed. The locks are reentrant, because the garbage
collector may run a finalizer that uses the same cache in the middle of a dictionary operation.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary, ref

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class LruCache(Generic[_K, _V]):
    """A cache that drops the least recently used entries.

    Args:
        max_weight: Upper bound on the sum of the entries' weights. One entry is kept even if it is
            heavier.
        on_evict: Called with each value that is dropped to stay within ``max_weight``.
    """

    def __init__(self, max_weight: int, on_evict: Callable[[_V], None] | None = None) -> None:
        self._max_weight = max_weight
        self._on_evict = on_evict
        self._weight = 0
        self._entries: OrderedDict[Hashable, _V] = OrderedDict()
        # Separate from the values, because the garbage collector skips a dictionary of numbers.
        self._weights: dict[Hashable, int] = {}
        self._lock = threading.RLock()

    def peek(self, key: object) -> _V | None:
        """Return the value of a key, or ``None``; leave the order of use alone. Lock-free."""
        return self._entries.get(key)

    def get(self, key: _K) -> _V | None:
        """Return the value of a key, or ``None``; mark the entry as the last one used."""
        value = self._entries.get(key)
        if value is not None:
            with self._lock:
                if key in self._entries:
                    self._entries.move_to_end(key)
        return value

    def put(self, key: _K, value: _V, weight: int = 1) -> _V:
        """Store the value of a key, and return it."""
        self._store(key, value, weight)
        return value

    def _store(self, key: Hashable, value: _V, weight: int) -> None:
        # Values are freed after the lock is released: a finalizer may use this cache.
        freed: list[_V | None] = []
        evicted: list[_V] = []
        with self._lock:
            freed.append(self._remove(key))
            self._entries[key] = value
            self._weights[key] = weight
            self._weight += weight
            while self._weight > self._max_weight and len(self._entries) > 1:
                oldest, old = self._entries.popitem(last=False)
                self._weight -= self._weights.pop(oldest, 0)
                evicted.append(old)
        if self._on_evict is not None:
            for old in evicted:
                self._on_evict(old)

    def _remove(self, key: Hashable) -> _V | None:
        """Remove a key and return its value; the caller holds the lock."""
        value = self._entries.pop(key, None)
        self._weight -= self._weights.pop(key, 0)
        return value

    def clear(self) -> list[_V]:
        """Remove all entries, and return their values."""
        with self._lock:
            entries, self._entries = self._entries, OrderedDict()
            self._weights, self._weight = {}, 0
        return list(entries.values())

    def __len__(self) -> int:
        return len(self._entries)


class WeakKeyLruCache(LruCache[_K, _V]):
    """An LRU cache that drops an entry when nothing else holds its key.

    Args:
        max_weight: Upper bound on the sum of the entries' weights.
    """

    def __init__(self, max_weight: int) -> None:
        super().__init__(max_weight)
        self._dead: deque[Hashable] = deque()

    def get(self, key: _K) -> _V | None:
        """Return the value of a key, or ``None``; mark the entry as the last one used."""
        return super().get(ref(key))  # type: ignore[arg-type]

    def peek(self, key: object) -> _V | None:
        """Return the value of a key, or ``None``; leave the order of use alone. Lock-free."""
        return self._entries.get(ref(key))

    def put(self, key: _K, value: _V, weight: int = 1) -> _V:
        """Store the value of a key, and return it."""
        self._store(ref(key, self._forget), value, weight)
        # A key may have died while the lock was held.
        self._remove_dead()
        return value

    def pop(self, key: _K) -> _V | None:
        """Remove the entry of a key and return its value, or ``None``."""
        with self._lock:
            return self._remove(ref(key))

    def _forget(self, key: Hashable) -> None:
        """Remove the entry of a key that has died.

        A weak reference calls this in any thread, at any allocation. Waiting for the lock could
        deadlock: if another thread holds it, the next call removes the entry.
        """
        self._dead.append(key)
        self._remove_dead()

    def _remove_dead(self) -> None:
        freed: list[_V | None] = []
        while self._dead and self._lock.acquire(blocking=False):
            try:
                while self._dead:
                    freed.append(self._remove(self._dead.popleft()))
            finally:
                self._lock.release()


class WeakValueLruCache(Generic[_K, _V]):
    """Finds a value by its key as long as anything holds the value; holds the last few itself.

    For values that grow with use, such as nodes, which store their derivatives: a plain LRU cache
    would keep alive everything that was computed from its values.

    Args:
        max_held: Number of values that the cache itself keeps alive.
    """

    def __init__(self, max_held: int) -> None:
        self._alive: WeakValueDictionary[_K, _V] = WeakValueDictionary()
        self._held: LruCache[_K, _V] = LruCache(max_held)

    def get(self, key: _K, make: Callable[[], _V]) -> _V:
        """Return the value of a key, from ``make()`` if there is none.

        Two threads that ask at the same time may both make the value.
        """
        value = self._alive.get(key)
        if value is None:
            value = self._alive[key] = make()
        if self._held.get(key) is not value:
            self._held.put(key, value)
        return value
