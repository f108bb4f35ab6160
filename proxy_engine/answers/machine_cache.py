"""An LRU cache of compiled machines, with one compilation per key."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

from ..errors import CompileLimitError, RequestCancelledError
from .compile_job import CompileJob

V = TypeVar("V")

_SECONDS_BETWEEN_CHECKS = 0.05


class MachineCache(Generic[V]):
    """An LRU cache. Thread-safe.

    No lock is held during a compilation. A second request for a key that is being compiled waits
    for the first; requests for other keys do not.

    Args:
        capacity: Maximum number of values.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: OrderedDict[Hashable, V] = OrderedDict()
        self._making: dict[Hashable, Future[V]] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], V], job: CompileJob) -> V:
        """Return the value of a key; compile it with ``job.run(make)`` if it is missing.

        Raises:
            ProxyError: ``make`` raised it, in this thread or in another; or ``job`` was stopped.
        """
        while True:
            with self._lock:
                if key in self._values:
                    self._values.move_to_end(key)
                    return self._values[key]
                making = self._making.get(key)
                if making is None:
                    mine = self._making[key] = Future()
            if making is None:
                return self._make(key, make, job, mine)
            try:
                return self._await(making, job)
            except _ANOTHER_JOB:
                # The other request was stopped; this one may continue.
                job.check()

    def _make(self, key: Hashable, make: Callable[[], V], job: CompileJob, making: Future[V]) -> V:
        try:
            value = job.run(make)
        except BaseException as error:
            with self._lock:
                del self._making[key]
            making.set_exception(error)
            raise
        with self._lock:
            del self._making[key]
            self._values[key] = value
            if len(self._values) > self._capacity:
                self._values.popitem(last=False)
        making.set_result(value)
        return value

    def _await(self, making: Future[V], job: CompileJob) -> V:
        while not wait([making], _SECONDS_BETWEEN_CHECKS).done:
            job.check()
        return making.result()


_ANOTHER_JOB = (CompileLimitError, RequestCancelledError)
