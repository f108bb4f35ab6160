"""Logs: a line an event, as text or as JSON. What clients send is in them only if asked for."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, Literal

__all__ = ["LOGGER", "configure"]

LOGGER = "proxy_engine.server"
"""The logger of this package; facts are given as ``extra={"fields": {…}}``."""


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
        facts = "".join(
            f" {key}={_shown(value)}" for key, value in getattr(record, "fields", {}).items()
        )
        line = f"{_timestamp(record.created)} {record.levelname.lower()} {record.getMessage()}"
        text = f"{line}{facts}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def configure(form: Literal["text", "json"], level: str) -> None:
    """Write the server's log, and uvicorn's, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    for name in (LOGGER, "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper())
    # What it says of starting and stopping is said here already.
    logging.getLogger("uvicorn").setLevel(max(logging.WARNING, logging.getLogger(LOGGER).level))


def _timestamp(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03}Z"


def _shown(value: Any) -> str:
    # Quoted, a value can begin no line of its own.
    text = str(value)
    is_plain = text.isascii() and text.isprintable() and not set(text) & set(' "=')
    return text if text and is_plain else json.dumps(text, ensure_ascii=False)
