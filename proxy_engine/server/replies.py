"""JSON as it is sent."""

from __future__ import annotations

from fastapi import Response
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from .errors import ApiError

__all__ = ["error_reply", "json_reply", "send_error"]


def json_reply(body: BaseModel, status: int = 200) -> Response:
    """Return ``body`` with the fields that were set, ``null`` included, and no others."""
    text = body.model_dump_json(exclude_unset=True)
    return Response(text, status_code=status, media_type="application/json")


def error_reply(error: ApiError) -> Response:
    """Return the envelope of an error."""
    reply = json_reply(error.body, error.status)
    reply.headers.update(error.headers)
    return reply


async def send_error(error: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with an error."""
    await error_reply(error)(scope, receive, send)
