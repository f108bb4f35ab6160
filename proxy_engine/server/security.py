"""Who may use the server, and by which name."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from .errors import ApiError
from .replies import send_error

__all__ = ["HostMiddleware", "KeyMiddleware", "is_key"]

# What tells nothing of models and of those who use them.
_OPEN = {"/", "/health", "/docs", "/docs/oauth2-redirect", "/openapi.json"}
_LOCAL = {"localhost", "127.0.0.1", "[::1]"}


class HostMiddleware:
    """Answers only to those who call the server by one of its ``names``.

    A page from elsewhere can have its own name lead to this computer; then browsers take the server
    for a part of that page's own. The name that they send gives it away.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str] = ()) -> None:
        self._app = app
        self._names = {*_LOCAL, *(name.lower() for name in names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http":
            host = Headers(scope=scope).get("host", "").lower()
            name = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
            if name and name not in self._names:
                error = ApiError(
                    403, f"this server is not {name!r}; see --allowed-hosts", code="unknown_host"
                )
                await send_error(error, scope, receive, send)
                return
        await self._app(scope, receive, send)


class KeyMiddleware:
    """Lets nobody without the key use models or read metrics; whatever they send is not read."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http" and _path(scope) not in _OPEN:
            scheme, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not self._fits(given.strip()):
                error = ApiError(
                    401,
                    "an API key is needed: `Authorization: Bearer …`"
                    if not given
                    else "this is not the API key",
                    code="invalid_api_key",
                    headers={"WWW-Authenticate": "Bearer"},
                )
                await send_error(error, scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _fits(self, given: str) -> bool:
        """Whether it is the key, in either of the encodings that clients write headers in."""
        in_utf8 = given.encode("latin-1").decode("utf-8", "replace")
        return is_key(given, self._key) | is_key(in_utf8, self._key)


def _path(scope: Scope) -> str:
    """Return the path as the application knows it, wherever it is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def is_key(given: str, key: str) -> bool:
    """Whether it is the key. How long that takes tells nothing of it, not even its length."""
    digests = [hashlib.sha256(text.encode("utf-8", "replace")).digest() for text in (given, key)]
    return hmac.compare_digest(*digests)
