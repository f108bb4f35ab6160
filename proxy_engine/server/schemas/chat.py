"""``POST /v1/chat/completions``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ...option_fields import with_options
from .common import (
    SCHEMA_IN_PROMPT,
    ChoicesUsage,
    ExtendedChoice,
    Extension,
    IgnoredFields,
    ResponseModel,
    SamplingFields,
    StopField,
    StreamOptions,
    TokenLogprob,
)
from .constraints import Constraints
from .request_model import RequestModel


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


class ChatTemplateOptions(RequestModel):
    """vLLM's options of the chat template. Two names of one option are supported."""

    enable_thinking: bool | None = None
    thinking: bool | None = None


@with_options(schema_in_prompt=SCHEMA_IN_PROMPT)
class ChatRequest(SamplingFields, Constraints, IgnoredFields):
    """A conversation to answer: OpenAI's fields, and extensions, which are marked."""

    messages: list[Message] = Field(min_length=1)
    model: str | None = Field(default=None, description="Default: the model in memory.")
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = Field(default=None, ge=1)
    stop: StopField = None
    max_tokens: int | None = Field(
        default=None, ge=1, description="Older name of `max_completion_tokens`."
    )
    max_completion_tokens: int | None = Field(default=None, ge=1)
    response_format: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    chat_template_kwargs: ChatTemplateOptions | None = Field(default=None, description="Extension.")
    modalities: list[Literal["text"]] | None = None
    store: Literal[False] | None = Field(default=None, description="Nothing is stored.")
    verbosity: str | None = Field(default=None, description="Ignored.")
    prediction: dict[str, Any] | None = Field(default=None, description="Ignored.")


class ChatFunction(ResponseModel):
    """The name and arguments of a call. Chunks have the name once, and pieces of the arguments."""

    name: str | None = None
    arguments: str


class ChatToolCall(ResponseModel):
    """A tool call. In chunks, ``index`` identifies the call."""

    index: int | None = None
    id: str | None = None
    type: Literal["function"] | None = None
    function: ChatFunction


class ChatMessage(ResponseModel):
    """An answer."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: str | None = None
    tool_calls: list[ChatToolCall] | None = None


class ChatLogprobs(ResponseModel):
    """Log-probabilities of the content's tokens, before any mask."""

    content: list[TokenLogprob]
    refusal: None


class ChatChoice(ExtendedChoice):
    """One answer."""

    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls"]


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
    tool_calls: list[ChatToolCall] | None = None


class ChatChunkChoice(ExtendedChoice):
    """The new content of one answer."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None = None
    finish_reason: Literal["stop", "length", "tool_calls"] | None


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
