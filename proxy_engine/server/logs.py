"""Log lines of the server, one an event, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, Literal

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


def configure(form: Literal["text", "json"], level: str) -> None:
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
