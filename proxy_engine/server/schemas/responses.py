"""``POST /v1/responses``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from .common import (
    Extension,
    IgnoredFields,
    RequestModel,
    ResponseModel,
    SamplingFields,
    StreamOptions,
)
from .constraints import Constraints

__all__ = [
    "FunctionCallItem",
    "InputTokensDetails",
    "MessageItem",
    "OutputItem",
    "OutputText",
    "OutputTokensDetails",
    "ReasoningItem",
    "ReasoningText",
    "ResponseEvent",
    "ResponseObject",
    "ResponsesRequest",
    "ResponsesUsage",
]

Status = Literal["in_progress", "completed", "incomplete", "failed"]


class ReasoningSettings(RequestModel):
    """Whether to think. Summaries are not made: all of it is told."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    summary: str | None = Field(default=None, description="Taken, and not looked at.")
    generate_summary: str | None = Field(default=None, description="Taken, and not looked at.")


class TextSettings(RequestModel):
    """What the answer's text has to be."""

    format: dict[str, Any] | None = None
    verbosity: str | None = Field(default=None, description="Taken, and not looked at.")


class ResponsesRequest(SamplingFields, Constraints, IgnoredFields):
    """Something to answer: a text, or items of a conversation."""

    input: str | list[dict[str, Any]]
    model: str | None = Field(default=None, description="The model in memory unless given.")
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_output_tokens: int | None = Field(default=None, ge=1)
    text: TextSettings | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: int | None = Field(default=None, ge=1)
    reasoning: ReasoningSettings | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    include: list[Literal["message.output_text.logprobs", "reasoning.encrypted_content"]] | None = (
        Field(default=None, description="Nothing is encrypted here.")
    )
    truncation: Literal["disabled"] | None = None
    background: Literal[False] | None = None
    include_tokens: bool | None = Field(
        default=None, description="Extension: an event for every token, and the time at the end."
    )


class OutputText(ResponseModel):
    """The text of a message."""

    type: Literal["output_text"]
    text: str
    annotations: list[Any]
    logprobs: list[dict[str, Any]]


class MessageItem(ResponseModel):
    """What is said."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    status: Status
    content: list[OutputText]


class ReasoningText(ResponseModel):
    """What was thought."""

    type: Literal["reasoning_text"]
    text: str


class ReasoningItem(ResponseModel):
    """What was thought before."""

    id: str
    type: Literal["reasoning"]
    status: Status
    summary: list[Any]
    content: list[ReasoningText]


class FunctionCallItem(ResponseModel):
    """A tool that is called."""

    id: str
    type: Literal["function_call"]
    status: Status
    call_id: str
    name: str
    arguments: str


OutputItem = MessageItem | ReasoningItem | FunctionCallItem


class InputTokensDetails(ResponseModel):
    """What was read already."""

    cached_tokens: int


class OutputTokensDetails(ResponseModel):
    """What was thought."""

    reasoning_tokens: int


class ResponsesUsage(ResponseModel):
    """How many tokens it took."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class ResponseObject(ResponseModel):
    """A response, as far as it came. What was asked for stands in it again."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Status
    error: dict[str, Any] | None
    incomplete_details: dict[str, Any] | None
    instructions: str | None
    max_output_tokens: int | None
    model: str
    output: list[OutputItem]
    parallel_tool_calls: bool
    previous_response_id: str | None
    reasoning: dict[str, Any]
    store: bool
    temperature: float
    text: dict[str, Any]
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_p: float
    truncation: Literal["disabled"]
    usage: ResponsesUsage | None
    user: str | None
    metadata: dict[str, str]
    proxy_engine: Extension | None = None


class ResponseEvent(ResponseModel):
    """An event of a stream; what else it has depends on its type."""

    model_config = ConfigDict(extra="allow")

    type: str
    sequence_number: int
