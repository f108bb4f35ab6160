"""The replies of the bridge: one pydantic model each, and their encoding as lines.

Each kind of reply has a field that no other has. Every reply contains all of its fields. The ``id``
is that of the command, or ``None``.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import traceback
from typing import Annotated, Any, Literal, TypeAlias, get_args

import pydantic

from state_machines.errors import ProxyError

from ..results.events import (
    Finished,
    PartialValue,
    PromptProgress,
    ReasoningDelta,
    TextDelta,
    TokenGenerated,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolInputDelta,
)
from ..results.generation import GenerationResult
from ..results.parts import Logprob, Particle, TokenLogprobs
from .commands import RequestId

PROTOCOL = 1
"""The version of the protocol; incremented by changes that break existing clients."""


class _Message(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        protected_namespaces=(),
        json_schema_serialization_defaults_required=True,
    )


class _Reply(_Message):
    id: RequestId
    """The `id` of the command; `null` if it has none, or is not valid JSON."""


class _OkReply(_Reply):
    ok: Literal[True] = True


class ModelFacts(_Message):
    """A loaded model."""

    model: str
    """Its path, its Hugging Face repo id, or the embedded model's name."""
    model_type: str
    """The architecture that its configuration names."""
    vocab_size: int
    """The size of the vocabulary; token ids are smaller."""
    context_length: int | None
    """The maximum number of tokens of prompt and answer; `null` if the model sets no limit."""
    layers: int | None
    """The number of layers; `null` if unknown."""
    hidden_size: int | None
    """The width of the hidden states; `null` if unknown."""
    draft_model: str | None
    """The draft model's path or Hugging Face repo id; `null` without one."""


class LoadedReply(ModelFacts, _OkReply):
    """The model is loaded."""


class InfoReply(_OkReply):
    """The state of the bridge."""

    protocol: int = PROTOCOL
    """The version of the protocol."""
    is_loading: bool
    """Whether a model is being loaded, or will be."""
    model: ModelFacts | None
    """The loaded model."""
    running: list[RequestId]
    """The requests that run or wait, the oldest first."""


class CancelledReply(_OkReply):
    """The requests end at their next token; each still gets its last reply."""

    cancelled: list[RequestId]
    """The cancelled requests. Requests that have ended already are left out, without an error."""


class QuitReply(_OkReply):
    """The bridge ends; this is the last line."""


class TokenReply(_Reply):
    """A generated token."""

    token: str
    """Its text; empty for the model's end tokens, and where a later token completes a character.
    Joined, the texts of an answer are those of its result's `parts`, and of a stop token."""
    token_id: int
    part: str
    """The part of the answer it most likely belongs to: `text`, `reasoning`, `structured`, …"""
    is_forced: bool
    """Whether the grammar allowed no other token, so that it was not sampled."""
    logprobs: TokenLogprobs | None
    """Its log-probabilities, if they were requested."""


class EventReply(_Reply):
    """An event of the stream that was requested."""

    event: Annotated[
        PromptProgress
        | TextDelta
        | ReasoningDelta
        | ToolCallStarted
        | ToolCallDelta
        | ToolInputDelta
        | ToolCallFinished
        | PartialValue,
        pydantic.Field(discriminator="type"),
    ]


class DoneReply(_Reply):
    """The last reply to a request that succeeded."""

    done: Literal[True] = True
    tokens_generated: int
    result: GenerationResult[Any]


class ErrorFacts(_Message):
    """An error."""

    type: str
    """The name of the exception, such as `UnsupportedSchemaError`."""
    message: str
    """The problem, its location and the hint in one text."""
    what: str
    """The problem."""
    hint: str
    """How to solve it; may be empty."""
    facts: dict[str, Any]
    """The exception's attributes: `pointer`, `keyword`, `option`, `needed`, `field`, …"""


class ErrorReply(_Reply):
    """The last reply to a request that failed, or to an invalid line."""

    error: ErrorFacts


Reply: TypeAlias = (
    LoadedReply
    | InfoReply
    | CancelledReply
    | QuitReply
    | TokenReply
    | EventReply
    | DoneReply
    | ErrorReply
)
"""Any reply."""

INFINITE_FIELDS: dict[type[Any], tuple[str, ...]] = {
    Logprob: ("before_mask", "after_mask"),
    Particle: ("log_weight",),
    GenerationResult: ("log_evidence",),
}
"""Fields that are written as ``null`` if they are infinite."""

REPLIES: tuple[type[Reply], ...] = get_args(Reply)
"""The models of replies."""


def event_reply(id: RequestId, event: Any) -> Reply:
    """Return the reply for an event of a stream."""
    match event:
        case Finished(result=result):
            return DoneReply(id=id, tokens_generated=len(result.token_ids), result=result)
        case TokenGenerated():
            return TokenReply(
                id=id,
                token=event.text,
                token_id=event.token_id,
                part=event.part,
                is_forced=event.is_forced,
                logprobs=event.logprobs,
            )
    return EventReply(id=id, event=event)


def error_reply(id: RequestId, error: Exception) -> ErrorReply:
    """Return the reply for an error. The traceback of a defect is written to standard error."""
    if isinstance(error, ProxyError):
        facts = {name: _json_value(value) for name, value in vars(error).items()}
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
    """Encode a reply as one line of ASCII, which no encoding in between can damage.

    Raises:
        ValueError: A value cannot be written as JSON.
        RecursionError: A value is nested too deeply.
    """
    text = json.dumps(reply, default=_members, allow_nan=False, separators=(",", ":"))
    return f"{text}\n".encode("ascii")


def _members(value: Any) -> dict[str, Any]:
    """The fields of a model or dataclass. Their values are left alone: JSON of any depth."""
    if isinstance(value, pydantic.BaseModel):
        return dict(value)
    # Comparisons leave out the fields that are not JSON, such as `ToolCall.parsed`.
    known = (field.name for field in dataclasses.fields(value) if field.compare)
    members = {name: getattr(value, name) for name in known}
    # JSON has no infinity.
    for name in INFINITE_FIELDS.get(type(value), ()):
        if members[name] is not None and not math.isfinite(members[name]):
            members[name] = None
    return members


def _json_value(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return repr(value)
