"""How a server listens: uvicorn's configuration, and the addresses that are logged."""

from __future__ import annotations

import logging
import math
import os
import socket
import stat
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from .connections import limited_protocol
from .settings import ServerSettings
from .settings_sources import unknown_variables

DELIVERY_SECONDS = 5
"""Time for clients to receive the end of cancelled answers."""

# asyncio accepts up to this many connections at once, before idle ones are closed.
_BACKLOG = 512

_logger = logging.getLogger(__name__)


def uvicorn_config(app: ASGIApp, settings: ServerSettings) -> uvicorn.Config:
    """Return the configuration of a server."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=limited_protocol(settings.header_seconds, settings.max_connections),
        backlog=_BACKLOG,
        timeout_graceful_shutdown=math.ceil(settings.grace_seconds) + DELIVERY_SECONDS,
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
    if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        if _answers(path):
            raise OSError(f"another server listens on {path}")
        path.unlink()
    bound = socket.socket(socket.AF_UNIX)
    # uvicorn would let all users connect.
    mask = os.umask(0o177)
    try:
        bound.bind(str(path))
        # At once, so that a second server finds this one while it loads its model.
        bound.listen(_BACKLOG)
    except OSError:
        bound.close()
        raise
    finally:
        os.umask(mask)
    return bound


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return False
    return True


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
