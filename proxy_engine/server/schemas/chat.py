"""``POST /v1/chat/completions``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from ...options.fields import with_options
from ...tools.choice import requires_call
from ..json_bodies import MAX_MESSAGES
from .constraints import Constraints
from .request_model import RequestModel
from .sampling import ANSWER_OPTIONS, CONVERSATION_OPTIONS, TextFields

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much to reason: not at all, or as the model does."""

TopLogprobs: TypeAlias = Annotated[int, Field(ge=-1, le=20)]
"""A number of most likely tokens; -1 is 0."""


class StreamOptions(RequestModel):
    """Options of a stream. ``include_obfuscation`` has no effect."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Message(RequestModel):
    """A message of the conversation. Fields that no model reads are accepted in history."""

    no_effect = frozenset(
        {
            # Clients send back these fields of responses.
            *("annotations", "created_at", "id", "metadata", "parsed"),
            # Other servers need these to continue the last message, or to cache it.
            *("cache_control", "prefix"),
        }
    )

    role: Literal["system", "developer", "user", "assistant", "agent", "tool"]
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = Field(default=None, description="Extension: the reasoning.")
    reasoning: str | None = Field(default=None, description="Synonym of `reasoning_content`.")
    thinking: Any = Field(default=None, description="Synonym of `reasoning_content`.")


@with_options(**CONVERSATION_OPTIONS, **ANSWER_OPTIONS)
class ChatRequest(TextFields, Constraints):
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
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = Field(
        default=None, description="Values above 0 imply `logprobs`; -1 is 0."
    )
    reasoning_effort: Effort | None = None
    include_reasoning: bool | None = Field(
        default=None, description="Extension. `false` leaves the reasoning out of the answer."
    )
    continue_final_message: bool | None = Field(
        default=None,
        description="Extension. Whether a last message of the assistant is continued. Default: "
        "true. `add_generation_prompt` is the opposite.",
    )
    modalities: list[Literal["text"]] | None = None

    @property
    def has_free_text(self) -> bool:
        """Whether the answer is free text, or may be free text in place of a tool call."""
        if requires_call(self.tool_choice):
            return False
        return not self.is_constrained(self.response_format)

    @property
    def most_likely(self) -> int | None:
        """Number of most likely tokens per position to report; ``None``: no log-probabilities."""
        top = max(0, self.top_logprobs or 0)
        return top if self.logprobs or top else None

    def ineffective_fields(self) -> Iterator[str]:
        """Yield fields whose values have no effect although they should."""
        yield from super().ineffective_fields()
        if self.continue_final_message and self.messages[-1].role not in ("assistant", "agent"):
            yield self.given_name("continue_final_message")
