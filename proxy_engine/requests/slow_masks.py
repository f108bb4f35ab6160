"""Rows outside the batch whose masks are computed on other threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any
from weakref import WeakKeyDictionary

from ..answers.compile_job import CompileJob
from ..answers.turns import Turns
from ..generation import SequenceState

__all__ = ["SlowMasks"]


class SlowMasks:
    """Rows outside the batch, with their caches. To be used by one thread.

    ``threads`` compute the masks. They share ``turns`` with the compilations, so a row that has
    used more processor time than others waits for them.
    """

    def __init__(self, turns: Turns, threads: ThreadPoolExecutor) -> None:
        self._turns = turns
        self._threads = threads
        self._rows: dict[SequenceState, tuple[list[Any], Future[None]]] = {}
        self._jobs: WeakKeyDictionary[SequenceState, CompileJob] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[SequenceState]:
        return iter(list(self._rows))

    def __contains__(self, row: SequenceState) -> bool:
        return row in self._rows

    def add(self, row: SequenceState, layers: list[Any], cancelled: threading.Event) -> None:
        """Take a row with its caches, and have its mask computed unless ``cancelled`` is set."""
        job = self._jobs.setdefault(row, CompileJob(self._turns, cancelled))
        self._rows[row] = layers, self._threads.submit(job.run, row.compute_mask)

    def finished(self) -> list[tuple[SequenceState, list[Any], BaseException | None]]:
        """Return the rows whose masks are computed, each with its caches and the error, if any."""
        return [
            (row, layers, mask.exception())
            for row, (layers, mask) in self._rows.items()
            if mask.done()
        ]

    def remove(self, row: SequenceState) -> list[Any]:
        """Let a row go, and return its caches."""
        return self._rows.pop(row)[0]

    def clear(self) -> None:
        """Let all rows go."""
        self._rows.clear()

    def wait(self, seconds: float) -> None:
        """Wait until a mask is there, or as long as this."""
        wait([mask for _, mask in self._rows.values()], seconds, return_when=FIRST_COMPLETED)
