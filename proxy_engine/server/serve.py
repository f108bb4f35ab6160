"""The server process: logs, start, listening, graceful shutdown, and limits on connections.

uvicorn limits the size of headers and the idle time between two requests, but not the time from the
first byte of a request to the end of its headers. ``BodyMiddleware`` limits the time for bodies.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import math
import os
import resource
import socket
import stat
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

import h11
import uvicorn
from pydantic_core import to_json
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..distributed.leader import lead_or_follow
from ..engine.inference_engine import InferenceEngine
from ..runtime import process_runtime
from .app import create_app, load_engine, registry_of
from .errors import ApiError
from .load_checks import MemoryGate
from .models import KnownModel
from .running import Services
from .settings import ServerSettings, unknown_variables

_ABANDONED = 1

_DELIVERY_SECONDS = 5
"""Time for clients to receive the end of cancelled answers."""

# asyncio accepts up to this many connections at once, before idle ones are closed.
_BACKLOG = 512

_logger = logging.getLogger(__name__)


def serve(settings: ServerSettings) -> int:
    """Load the default model and serve it until SIGINT or SIGTERM.

    Returns:
        The exit status.

    Raises:
        ModelError: The model cannot be loaded.
        VocabularyError: Its tokenizer cannot be read.
    """
    configure_logs(settings.log_format, settings.log_level)
    if settings.distributed:
        # On ranks other than 0 this does not return: rank 0 answers requests.
        lead_or_follow()
    _warn_of_settings(settings)
    process_runtime.take_over()
    model = registry_of(settings).default()
    shortage = MemoryGate(settings.memory_limit_bytes).shortage(model)
    if shortage is not None:
        # The operator has chosen this model, and may free memory while it is loaded.
        _logger.warning(
            "the default model may not fit into memory", extra={"fields": shortage.facts}
        )
    sockets = None
    if settings.uds is not None:
        try:
            sockets = [unix_socket(settings.uds)]
        except OSError as error:
            facts = {"uds": settings.uds, "why": error}
            _logger.error("cannot listen", extra={"fields": facts})
            return 1
    engine = _load(model, settings)
    app = create_app(settings, engine=engine, load=partial(_load, settings=settings))
    server = _Server(uvicorn_config(app, settings), app.state.services)
    server.run(sockets)
    return 0 if server.started else 1


def _load(model: KnownModel, settings: ServerSettings) -> InferenceEngine:
    engine = load_engine(model, settings)
    process_runtime.freeze()
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
        process_runtime.freeze()
        self._collecting = asyncio.create_task(process_runtime.collect_when_idle(self._is_idle))
        for listening in self.servers:
            current = self._services.host.current
            fields = {
                "url": _url_of(listening.sockets[0]),
                "model": None if current is None else current.model.name,
            }
            _logger.info("listening", extra={"fields": fields})

    def _is_idle(self) -> bool:
        admission = self._services.admission
        return not (admission.running or admission.waiting)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse new requests, and cancel answers that outlast the grace period."""
        self._collecting.cancel()
        self._services.admission.close()
        _logger.info("stopping", extra={"fields": {"answers": self._services.admission.running}})
        ending = asyncio.create_task(self._end_running())
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()
            uds = self._services.settings.uds
            if uds is not None:
                # Here, since uvicorn ends the process by the signal that it has received.
                uds.expanduser().unlink(missing_ok=True)
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
        self._services.admission.cancel_all()


