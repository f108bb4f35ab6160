"""The worker processes: started, watched, replaced, and ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import signal
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from ..settings import ServerSettings
from .worker import WorkerStart

WORKER = (sys.executable, "-m", "proxy_engine.server.router.worker")
"""The command of a worker."""

_MAX_FAILED_STARTS = 5
_MAX_BACKOFF_SECONDS = 30.0
_POLL_SECONDS = 0.05
_GPUS = Path("/proc/driver/nvidia/gpus")

_logger = logging.getLogger(__name__)


class WorkersFailedError(Exception):
    """A worker cannot be started."""


class Workers:
    """The worker processes of a router.

    Args:
        settings: The settings of the whole server.
        directory: A private directory for the sockets of the workers.
        on_ended: Called with the number of a worker whose process has ended.
        command: The command of a worker.
    """

    def __init__(
        self,
        settings: ServerSettings,
        directory: Path,
        on_ended: Callable[[int], None] = lambda number: None,
        command: Sequence[str] = WORKER,
    ) -> None:
        self._settings = settings
        self._on_ended = on_ended
        self._command = command
        self._gpus = visible_gpus()
        self.directory = directory
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self.sockets = [directory / f"{number}.sock" for number in range(settings.workers)]
        self.queues = [0] * settings.workers
        self.starts = [0] * settings.workers
        self.ready: set[int] = set()
        self.is_closed = False

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Start all workers, and replace each that ends, until cancelled.

        Args:
            on_ready: Called once all workers are ready.

        Raises:
            WorkersFailedError: A worker ended before it was ready, at its first start or five
                times in a row later on.
        """
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._settings.workers):
                tasks.create_task(self._keep(number, on_ready))

    async def stop(self, seconds: float) -> None:
        """Let the workers finish their requests; kill them after ``seconds``."""
        self.is_closed = True
        processes = [*self._processes.values()]
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        if processes:
            waits = [asyncio.ensure_future(process.wait()) for process in processes]
            await asyncio.wait(waits, timeout=seconds)
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _keep(self, number: int, on_ready: Callable[[], None]) -> None:
        failures = 0
        while not self.is_closed:
            process = await self._start(number)
            await self._until_ready(number, process)
            if number in self.ready:
                failures = 0
                if len(self.ready) == self._settings.workers:
                    on_ready()
            status = await process.wait()
            if self.is_closed:
                return
            fields = {"worker": number, "pid": process.pid, "status": status}
            _logger.error("worker ended", extra={"fields": fields})
            if number not in self.ready:
                failures += 1
            self.ready.discard(number)
            self._on_ended(number)
            if failures and (self.starts[number] == 1 or failures == _MAX_FAILED_STARTS):
                raise WorkersFailedError(f"worker {number} cannot be started")
            if failures:
                await asyncio.sleep(min(_MAX_BACKOFF_SECONDS, 2.0 ** (failures - 1)))

    async def _start(self, number: int) -> asyncio.subprocess.Process:
        path = self.sockets[number]
        # Of a worker that was killed.
        path.unlink(missing_ok=True)
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            env={**os.environ, **environment(number, self._gpus)},
            # Ctrl-C reaches the supervisor alone, which ends the workers in order.
            start_new_session=True,
        )
        self._processes[number] = process
        is_first = not self.starts[number]
        self.starts[number] += 1
        start = WorkerStart(
            number,
            worker_settings(self._settings),
            path,
            copies=_copies(self._settings, self._gpus) if is_first and not number else 1,
        )
        assert process.stdin is not None
        # The pipe stays open: its end tells the worker that this process has ended.
        process.stdin.write(pickle.dumps(start))
        return process

    async def _until_ready(self, number: int, process: asyncio.subprocess.Process) -> None:
        while process.returncode is None:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_unix_connection(self.sockets[number])
                writer.close()
                self.ready.add(number)
                fields = {"worker": number, "pid": process.pid}
                _logger.info("worker ready", extra={"fields": fields})
                return
            await asyncio.sleep(_POLL_SECONDS)


def worker_settings(settings: ServerSettings) -> ServerSettings:
    """Return the settings of a worker: the router checks keys and host names for it."""
    limit = settings.memory_limit_bytes
    return settings.model_copy(
        update={
            "workers": 1,
            "api_key": None,
            "cors_origins": (),
            "allowed_hosts": ("*",),
            "memory_limit_bytes": None if limit is None else limit // settings.workers,
        }
    )


def visible_gpus() -> list[str]:
    """Return the names of NVIDIA's GPUs, as ``CUDA_VISIBLE_DEVICES`` has them."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name.strip() for name in given.split(",") if name.strip()]
    return [str(index) for index, _ in enumerate(_GPUS.glob("*"))]


def environment(number: int, gpus: Collection[str]) -> dict[str, str]:
    """Return the variables of a worker: with several GPUs, workers take them in turn."""
    if len(gpus) < 2:
        return {}
    return {"CUDA_VISIBLE_DEVICES": [*gpus][number % len(gpus)]}


def _copies(settings: ServerSettings, gpus: Collection[str]) -> int:
    # With a limit, each worker checks its share.
    if settings.memory_limit_bytes is not None:
        return 1
    return -(-settings.workers // max(1, len(gpus)))
