"""The thread that writes prompt caches to disk."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

_log = logging.getLogger(__name__)


class DiskWriter:
    """Runs jobs in order on a thread of its own. The queue is bounded: jobs beyond it are refused.

    The first error of a job is logged and disables the writer.

    Args:
        max_jobs: Maximum number of queued jobs.
    """

    def __init__(self, max_jobs: int) -> None:
        self._max_jobs = max_jobs
        self._jobs: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._is_busy = False
        self._is_closed = False
        self._thread: threading.Thread | None = None

    @property
    def accepts(self) -> bool:
        """Whether :meth:`submit` would accept a job."""
        return not self._is_closed and len(self._jobs) < self._max_jobs

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called, or a job failed. Long jobs check this."""
        return self._is_closed

    def submit(self, job: Callable[[], None]) -> bool:
        """Queue a job, if there is room."""
        with self._changed:
            if not self.accepts:
                return False
            self._jobs.append(job)
            if self._thread is None:
                # A daemon, so that the program can end.
                self._thread = threading.Thread(
                    target=self._run, name="proxy-engine-disk", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()
        return True

    def drop_jobs(self) -> None:
        """Drop the queued jobs."""
        with self._changed:
            self._jobs.clear()

    def wait(self, seconds: float) -> bool:
        """Wait until no job is left; returns whether that was reached in time."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not (self._jobs or self._is_busy) or self._is_closed, seconds
            )

    def wait_for_room(self, deadline: float) -> bool:
        """Wait until a job would be accepted, until a time by the clock of ``time.monotonic``."""
        with self._changed:
            self._changed.wait_for(
                lambda: self.accepts or self._is_closed, deadline - time.monotonic()
            )
            return self.accepts

    def close(self) -> None:
        """Refuse further jobs, drop the queued ones, and end the thread after the current one."""
        with self._changed:
            self._is_closed = True
            self._jobs.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._is_closed)
                if self._is_closed:
                    return
                job = self._jobs.popleft()
                self._is_busy = True
            try:
                job()
            except Exception as error:
                # Caches save time: whatever is wrong with them fails no request.
                _log.warning("prompt caches are no longer written to disk: %s", error)
                self.close()
            # Do not keep the job's arrays alive while waiting for the next one.
            del job
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()