def uvicorn_config(app: ASGIApp, settings: ServerSettings) -> uvicorn.Config:
    """Return the configuration of a server."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=limited_protocol(settings.header_seconds, settings.max_connections),
        backlog=_BACKLOG,
        timeout_graceful_shutdown=math.ceil(settings.grace_seconds) + _DELIVERY_SECONDS,
        log_config=None,
        access_log=False,
        server_header=False,
    )


def unix_socket(path: Path) -> socket.socket:
    """Bind a Unix socket to which only this user can connect.

    A file that a killed server has left is replaced.

    Raises:
        OSError: Another server listens there, the path is another file's, or it is too long.
    """
    path = path.expanduser().absolute()
    bound = socket.socket(socket.AF_UNIX)
    # Of servers that start together, one replaces the file, and the others find that it answers.
    directory = os.open(path.parent, os.O_RDONLY)
    # uvicorn would let all users connect.
    mask = os.umask(0o177)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
            if _answers(path):
                raise OSError(f"another server listens on {path}")
            path.unlink()
        bound.bind(str(path))
        # At once, so that a second server finds this one while it loads its model.
        bound.listen(_BACKLOG)
    except OSError:
        bound.close()
        raise
    finally:
        os.umask(mask)
        os.close(directory)
    return bound


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return False
    return True


def _url_of(listening: socket.socket) -> str:
    """Return the URL of a socket."""
    address = listening.getsockname()
    if isinstance(address, str):
        return f"unix:{address}"
    host, port = address[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"


def _warn_of_settings(settings: ServerSettings) -> None:
    """Log warnings of settings that are probably mistakes."""
    if not settings.is_local and settings.api_key is None:
        _logger.warning(
            "listening on a network without an API key: anyone who reaches the server can use it",
            extra={"fields": {"host": settings.host}},
        )
    for variable, hint in unknown_variables(ServerSettings).items():
        facts = {"variable": variable, "hint": hint}
        _logger.warning("unknown environment variable", extra={"fields": facts})


_LOGGER = "proxy_engine.server"


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _timestamp(record.created),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", {}).items()
        line = f"{_timestamp(record.created)} {record.levelname.lower()} {record.getMessage()}"
        text = line + "".join(f" {name}={_quoted(value)}" for name, value in fields)
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def configure_logs(form: Literal["text", "json"], level: str) -> None:
    """Write the logs of the server and of uvicorn to standard error.

    A record's fields are given as ``extra={"fields": {…}}``.

    Args:
        form: The format of a line.
        level: The lowest level that is written.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    for name in (_LOGGER, "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper())
    # The server logs its own start and stop.
    logging.getLogger("uvicorn").setLevel(max(logging.WARNING, logging.getLogger(_LOGGER).level))


def _timestamp(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03}Z"


def _quoted(value: Any) -> str:
    # Quotes escape line breaks, so a client cannot forge a line of the log.
    text = str(value)
    is_plain = text.isascii() and text.isprintable() and not set(text) & set(' "=')
    return text if text and is_plain else json.dumps(text, ensure_ascii=False)


class _LimitedProtocol(H11Protocol):
    """Closes a connection whose client does not complete a request head within ``head_seconds``.

    The time starts when the connection opens, and again with the first byte of each further
    request. It also limits a body that the client still sends after the response.

    A connection beyond ``max_connections`` closes the connection that has waited longest for a
    request head, so that idle connections do not use up the process's file descriptors.
    """

    head_seconds: float
    max_connections: int
    waiting: dict[_LimitedProtocol, None]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._start_timer()
        if len(self.connections) > self.max_connections:
            # If no other connection waits, this is the new one.
            next(iter(self.waiting))._close("too many connections")

    def data_received(self, data: bytes) -> None:
        """Stop the timer once the head of a request is complete."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._head_timer is None:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._time_out)
        self.waiting[self] = None

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
            del self.waiting[self]

    def _time_out(self) -> None:
        self._stop_timer()
        if self.transport.is_closing():
            return
        # A client that has sent nothing expects no response.
        if self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]:
            self.transport.write(_response(self.head_seconds))
        self._close("slow headers")

    def _close(self, reason: str) -> None:
        self._stop_timer()
        # Counted until the transport reports the end, which the next connection may precede.
        self.connections.discard(self)
        self.transport.close()
        _logger.info("connection closed", extra={"fields": {"reason": reason}})


def limited_protocol(head_seconds: float, max_connections: int) -> type[H11Protocol]:
    """Return the protocol class for ``uvicorn.Config(http=...)`` of one server.

    Args:
        head_seconds: Seconds from the first byte of a request to the end of its headers.
        max_connections: Number of open connections from which on idle ones are closed; at most
            half of the process's limit on file descriptors.
    """
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors != resource.RLIM_INFINITY:
        max_connections = min(max_connections, descriptors // 2)
    settings = {"head_seconds": head_seconds, "max_connections": max_connections, "waiting": {}}
    return type("LimitedProtocol", (_LimitedProtocol,), settings)


def _response(seconds: float) -> bytes:
    error = ApiError(408, f"the headers did not arrive within {seconds:g} seconds", code="timeout")
    body = to_json(error.body)
    head = (
        "HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
