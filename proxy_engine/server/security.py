"""Who may use the server."""

from __future__ import annotations

import hashlib
import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from .errors import ApiError
from .replies import send_error

__all__ = ["KeyMiddleware", "is_key"]

_PROTECTED = ("/v1/", "/metrics")


class KeyMiddleware:
    """Lets nobody without the key use models or read metrics; whatever they send is not read."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http" and scope["path"].startswith(_PROTECTED):
            scheme, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not is_key(given.strip(), self._key):
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


def is_key(given: str, key: str) -> bool:
    """Whether it is the key. How long that takes tells nothing of it, not even its length."""
    digests = [hashlib.sha256(text.encode("utf-8", "replace")).digest() for text in (given, key)]
    return hmac.compare_digest(*digests)
