"""Handlers that turn exceptions into responses in OpenAI's envelope."""

from __future__ import annotations

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from state_machines.errors import ProxyError

from .errors import ApiError, api_error, error_reply, invalid_body

_CODES = {404: "not_found", 405: "method_not_allowed", 408: "timeout", 413: "body_too_large"}


def add_error_handlers(app: Starlette) -> None:
    """Add the handlers to an application."""
    for kind in (ApiError, ProxyError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _reply)


async def _reply(request: Request, error: Exception) -> Response:
    match error:
        case ProxyError():
            error = api_error(error)
        case RequestValidationError():
            error = invalid_body(error)
        case HTTPException(status_code=status, detail=detail, headers=headers):
            error = ApiError(status, str(detail), code=_CODES.get(status), headers=headers)
    if not isinstance(error, ApiError):
        raise error
    return error_reply(error)
