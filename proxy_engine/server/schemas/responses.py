"""``POST /v1/responses``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from ...options.fields import with_options
from ..json_bodies import MAX_MESSAGES
from .common import (
    Extension,
    IgnoredFields,
    PromptDetails,
    QuotationInfo,
    ResponseModel,
    StreamOptions,
)
from .constraints import Constraints
from .items import unknown_item_keys
from .request_model import RequestModel
from .sampling import (
    CHAT_TEMPLATE_KWARGS,
    SCHEMA_IN_PROMPT,
    SOURCES,
    TOOL_OPTIONS,
    SamplingFields,
)

Status = Literal["in_progress", "completed", "incomplete", "failed"]


class ReasoningSettings(RequestModel):
    """Whether to reason. There are no summaries: the reasoning is sent in full."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    summary: str | None = Field(default=None, description="Ignored.")
    generate_summary: str | None = Field(default=None, description="Ignored.")


class TextSettings(RequestModel):
    """The format of the answer's text."""

    format: dict[str, Any] | None = None
    verbosity: str | None = Field(default=None, description="Ignored.")


class ConversationReference(RequestModel):
    """The conversation of a response."""

    id: str


@with_options(
    schema_in_prompt=SCHEMA_IN_PROMPT,
    chat_template_kwargs=CHAT_TEMPLATE_KWARGS,
    sources=SOURCES,
    **TOOL_OPTIONS,
)
class ResponsesRequest(SamplingFields, Constraints, IgnoredFields):
    """A text to answer, or the items of a conversation."""

    input: str | Annotated[list[dict[str, Any]], Field(max_length=MAX_MESSAGES)] | None = Field(
        default=None, description="Default: nothing is added to what is continued."
    )
    model: str | None = Field(default=None, description="Default: the model in memory.")
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | ConversationReference | None = Field(
        default=None, description="A conversation, by its id, that is continued."
    )
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
    include: list[str] | None = Field(
        default=None,
        description="`message.output_text.logprobs`. There is no encrypted content, and no output "
        "of OpenAI's own tools.",
    )
    truncation: Literal["auto", "disabled"] | None = Field(
        default=None, description="A prompt is never truncated."
    )
    background: Literal[False] | None = None
    prompt: Any = Field(default=None, description="Not supported: there are no stored prompts.")

    def unsupported_fields(self) -> Iterator[str]:
        """Yield the names of known fields whose values ask for something that is missing here."""
        yield from super().unsupported_fields()
        if self.prompt is not None:
            yield "prompt"

    def unknown_fields(self) -> Iterator[tuple[str, Any]]:
        """Yield the path and the value of each unknown field, also of items."""
        yield from super().unknown_fields()
        for path, value in unknown_item_keys(self.input):
            yield f"input{path}", value


class OutputText(ResponseModel):
    """The text of a message."""

    type: Literal["output_text"]
    text: str
    annotations: list[Any]
    logprobs: list[dict[str, Any]]


class MessageItem(ResponseModel):
    """A message of the assistant."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    status: Status
    content: list[OutputText]


class ReasoningText(ResponseModel):
    """The text of a reasoning item."""

    type: Literal["reasoning_text"]
    text: str


class ReasoningItem(ResponseModel):
    """The reasoning before a message or a call."""

    id: str
    type: Literal["reasoning"]
    status: Status
    summary: list[Any]
    content: list[ReasoningText]


class FunctionCallItem(ResponseModel):
    """A tool call."""

    id: str
    type: Literal["function_call"]
    status: Status
    call_id: str
    name: str
    arguments: str


class CustomToolCallItem(ResponseModel):
    """A call of a custom tool."""

    id: str
    type: Literal["custom_tool_call"]
    status: Status
    call_id: str
    name: str
    input: str


OutputItem = MessageItem | ReasoningItem | FunctionCallItem | CustomToolCallItem


class OutputTokensDetails(ResponseModel):
    """``reasoning_tokens``: tokens of the reasoning."""

    reasoning_tokens: int


class ResponsesUsage(ResponseModel):
    """Token counts."""

    input_tokens: int
    input_tokens_details: PromptDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class ResponseExtension(Extension):
    """What is added to a response, as :class:`ChoiceExtension` is to an answer."""

    confidence: dict[str, float] | None = None
    quotes: list[QuotationInfo] | None = None


class ResponseObject(ResponseModel):
    """A response so far. It repeats parameters of the request."""

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
    conversation: ConversationReference | None = None
    reasoning: dict[str, Any]
    store: bool
    temperature: float
    text: dict[str, Any]
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_p: float
    top_k: int | None = None
    min_p: float | None = None
    truncation: Literal["disabled"]
    usage: ResponsesUsage | None
    user: str | None
    metadata: Any
    proxy_engine: ResponseExtension | None = None


class ResponseEvent(ResponseModel):
    """An event of a stream. Its type determines the further fields."""

    model_config = ConfigDict(extra="allow")

    type: str
    sequence_number: int
