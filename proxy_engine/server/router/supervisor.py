"""``serve --workers``: the process that owns the port, the router, and the workers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from .. import logs
from ..error_handlers import add_error_handlers
from ..listening import DELIVERY_SECONDS, url_of, uvicorn_config, warn_of_settings
from ..middleware import middleware_for
from ..settings import ServerSettings
from .choice import WorkerChoice
from .forwarding import Forwarder
from .overview import Overview
from .workers import WORKER, Workers, WorkersFailedError

_logger = logging.getLogger(__name__)


def supervise(settings: ServerSettings, command: Sequence[str] = WORKER) -> int:
    """Run ``settings.workers`` servers behind one port until SIGINT or SIGTERM.

    Args:
        settings: The settings.
        command: The command of a worker.

    Returns:
        The exit status; 1 if a worker cannot be started.
    """
    logs.configure(settings.log_format, settings.log_level)
    warn_of_settings(settings)
    # Accessible to this user only.
    directory = Path(tempfile.mkdtemp(prefix="proxy-engine-"))
    choice = choice_for(settings)
    server = _Supervisor(settings, Workers(settings, directory, choice.forget, command), choice)
    try:
        server.run()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0 if server.started and not server.has_failed else 1


def choice_for(settings: ServerSettings) -> WorkerChoice:
    """Return the choice of workers that answer ``settings.max_running`` requests at a time.

    A known prompt is worth half a batch, and a model in memory two.
    """
    return WorkerChoice(max(1, settings.max_running // 2), 2 * settings.max_running)


def create_router(settings: ServerSettings, workers: Workers, choice: WorkerChoice) -> Starlette:
    """Return the application of the router."""
    forwarder = Forwarder(workers, choice, settings.write_seconds)
    overview = Overview(workers, forwarder)
    app = Starlette(
        routes=[*overview.routes, Route("/{path:path}", forwarder)],
        middleware=middleware_for(settings, overview.requests),
    )
    add_error_handlers(app)
    return app


class _Supervisor(uvicorn.Server):
    """The router's server, which starts the workers before it listens, and ends them after it."""

    def __init__(self, settings: ServerSettings, workers: Workers, choice: WorkerChoice) -> None:
        super().__init__(uvicorn_config(create_router(settings, workers, choice), settings))
        self._settings = settings
        self._workers = workers
        self.has_failed = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the workers and, once all are ready, bind the sockets."""
        ready = asyncio.Event()
        self._running = asyncio.create_task(self._run_workers(ready))
        while not ready.is_set() and not self.should_exit:
            await asyncio.sleep(0.05)
        if self.should_exit:
            await self._stop_workers()
            return
        await super().startup(sockets)
        for listening in self.servers:
            fields = {"url": url_of(listening.sockets[0]), "workers": self._settings.workers}
            _logger.info("listening", extra={"fields": fields})

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let the workers end their answers, deliver them, and wait for the workers."""
        _logger.info("stopping", extra={"fields": {"requests": sum(self._workers.queues)}})
        stopping = asyncio.create_task(self._stop_workers())
        await super().shutdown(sockets)
        await stopping
        _logger.info("stopped")

    async def _run_workers(self, ready: asyncio.Event) -> None:
        try:
            await self._workers.run(ready.set)
        except* WorkersFailedError as failures:
            self.has_failed = self.should_exit = True
            _logger.error(str(failures.exceptions[0]))

    async def _stop_workers(self) -> None:
        # A worker needs some time after its answers have ended.
        await self._workers.stop(self._settings.grace_seconds + 2 * DELIVERY_SECONDS)
        self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._running
        # Here, since uvicorn ends the process by the signal that it has received.
        shutil.rmtree(self._workers.directory, ignore_errors=True)
