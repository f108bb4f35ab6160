"""``POST /v1/completions``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from .common import (
    ChoicesUsage,
    Extension,
    IgnoredFields,
    ResponseModel,
    SamplingFields,
    StopField,
    StreamOptions,
)
from .constraints import Constraints

__all__ = [
    "Completion",
    "CompletionChoice",
    "CompletionChunk",
    "CompletionChunkChoice",
    "CompletionLogprobs",
    "CompletionRequest",
]

Tokens = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)]


class CompletionRequest(SamplingFields, Constraints, IgnoredFields):
    """Texts, or texts as tokens, to be gone on with as they are."""

    prompt: str | list[str] | Tokens | list[Tokens]
    model: str | None = Field(default=None, description="The model in memory unless given.")
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = Field(default=None, ge=1, description="Answers to each prompt.")
    best_of: int | None = Field(default=None, ge=1, description="No other number than `n`.")
    stop: StopField = None
    max_tokens: int | None = Field(default=None, ge=1, description="16 unless given.")
    logprobs: int | None = Field(default=None, ge=0, le=20, description="Not with `echo`.")
    echo: bool | None = Field(default=None, description="Begin the text with the prompt.")
    suffix: Literal[""] | None = Field(default=None, description="Texts only grow at their end.")
    response_format: dict[str, Any] | None = Field(
        default=None, description="Extension: as in chats."
    )
    include_tokens: bool | None = Field(
        default=None, description="Extension: tell of every token in chunks, and of the time."
    )


class CompletionLogprobs(ResponseModel):
    """Tokens, the logarithms of their probabilities before any mask, and where they begin."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class CompletionChoice(ResponseModel):
    """One of the texts; those of one prompt follow each other."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"]


class Completion(ResponseModel):
    """The response."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: ChoicesUsage
    system_fingerprint: None
    proxy_engine: Extension | None = None


class CompletionChunkChoice(ResponseModel):
    """What is new of one of the texts."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"] | None


class CompletionChunk(ResponseModel):
    """A piece of a streamed response."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChunkChoice]
    usage: ChoicesUsage | None = None
    system_fingerprint: None
    proxy_engine: Extension | None = None
