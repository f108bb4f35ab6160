"""``POST /v1/chat/completions``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from ...options.fields import with_options
from ...tools.choice import requires_call
from ..json_bodies import MAX_MESSAGES
from .common import (
    ChoicesUsage,
    ExtendedChoice,
    Extension,
    IgnoredFields,
    ResponseModel,
    StreamOptions,
    TokenLogprob,
)
from .constraints import Constraints
from .request_model import RequestModel
from .sampling import (
    ANSWER_OPTIONS,
    CHAT_TEMPLATE_KWARGS,
    SCHEMA_IN_PROMPT,
    SOURCES,
    TOOL_OPTIONS,
    TextFields,
)

ChatFinishReason = Literal["stop", "length", "tool_calls", "function_call"]


class Message(RequestModel):
    """A message of the conversation. Fields that no model reads are accepted in history."""

    role: Literal["system", "developer", "user", "assistant", "agent", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    function_call: dict[str, Any] | None = Field(
        default=None, description="Older form of `tool_calls`."
    )
    refusal: str | None = None
    reasoning_content: str | None = Field(default=None, description="Extension: the reasoning.")
    reasoning: str | None = Field(default=None, description="Synonym of `reasoning_content`.")
    thinking: Any = Field(default=None, description="Synonym of `reasoning_content`.")
    # Clients send back these fields of responses.
    annotations: Any = Field(default=None, description="Ignored.")
    created_at: Any = Field(default=None, description="Ignored.")
    id: Any = Field(default=None, description="Ignored.")
    metadata: Any = Field(default=None, description="Ignored.")
    parsed: Any = Field(default=None, description="Ignored.")
    # Other servers need these to continue the last message, or to cache it.
    cache_control: Any = Field(default=None, description="Ignored.")
    prefix: bool | None = Field(default=None, description="Ignored.")


@with_options(
    schema_in_prompt=SCHEMA_IN_PROMPT,
    chat_template_kwargs=CHAT_TEMPLATE_KWARGS,
    sources=SOURCES,
    **ANSWER_OPTIONS,
    **TOOL_OPTIONS,
)
class ChatRequest(TextFields, Constraints, IgnoredFields):
    """A conversation to answer: OpenAI's fields, and extensions, which are marked."""

    messages: list[Message] = Field(min_length=1, max_length=MAX_MESSAGES)
    model: str | None = Field(default=None, description="Default: the model in memory.")
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = Field(default=None, ge=1)
    response_format: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    functions: list[dict[str, Any]] | None = Field(default=None, description="Older `tools`.")
    function_call: str | dict[str, Any] | None = Field(
        default=None, description="Older `tool_choice`. The answer then has a `function_call`."
    )
    logprobs: bool | None = None
    top_logprobs: int | None = Field(
        default=None, ge=-1, le=20, description="Values above 0 imply `logprobs`; -1 is 0."
    )
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    include_reasoning: bool | None = Field(
        default=None, description="Extension. `false` leaves the reasoning out of the answer."
    )
    continue_final_message: bool | None = Field(
        default=None,
        description="Extension. Whether a last message of the assistant is continued. Default: "
        "true, unless `add_generation_prompt` is.",
    )
    add_generation_prompt: bool | None = Field(
        default=None, description="Extension: the opposite of `continue_final_message`."
    )
    modalities: list[Literal["text"]] | None = None
    store: bool | None = Field(default=None, description="Ignored.")
    verbosity: str | None = Field(default=None, description="Ignored.")
    prediction: dict[str, Any] | None = Field(default=None, description="Ignored.")

    @property
    def has_free_text(self) -> bool:
        """Whether the answer is free text, or may be free text in place of a tool call."""
        if requires_call(self.tool_choice or self.function_call):
            return False
        return not self.is_constrained(self.response_format)

    @property
    def most_likely(self) -> int | None:
        """Number of most likely tokens per position to report; ``None``: no log-probabilities."""
        top = max(0, self.top_logprobs or 0)
        return top if self.logprobs or top else None

    @property
    def wants_function_call(self) -> bool:
        """Whether the request has the older fields, so that the answer has ``function_call``."""
        return bool(self.functions)

    def ineffective_fields(self) -> Iterator[str]:
        """Yield fields whose values have no effect although they should."""
        yield from super().ineffective_fields()
        ends_with_user = self.messages[-1].role not in ("assistant", "agent")
        if ends_with_user and self.continue_final_message:
            yield "continue_final_message"
        if ends_with_user and self.add_generation_prompt is False:
            yield "add_generation_prompt"


class ChatFunction(ResponseModel):
    """The name and arguments of a call. Chunks have the name once, and pieces of the arguments."""

    name: str | None = None
    arguments: str


class ChatCustomTool(ResponseModel):
    """The name and input of a custom tool. Chunks have the name once, and pieces of the input."""

    name: str | None = None
    input: str


class ChatToolCall(ResponseModel):
    """A tool call. In chunks, ``index`` identifies the call."""

    index: int | None = None
    id: str | None = None
    type: Literal["function", "custom"] | None = None
    function: ChatFunction | None = None
    custom: ChatCustomTool | None = None


class ChatMessage(ResponseModel):
    """An answer. ``reasoning`` repeats ``reasoning_content``: clients read one or the other."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ChatToolCall] | None = None
    function_call: ChatFunction | None = None


class ChatLogprobs(ResponseModel):
    """Log-probabilities of the content's tokens, before any mask."""

    content: list[TokenLogprob]
    refusal: None


class ChatChoice(ExtendedChoice):
    """One answer."""

    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: ChatFinishReason


class ChatCompletion(ResponseModel):
    """A response."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChoicesUsage
    system_fingerprint: None
    proxy_engine: Extension | None = None


class ChatDelta(ResponseModel):
    """The new content of a chunk."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ChatToolCall] | None = None
    function_call: ChatFunction | None = None


class ChatChunkChoice(ExtendedChoice):
    """The new content of one answer."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None = None
    finish_reason: ChatFinishReason | None


class ChatChunk(ResponseModel):
    """A chunk of a streamed response."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: ChoicesUsage | None = None
    system_fingerprint: None
    proxy_engine: Extension | None = None
