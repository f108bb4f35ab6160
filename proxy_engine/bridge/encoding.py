"""The engine's events, results and errors as replies, and replies as lines."""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

from state_machines.errors import ProxyError

from ..events import Finished, TokenGenerated
from .commands import RequestId
from .replies import (
    DoneReply,
    ErrorFacts,
    ErrorReply,
    EventReply,
    Reply,
    Result,
    TokenLogprobsFacts,
    TokenReply,
)

__all__ = ["error_reply", "event_reply", "to_line"]


def event_reply(id: RequestId, event: Any) -> Reply:
    """The reply that tells a client of ``event``, one of a stream's."""
    match event:
        case Finished(result=result):
            return DoneReply(
                id=id,
                tokens_generated=len(result.token_ids),
                result=Result.model_validate(result),
            )
        case TokenGenerated(logprobs=logprobs):
            return TokenReply(
                id=id,
                token=event.text,
                token_id=event.token_id,
                part=event.part,
                is_forced=event.is_forced,
                logprobs=(
                    None if logprobs is None else TokenLogprobsFacts.model_validate(logprobs)
                ),
            )
    return EventReply(id=id, event=event)


def error_reply(id: RequestId, error: Exception) -> ErrorReply:
    """The reply that tells a client of ``error``; what nobody raised on purpose is also logged."""
    if isinstance(error, ProxyError):
        facts = {name: _json(value) for name, value in vars(error).items()}
        what, hint = facts.pop("what"), facts.pop("hint")
        kind, message = type(error).__name__, str(error)
    else:
        traceback.print_exception(error, file=sys.stderr)
        facts = {"exception": type(error).__name__}
        what, hint = str(error), ""
        kind, message = "InternalError", f"{type(error).__name__}: {error}"
    return ErrorReply(
        id=id, error=ErrorFacts(type=kind, message=message, what=what, hint=hint, facts=facts)
    )


def to_line(reply: Reply) -> bytes:
    """One line of JSON in ASCII, which no encoding on the way can harm.

    Raises ``ValueError`` or ``RecursionError`` where a value is not for JSON.
    """
    # `dict` takes a message for its fields, and leaves their values as they are.
    text = json.dumps(reply, default=dict, allow_nan=False, separators=(",", ":"))
    return f"{text}\n".encode("ascii")


def _json(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return repr(value)
