"""A timer for work that is due once nothing has happened for some time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class IdleTimer:
    """Calls ``on_idle`` when ``seconds`` have passed since ``start``, for one event loop.

    Args:
        seconds: The time; ``None`` for never.
        on_idle: What to call.
    """

    def __init__(self, seconds: float | None, on_idle: Callable[[], Coroutine[Any, Any, None]]):
        self._seconds = seconds
        self._on_idle = on_idle
        self._handle: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Measure the time from here."""
        self.stop()
        if self._seconds is not None:
            loop = asyncio.get_running_loop()
            self._handle = loop.call_later(self._seconds, self._fire)

    def stop(self) -> None:
        """Do not call ``on_idle`` until ``start`` is called again."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        # The event loop references tasks weakly.
        self._task = asyncio.create_task(self._on_idle())
