"""What a stream tells while a request runs: one pydantic model an event, told apart by ``type``.

Nothing that was told is taken back: the texts of one kind, joined, are the result's, and control
markers are in none of them. ``EVENT_ADAPTER`` reads and writes events as JSON, for a server::

    event.model_dump_json()
    EVENT_ADAPTER.validate_json(line)
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

import pydantic

from .results import TokenLogprobs

__all__ = [
    "EVENT_ADAPTER",
    "Event",
    "Finished",
    "PartialValue",
    "PromptProgress",
    "ReasoningDelta",
    "StreamEvent",
    "TextDelta",
    "TokenGenerated",
    "ToolCallDelta",
    "ToolCallFinished",
    "ToolCallStarted",
]

R = TypeVar("R")


class Event(pydantic.BaseModel):
    """What all events share: ``part`` names the sub-state that wrote it, or is empty."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    part: str = ""


class PromptProgress(Event):
    """So many of the prompt's tokens have been read."""

    type: Literal["prompt_progress"] = "prompt_progress"
    processed: int
    total: int


class TokenGenerated(Event):
    """A token more; what it adds to the answer is told by the events after it.

    ``part`` is the sub-state that it most likely belongs to. ``text`` is what it spells, for
    display: special tokens by their names, parts of characters as replacement characters.
    ``is_forced``: it was the only way to go on, and was not sampled. ``logprobs`` where they were
    asked for.
    """

    type: Literal["token"] = "token"
    token_id: int
    text: str
    is_forced: bool = False
    logprobs: TokenLogprobs | None = None


class TextDelta(Event):
    """More of the answer's text: of free text, and of structured output as it is written."""

    type: Literal["text_delta"] = "text_delta"
    text: str


class ReasoningDelta(Event):
    """More of what the model thinks before it answers."""

    type: Literal["reasoning_delta"] = "reasoning_delta"
    text: str


class ToolCallStarted(Event):
    """A tool call whose name is known. ``index`` counts the calls of one answer from 0."""

    type: Literal["tool_call_started"] = "tool_call_started"
    index: int
    id: str
    name: str


class ToolCallDelta(Event):
    """More of a call's arguments, as JSON text, whatever notation the model writes.

    The deltas of one call, joined, are JSON of the ``arguments`` that ``ToolCallFinished`` has.
    """

    type: Literal["tool_call_delta"] = "tool_call_delta"
    index: int
    id: str
    arguments: str


class ToolCallFinished(Event):
    """A tool call that is whole; ``arguments`` match the tool's schema."""

    type: Literal["tool_call_finished"] = "tool_call_finished"
    index: int
    id: str
    name: str
    arguments: dict[str, Any]


class PartialValue(Event):
    """The structured value as far as it is written (see ``partial_json``), for live display."""

    type: Literal["partial_value"] = "partial_value"
    value: Any


class Finished(Event, Generic[R]):
    """The last event of every stream that ends well."""

    type: Literal["finished"] = "finished"
    result: R


StreamEvent: TypeAlias = (
    PromptProgress
    | TokenGenerated
    | TextDelta
    | ReasoningDelta
    | ToolCallStarted
    | ToolCallDelta
    | ToolCallFinished
    | PartialValue
    | Finished[R]
)
"""Any event. Generic in the type of the result, to type checkers alone."""

_BY_TYPE: Any = Annotated[StreamEvent, pydantic.Field(discriminator="type")]
EVENT_ADAPTER: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(_BY_TYPE)
"""Reads an event of any kind, by its ``type``."""
