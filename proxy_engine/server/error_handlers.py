"""Handlers that turn exceptions into responses in OpenAI's envelope."""

from __future__ import annotations

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from state_machines.errors import ProxyError

from .errors import ApiError, api_error, error_reply, invalid_body

_CODES = {
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    413: "body_too_large",
    503: "too_many_bodies",
}


def add_error_handlers(app: Starlette) -> None:
    """Add the handlers to an application."""
    for kind in (ApiError, ProxyError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _reply)


def http_error(error: HTTPException) -> ApiError:
    """Return an error of Starlette, or of this package's middleware, as a client gets it."""
    status = error.status_code
    return ApiError(status, str(error.detail), code=_CODES.get(status), headers=error.headers)


async def _reply(request: Request, error: Exception) -> Response:
    match error:
        case ProxyError():
            error = api_error(error)
        case RequestValidationError():
            error = invalid_body(error)
        case HTTPException():
            error = http_error(error)
    if not isinstance(error, ApiError):
        raise error
    return error_reply(error)
