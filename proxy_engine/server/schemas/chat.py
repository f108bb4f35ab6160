"""``POST /v1/chat/completions``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .common import (
    ChoicesUsage,
    Extension,
    IgnoredFields,
    RequestModel,
    ResponseModel,
    SamplingFields,
    StopField,
    StreamOptions,
    TokenLogprob,
)
from .constraints import Constraints

__all__ = [
    "ChatChoice",
    "ChatChunk",
    "ChatChunkChoice",
    "ChatCompletion",
    "ChatDelta",
    "ChatFunction",
    "ChatLogprobs",
    "ChatMessage",
    "ChatRequest",
    "ChatToolCall",
]


class Message(RequestModel):
    """A message of the conversation. ``content`` is text, or a list of parts."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    annotations: list[Any] | None = Field(default=None, max_length=0)
    audio: None = None
    function_call: None = None
    parsed: Any = Field(default=None, description="What a client has made of `content`.")

    def to_engine(self) -> dict[str, Any]:
        """Return the message as the engine takes it."""
        kept = {"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content"}
        message = self.model_dump(exclude_none=True, include=kept)
        if self.role == "developer":
            message["role"] = "system"
        if self.reasoning and not self.reasoning_content:
            message["reasoning_content"] = self.reasoning
        if self.refusal and not self.content:
            message["content"] = self.refusal
        return message


class ChatTemplateOptions(RequestModel):
    """vLLM's name for what is said to the chat template; of that, whether to reason."""

    enable_thinking: bool | None = None
    thinking: bool | None = None


class ChatRequest(SamplingFields, Constraints, IgnoredFields):
    """A conversation to be answered. OpenAI's fields; what is an extension says so."""

    messages: list[Message] = Field(min_length=1)
    model: str | None = Field(default=None, description="The model in memory unless given.")
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = Field(default=None, ge=1)
    stop: StopField = None
    max_tokens: int | None = Field(
        default=None, ge=1, description="The older `max_completion_tokens`."
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
    include_tokens: bool | None = Field(
        default=None,
        description="Extension: tell of every token in chunks, and of the time at the end.",
    )
    modalities: list[Literal["text"]] | None = None
    store: Literal[False] | None = Field(default=None, description="Nothing is kept of chats.")
    verbosity: str | None = Field(default=None, description="Taken, and not looked at.")
    prediction: dict[str, Any] | None = Field(default=None, description="Taken, and not looked at.")


class ChatFunction(ResponseModel):
    """A call's tool and arguments, as JSON text; in chunks the name comes once, arguments grow."""

    name: str | None = None
    arguments: str


class ChatToolCall(ResponseModel):
    """A call. Chunks tell by ``index`` of which call they have more."""

    index: int | None = None
    id: str | None = None
    type: Literal["function"] | None = None
    function: ChatFunction


class ChatMessage(ResponseModel):
    """The answer."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: str | None = None
    tool_calls: list[ChatToolCall] | None = None


class ChatLogprobs(ResponseModel):
    """Probabilities of the content's tokens, as the model had them before any mask."""

    content: list[TokenLogprob]
    refusal: None


class ChatChoice(ResponseModel):
    """One of the answers."""

    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls"]


class ChatCompletion(ResponseModel):
    """The response."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChoicesUsage
    system_fingerprint: None
    proxy_engine: Extension | None = None


class ChatDelta(ResponseModel):
    """What is new."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ChatToolCall] | None = None


class ChatChunkChoice(ResponseModel):
    """What is new of one of the answers."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None = None
    finish_reason: Literal["stop", "length", "tool_calls"] | None


class ChatChunk(ResponseModel):
    """A piece of a streamed response."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: ChoicesUsage | None = None
    system_fingerprint: None
    proxy_engine: Extension | None = None
