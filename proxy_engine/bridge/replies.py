"""What the bridge says: one pydantic model a reply, told apart by the field that only it has.

Every reply has all of its fields. The ``id`` is the command's, or ``None``.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, TypeAlias

import pydantic

from ..events import (
    PartialValue,
    PromptProgress,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from ..results import FinishReason
from .commands import RequestId

__all__ = [
    "PROTOCOL",
    "REPLIES",
    "CancelledReply",
    "DoneReply",
    "ErrorFacts",
    "ErrorReply",
    "EventReply",
    "InfoReply",
    "LoadedReply",
    "ModelFacts",
    "QuitReply",
    "Reply",
    "Result",
    "TokenLogprobsFacts",
    "TokenReply",
]

PROTOCOL = 1
"""Raised when a message changes so that a client written for an earlier one would not do."""


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


_LogProbability: TypeAlias = Annotated[float | None, pydantic.BeforeValidator(_finite)]


class _Message(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(
        extra="forbid",
        frozen=True,
        from_attributes=True,
        use_attribute_docstrings=True,
        protected_namespaces=(),
        json_schema_serialization_defaults_required=True,
    )


class _Reply(_Message):
    id: RequestId
    """That of the command it answers; `null` where it had none, or none that could be read."""


class _OkReply(_Reply):
    ok: Literal[True] = True


class ModelFacts(_Message):
    """A model that is ready."""

    model: str
    """Its path, hub id, or the embedded model's name."""
    model_type: str
    """Its architecture, as its configuration names it."""
    vocab_size: int
    """Token ids are less than this."""
    context_length: int | None
    """Tokens of prompt and answer together; `null` where the model sets no limit."""


class LoadedReply(ModelFacts, _OkReply):
    """The model that was asked for is ready."""


class InfoReply(_OkReply):
    """How things stand."""

    protocol: int = PROTOCOL
    """The version of this protocol."""
    is_loading: bool
    """Whether a model is being loaded, or waits for that."""
    model: ModelFacts | None
    """The model that is loaded."""
    running: list[RequestId]
    """The requests that run or wait, the oldest first."""


class CancelledReply(_OkReply):
    """The requests will end at their next token; each still gets its own last reply."""

    cancelled: list[RequestId]
    """Those that were meant and not ended yet; it is no error if there are none."""


class QuitReply(_OkReply):
    """The bridge ends; nothing comes after it."""


class LogprobFacts(_Message):
    """A token, and the natural logarithms of its probability; `null` is minus infinity."""

    token_id: int
    before_mask: _LogProbability
    """As the model has it."""
    after_mask: _LogProbability
    """The same among the tokens that were allowed."""


class TokenLogprobsFacts(_Message):
    """A token that was chosen, and those that were likeliest in its place."""

    chosen: LogprobFacts
    top_before_mask: tuple[LogprobFacts, ...]
    """The model's own, the likeliest first."""
    top_after_mask: tuple[LogprobFacts, ...]
    """The allowed ones, the likeliest first."""


class TokenReply(_Reply):
    """A token more."""

    token: str
    """What it spells, for display: parts of characters are replacement characters."""
    token_id: int
    part: str
    """The sub-state that it most likely belongs to: `text`, `reasoning`, `structured`, …"""
    is_forced: bool
    """It was the only way to go on, and was not sampled."""
    logprobs: TokenLogprobsFacts | None
    """Where they were asked for."""


class EventReply(_Reply):
    """Another event of the stream, where it was asked for."""

    event: Annotated[
        PromptProgress
        | TextDelta
        | ReasoningDelta
        | ToolCallStarted
        | ToolCallDelta
        | ToolCallFinished
        | PartialValue,
        pydantic.Field(discriminator="type"),
    ]


class CallFacts(_Message):
    """A tool call; its arguments match the tool's schema."""

    id: str
    name: str
    arguments: dict[str, Any]
    raw: str
    """What the model wrote."""


class PartFacts(_Message):
    """A stretch of the output."""

    name: str
    """The sub-state that wrote it."""
    text: str
    is_marker: bool
    """Text that delimits, and no content."""


class UsageFacts(_Message):
    """Token counts, and seconds."""

    prompt_tokens: int
    completion_tokens: int
    """End tokens too."""
    prompt_seconds: float
    """Until the first sampled token."""
    completion_seconds: float
    """After it."""
    cached_tokens: int
    """Those of the prompt that an earlier request had read already."""
    fast_forwarded_tokens: int
    """Those that were the only way to go on, and were not sampled."""
    mask_seconds: float
    sample_seconds: float
    forward_seconds: float
    queue_seconds: float
    """How long the request had waited before."""


class SpanFacts(_Message):
    """A stretch of time of the loop, in seconds since the request was begun."""

    name: str
    step: int
    started: float
    ended: float


class Result(_Message):
    """A finished output."""

    text: str
    """What was answered, without reasoning, tool calls and markers."""
    parsed: Any
    """The JSON value, for a response format; otherwise `null`."""
    finish_reason: FinishReason
    """`length` cuts off free text and reasoning only; `cancelled` is what there was by then."""
    usage: UsageFacts
    token_ids: tuple[int, ...]
    """As generated, end tokens included."""
    model: str
    reasoning: str
    tool_calls: tuple[CallFacts, ...]
    parts: tuple[PartFacts, ...]
    """The whole output, in order: who wrote what."""
    logprobs: tuple[TokenLogprobsFacts, ...] | None
    """One for each token, where they were asked for."""
    trace: tuple[SpanFacts, ...]
    """What the loop did when, where it was asked for."""


class DoneReply(_Reply):
    """The last reply to a request that ended well."""

    done: Literal[True] = True
    tokens_generated: int
    result: Result


class ErrorFacts(_Message):
    """What went wrong."""

    type: str
    """The name of the exception, such as `UnsupportedSchemaError`."""
    message: str
    """A sentence."""
    what: str
    """The sentence without place and hint."""
    hint: str
    """What to do about it; may be empty."""
    facts: dict[str, Any]
    """What else is known, by name: `pointer`, `keyword`, `option`, `needed`, `field`, …"""


class ErrorReply(_Reply):
    """The last reply to a request that failed, or to a line that was no command."""

    error: ErrorFacts


REPLIES = (
    LoadedReply,
    InfoReply,
    CancelledReply,
    QuitReply,
    TokenReply,
    EventReply,
    DoneReply,
    ErrorReply,
)
"""Every kind of reply."""

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
