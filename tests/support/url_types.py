"""The types of URLs of pydantic, with the arguments of their languages."""

from __future__ import annotations

from typing import Any

from pydantic import networks

__all__ = ["URL_TYPES", "url_spec"]

_MULTI_HOST = ("PostgresDsn", "MongoDsn", "NatsDsn")
_NAMES = (
    *("AnyUrl", "HttpUrl", "AnyHttpUrl", "FileUrl", "FtpUrl", "WebsocketUrl", "AnyWebsocketUrl"),
    *("RedisDsn", "AmqpDsn", "KafkaDsn", "MySQLDsn", "MariaDBDsn", "ClickHouseDsn"),
    *("SnowflakeDsn", "CockroachDsn"),
    *_MULTI_HOST,
)
_ARGUMENTS = (
    *("allowed_schemes", "host_required", "max_length"),
    *("default_host", "default_port", "default_path"),
)

URL_TYPES: tuple[Any, ...] = tuple(getattr(networks, name) for name in _NAMES)


def url_spec(kind: Any) -> dict[str, Any]:
    """Return the language of a type of URLs."""
    found = {name: getattr(kind._constraints, name) for name in _ARGUMENTS}
    arguments = {name: value for name, value in found.items() if value is not None}
    return {"language": "url", "multi_host": kind.__name__ in _MULTI_HOST, **arguments}
