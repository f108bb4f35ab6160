"""The server process: start, listening, and graceful shutdown."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import uvicorn

from .. import own_process
from ..engine import InferenceEngine
from . import logs
from .app import create_app, load_engine, registry_of
from .connections import limited_protocol
from .environment import unknown_variables
from .known_models import KnownModel
from .memory import MemoryGate
from .services import Services
from .settings import ServerSettings

# Time for clients to receive the end of cancelled answers.
_DELIVERY_SECONDS = 5
_BACKLOG = 2048
_ABANDONED = 1

_logger = logging.getLogger(__name__)


def serve(settings: ServerSettings) -> int:
    """Load the default model and serve it until SIGINT or SIGTERM.

    Returns:
        The exit status.

    Raises:
        ModelError: The model cannot be loaded.
        VocabularyError: Its tokenizer cannot be read.
    """
    logs.configure(settings.log_format, settings.log_level)
    if not settings.is_local and settings.api_key is None:
        _logger.warning(
            "listening on a network without an API key: anyone who reaches the server can use it",
            extra={"fields": {"host": settings.host}},
        )
    for variable, hint in unknown_variables(ServerSettings).items():
        facts = {"variable": variable, "hint": hint}
        _logger.warning("unknown environment variable", extra={"fields": facts})
    own_process.take_over()
    model = registry_of(settings).default()
    shortage = MemoryGate(settings.memory_limit_bytes).shortage(model)
    if shortage is not None:
        # The operator has chosen this model, and may free memory while it is loaded.
        _logger.warning(
            "the default model may not fit into memory", extra={"fields": shortage.facts}
        )
    engine = _load(model, settings)
    app = create_app(settings, engine=engine, load=partial(_load, settings=settings))
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=limited_protocol(settings.header_seconds),
        backlog=_BACKLOG,
        timeout_graceful_shutdown=math.ceil(settings.grace_seconds) + _DELIVERY_SECONDS,
        log_config=None,
        access_log=False,
        server_header=False,
    )
    server = _Server(config, app.state.services)
    server.run()
    return 0 if server.started else 1


def _load(model: KnownModel, settings: ServerSettings) -> InferenceEngine:
    engine = load_engine(model, settings)
    own_process.freeze()
    return engine


class _Server(uvicorn.Server):
    """Ends running answers before their connections."""

    def __init__(self, config: uvicorn.Config, services: Services) -> None:
        super().__init__(config)
        self._services = services
        self._threads = ThreadPoolExecutor(thread_name_prefix="server")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Bind the sockets and log their addresses."""
        asyncio.get_running_loop().set_default_executor(self._threads)
        await super().startup(sockets)
        # The application lives as long as the process.
        own_process.freeze()
        self._collecting = asyncio.create_task(own_process.collect_when_idle(self._is_idle))
        for listening in self.servers:
            host, port = listening.sockets[0].getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            current = self._services.host.current
            fields = {
                "url": f"http://{shown}:{port}",
                "model": None if current is None else current.model.name,
            }
            _logger.info("listening", extra={"fields": fields})

    def _is_idle(self) -> bool:
        queue = self._services.queue
        return not (queue.running or queue.waiting)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse new requests, and cancel answers that outlast the grace period."""
        self._collecting.cancel()
        self._services.drain()
        _logger.info("stopping", extra={"fields": {"answers": self._services.queue.running}})
        ending = asyncio.create_task(self._end_running())
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()
        _logger.info("stopped")
        # At exit, Python would wait for a thread that loads a model.
        waiting = threading.Thread(target=self._threads.shutdown, daemon=True)
        waiting.start()
        waiting.join(_DELIVERY_SECONDS)
        if waiting.is_alive():
            logging.shutdown()
            os._exit(_ABANDONED)

    async def _end_running(self) -> None:
        await asyncio.sleep(self._services.settings.grace_seconds)
        self._services.end_running()
