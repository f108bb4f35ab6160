"""Events of a stream: one pydantic model each, discriminated by ``type``.

Events are final: the concatenated texts of one kind are the text of the result, without markers.
With ``max_retries``, those are the texts since the last ``AnswerRejected``.
``EVENT_ADAPTER`` converts events to JSON and back::

    event.model_dump_json()
    EVENT_ADAPTER.validate_json(line)
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

import pydantic

from .parts import TokenLogprobs

R = TypeVar("R")


class Event(pydantic.BaseModel):
    """Base of all events.

    Attributes:
        part: Name of the part of the answer; empty for events of no part.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    part: str = ""


class PromptProgress(Event):
    """The number of processed prompt tokens. The first event counts cached tokens."""

    type: Literal["prompt_progress"] = "prompt_progress"
    processed: int
    total: int


class TokenGenerated(Event):
    """A generated token. Events with the text that it completes follow.

    Attributes:
        part: Name of the part that the token most likely belongs to.
        token_id: The token.
        text: Its text for display: special tokens by name, incomplete characters as ``�``.
        is_forced: Whether the grammar forced the token, so that it was not sampled.
        logprobs: Its log-probabilities, if requested.
        logprob_vectors: ``LogprobVectors`` at its position, if requested. Not part of the event as
            JSON.
    """

    type: Literal["token"] = "token"
    token_id: int
    text: str
    is_forced: bool = False
    logprobs: TokenLogprobs | None = None
    # `Any`, since arrays have no JSON schema.
    logprob_vectors: Any = pydantic.Field(default=None, exclude=True, repr=False)


class TextDelta(Event):
    """More free text or structured output."""

    type: Literal["text_delta"] = "text_delta"
    text: str


class ReasoningDelta(Event):
    """More reasoning."""

    type: Literal["reasoning_delta"] = "reasoning_delta"
    text: str


class ToolCallStarted(Event):
    """The name of a tool call. ``index`` counts the calls of an answer from 0.

    ``is_custom`` says whether the tool is a custom tool.
    """

    type: Literal["tool_call_started"] = "tool_call_started"
    index: int
    id: str
    name: str
    is_custom: bool = False


class ToolCallDelta(Event):
    """More of the JSON text of a call's arguments, whatever the model's notation.

    The concatenated deltas of a call are the JSON of its ``arguments``. Calls of custom tools have
    ``ToolInputDelta`` instead.
    """

    type: Literal["tool_call_delta"] = "tool_call_delta"
    index: int
    id: str
    arguments: str


class ToolInputDelta(Event):
    """More of the input of a custom tool, decoded. The concatenated deltas are the input."""

    type: Literal["tool_input_delta"] = "tool_input_delta"
    index: int
    id: str
    input: str


class ToolCallFinished(Event):
    """A complete tool call; ``arguments`` match the tool's schema.

    The arguments of a custom tool are ``{"input": …}``.
    """

    type: Literal["tool_call_finished"] = "tool_call_finished"
    index: int
    id: str
    name: str
    arguments: dict[str, Any]
    is_custom: bool = False


class PartialValue(Event):
    """The structured value so far, for display; see ``PartialJson``."""

    type: Literal["partial_value"] = "partial_value"
    value: Any


class AnswerRejected(Event):
    """A validator rejects the answer so far, and another attempt follows (``max_retries``).

    The texts and calls of earlier events are not part of the result.
    """

    type: Literal["answer_rejected"] = "answer_rejected"
    text: str
    reason: str


class Finished(Event, Generic[R]):
    """The last event of a stream, unless the request fails."""

    type: Literal["finished"] = "finished"
    result: R


StreamEvent: TypeAlias = (
    PromptProgress
    | TokenGenerated
    | TextDelta
    | ReasoningDelta
    | ToolCallStarted
    | ToolCallDelta
    | ToolInputDelta
    | ToolCallFinished
    | PartialValue
    | AnswerRejected
    | Finished[R]
)
"""Any event. Only type checkers use the type parameter, the result."""

_BY_TYPE: Any = Annotated[StreamEvent, pydantic.Field(discriminator="type")]
EVENT_ADAPTER: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(_BY_TYPE)
"""Validates events of any type."""
