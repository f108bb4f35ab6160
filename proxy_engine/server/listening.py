"""How a server listens: uvicorn's configuration, and the addresses that are logged."""

from __future__ import annotations

import logging
import math
import socket
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from .connections import limited_protocol
from .environment import unknown_variables
from .settings import ServerSettings

DELIVERY_SECONDS = 5
"""Time for clients to receive the end of cancelled answers."""

# asyncio accepts up to this many connections at once, before idle ones are closed.
_BACKLOG = 512

_logger = logging.getLogger(__name__)


def uvicorn_config(
    app: ASGIApp, settings: ServerSettings, socket_path: Path | None = None
) -> uvicorn.Config:
    """Return the configuration of a server.

    Args:
        app: The application.
        settings: Its settings.
        socket_path: The Unix socket of a worker, in place of host and port.
    """
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        uds=None if socket_path is None else str(socket_path),
        http=limited_protocol(settings.header_seconds, settings.max_connections),
        backlog=_BACKLOG,
        timeout_graceful_shutdown=math.ceil(settings.grace_seconds) + DELIVERY_SECONDS,
        log_config=None,
        access_log=False,
        server_header=False,
        # The router adds the date to responses of workers.
        date_header=socket_path is None,
    )


def url_of(listening: socket.socket) -> str:
    """Return the URL of a socket."""
    address = listening.getsockname()
    if isinstance(address, str):
        return f"unix:{address}"
    host, port = address[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"


def warn_of_settings(settings: ServerSettings) -> None:
    """Log warnings of settings that are probably mistakes."""
    if not settings.is_local and settings.api_key is None:
        _logger.warning(
            "listening on a network without an API key: anyone who reaches the server can use it",
            extra={"fields": {"host": settings.host}},
        )
    for variable, hint in unknown_variables(ServerSettings).items():
        facts = {"variable": variable, "hint": hint}
        _logger.warning("unknown environment variable", extra={"fields": facts})
