"""``POST /v1/chat/completions`` and ``POST /v1/completions``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from ...options.fields import with_options
from ...options.overrides import OptionOverrides
from ...tools.choice import requires_call
from .request_model import MAX_MESSAGES, RequestModel
from .sampling import ANSWER_OPTIONS, CONVERSATION_OPTIONS, Effort, StreamOptions, TextFields

TopLogprobs: TypeAlias = Annotated[int, Field(ge=-1, le=20)]
"""A number of most likely tokens; -1 is 0."""

Tokens = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)]


class ChoicesRequest(TextFields):
    """What both requests have."""

    stream_options: StreamOptions | None = None
    n: int | None = Field(default=None, ge=1, description="Answers to each prompt.")
    response_format: dict[str, Any] | None = None
    logprobs: bool | Annotated[int, Field(ge=0, le=20)] | None = None
    top_logprobs: TopLogprobs | None = Field(
        default=None, description="Values above 0 imply `logprobs`; -1 is 0."
    )

    @property
    def text_format(self) -> dict[str, Any] | None:
        """The response format."""
        return self.response_format

    @property
    def format_name(self) -> str:
        """The name under which the request has it."""
        return self.given_name("response_format")

    @property
    def most_likely(self) -> int | None:
        """Number of most likely tokens per position to report; ``None``: no log-probabilities."""
        if type(self.logprobs) is int:
            return self.logprobs
        top = max(0, self.top_logprobs or 0)
        return top if self.logprobs or top else None

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with a chunk of usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    def options(self, choice: int = 0) -> OptionOverrides:
        """Return the request's options for the choice of that number, whose seed is its own."""
        options = super().options(choice)
        # The engine has one number for both fields.
        options.pop("logprobs", None)
        if self.most_likely is not None:
            options["logprobs"] = self.most_likely
        return options


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
class ChatRequest(ChoicesRequest):
    """A conversation to answer: OpenAI's fields, and extensions, which are marked."""

    messages: list[Message] = Field(min_length=1, max_length=MAX_MESSAGES)
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    logprobs: bool | None = None
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
        return super().has_free_text and not requires_call(self.tool_choice)

    def ineffective_fields(self) -> Iterator[str]:
        """Yield fields whose values have no effect although they should."""
        yield from super().ineffective_fields()
        if self.continue_final_message and self.messages[-1].role not in ("assistant", "agent"):
            yield self.given_name("continue_final_message")


@with_options(sources=CONVERSATION_OPTIONS["sources"])
class CompletionRequest(ChoicesRequest):
    """Texts to continue, or token ids. ``response_format`` is an extension, as in chats."""

    prompt: str | list[str] | Tokens | list[Tokens] = ""
    best_of: int | None = Field(
        default=None,
        ge=1,
        description="Generate this many answers to each prompt, and return the `n` whose tokens "
        "have the highest mean log-probability. Not streamed.",
    )
    echo: bool | None = Field(
        default=None,
        description="Start the text with the prompt; with `logprobs`, also their lists.",
    )
    suffix: Literal[""] | None = Field(default=None, description="Insertion is not supported.")
