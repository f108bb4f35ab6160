"""A router whose workers run on threads of this process, for tests."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import uvicorn
from live_server import make_settings, serving
from stand_in_worker import StandInWorker, stand_in_server

from proxy_engine.server.router.choice import WorkerChoice
from proxy_engine.server.router.supervisor import choice_for, create_router
from proxy_engine.server.router.workers import Workers


@dataclass
class Routed:
    """A router that runs, and its workers."""

    url: str
    workers: Workers
    choice: WorkerChoice
    apps: list[StandInWorker] = field(default_factory=list)

    def http(self, **given: object) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=30, **given)  # type: ignore[arg-type]


@contextlib.contextmanager
def running(servers: Sequence[uvicorn.Server]) -> Iterator[None]:
    """Run servers on threads."""
    threads = [threading.Thread(target=server.run, daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    try:
        while not all(server.started for server in servers):
            assert all(thread.is_alive() for thread in threads)
            time.sleep(0.005)
        yield
    finally:
        for server in servers:
            server.should_exit = True
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()


@contextlib.contextmanager
def routing(count: int = 2, **given: object) -> Iterator[Routed]:
    """Route to stand-in workers."""
    settings = make_settings(workers=count, **given)
    # A socket's path has about 100 characters.
    with tempfile.TemporaryDirectory() as directory:
        choice = choice_for(settings)
        workers = Workers(settings, Path(directory), choice.forget)
        workers.ready = set(range(count))
        apps = [StandInWorker(number) for number in range(count)]
        servers = [
            stand_in_server(stand_in, settings, path)
            for stand_in, path in zip(apps, workers.sockets, strict=True)
        ]
        for stand_in, server in zip(apps, servers, strict=True):
            stand_in.server = server
        app = create_router(settings, workers, choice)
        app.state.services = None
        with running(servers), serving(app) as live:  # type: ignore[arg-type]
            yield Routed(live.url, workers, choice, apps)
