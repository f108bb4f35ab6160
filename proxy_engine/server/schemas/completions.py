"""``POST /v1/completions``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ...options.fields import with_options
from .chat import StreamOptions, TopLogprobs
from .constraints import Constraints
from .sampling import CONVERSATION_OPTIONS, TextFields

Tokens = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)]


@with_options(sources=CONVERSATION_OPTIONS["sources"])
class CompletionRequest(TextFields, Constraints):
    """Texts to continue, or token ids."""

    prompt: str | list[str] | Tokens | list[Tokens] = ""
    model: str | None = Field(default=None, description="Default: the model in memory.")
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = Field(default=None, ge=1, description="Answers to each prompt.")
    best_of: int | None = Field(
        default=None,
        ge=1,
        description="Generate this many answers to each prompt, and return the `n` whose tokens "
        "have the highest mean log-probability. Not streamed.",
    )
    logprobs: bool | Annotated[int, Field(ge=0, le=20)] | None = Field(
        default=None, description="`true` is `top_logprobs`, or 0."
    )
    top_logprobs: TopLogprobs | None = Field(
        default=None, description="Extension, for a Boolean `logprobs`; -1 is 0."
    )
    echo: bool | None = Field(
        default=None,
        description="Start the text with the prompt; with `logprobs`, also their lists.",
    )
    suffix: Literal[""] | None = Field(default=None, description="Insertion is not supported.")
    response_format: dict[str, Any] | None = Field(
        default=None, description="Extension: as in chat completions."
    )

    @property
    def has_free_text(self) -> bool:
        """Whether the text is not constrained."""
        return not self.is_constrained(self.response_format)

    @property
    def most_likely(self) -> int | None:
        """Number of most likely tokens per position to report; ``None``: no log-probabilities."""
        if self.logprobs is None or isinstance(self.logprobs, bool):
            top = max(0, self.top_logprobs or 0)
            return top if self.logprobs or top else None
        return self.logprobs
