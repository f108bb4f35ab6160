"""Detection of forked processes.

A fork copies the calling thread and no other. In the child the model thread does not exist, locks
that other threads held stay locked, and MLX waits for threads that are gone. Nothing that was made
before the fork can be used there; every wait for the model thread is preceded by a check.
"""

from __future__ import annotations

import os

from ..errors import EngineForkedError

__all__ = ["ProcessGuard"]

_HINT = (
    "Start the process with the 'spawn' method of multiprocessing, and create the engine there; "
    "or fork before the first engine is created."
)


class ProcessGuard:
    """Remembers the process in which it was created."""

    __slots__ = ("_pid",)

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_forked(self) -> bool:
        """Whether this is a forked child of the process in which the guard was created."""
        return os.getpid() != self._pid

    def check(self) -> None:
        """Raise ``EngineForkedError`` in a forked child. Takes no lock."""
        if self.is_forked:
            raise EngineForkedError(
                "this process was forked after an engine had been created", hint=_HINT
            )
