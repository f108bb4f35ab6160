"""The models that requests and responses of several endpoints share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from ...option_overrides import OptionOverrides

__all__ = [
    "ChoicesUsage",
    "CompletionDetails",
    "Extension",
    "IgnoredFields",
    "PromptDetails",
    "RequestModel",
    "ResponseModel",
    "SamplingFields",
    "StopField",
    "StreamOptions",
    "Timings",
    "TokenInfo",
    "TokenLogprob",
    "TopLogprob",
    "json_reply",
]

TokenIdText = Annotated[str, Field(pattern=r"^[0-9]{1,9}$")]
# OpenAI allows four. Each is searched for at every token.
StopText = Annotated[str, Field(min_length=1, max_length=1000)]
StopField = StopText | Annotated[list[StopText], Field(max_length=64)] | None


class RequestModel(BaseModel):
    """The base of requests: unknown fields are errors, and types are not converted."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class ResponseModel(BaseModel):
    """The base of responses, which contain only the fields that were set."""

    model_config = ConfigDict(protected_namespaces=())


def json_reply(body: ResponseModel, status: int = 200) -> Response:
    """Return the response with the fields of ``body`` that were set, ``null`` included."""
    text = body.model_dump_json(exclude_unset=True)
    return Response(text, status_code=status, media_type="application/json")


class StreamOptions(RequestModel):
    """Options of a stream. ``include_obfuscation`` has no effect."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class IgnoredFields(RequestModel):
    """OpenAI's fields that do not influence what is generated."""

    user: str | None = Field(default=None, description="Ignored.")
    metadata: dict[str, str] | None = None
    service_tier: str | None = Field(default=None, description="Ignored.")
    safety_identifier: str | None = Field(default=None, description="Ignored.")
    prompt_cache_key: str | None = Field(default=None, description="Ignored.")
    prompt_cache_retention: str | None = Field(default=None, description="Ignored.")


class SamplingFields(RequestModel):
    """Sampling parameters."""

    temperature: float | None = Field(default=None, ge=0, le=100, description="Default 1.")
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**64)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    logit_bias: dict[TokenIdText, float] | None = None
    top_k: int | None = Field(default=None, ge=-1, description="Extension. 0 and -1: off.")
    min_p: float | None = Field(default=None, ge=0, le=1, description="Extension.")
    repetition_penalty: float | None = Field(
        default=None, ge=0.01, le=100, description="Extension."
    )

    def sampling_options(self, choice: int = 0) -> OptionOverrides:
        """Return the engine's options for the choice of that number, whose seed is its own."""
        options: OptionOverrides = {
            # OpenAI's default.
            "temperature": 1.0 if self.temperature is None else self.temperature,
        }
        if self.top_p is not None:
            options["top_p"] = self.top_p
        if self.seed is not None:
            options["seed"] = (self.seed + choice) % 2**64
        if self.presence_penalty is not None:
            options["presence_penalty"] = self.presence_penalty
        if self.frequency_penalty is not None:
            options["frequency_penalty"] = self.frequency_penalty
        if self.logit_bias:
            options["logit_bias"] = {int(key): bias for key, bias in self.logit_bias.items()}
        if self.top_k is not None:
            options["top_k"] = max(0, self.top_k)
        if self.min_p is not None:
            options["min_p"] = self.min_p
        if self.repetition_penalty is not None:
            options["repetition_penalty"] = self.repetition_penalty
        return options


class TopLogprob(ResponseModel):
    """A token and the logarithm of its probability, before any mask."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(TopLogprob):
    """The same of a generated token, with the most probable tokens at its position."""

    top_logprobs: list[TopLogprob]


class PromptDetails(ResponseModel):
    """``cached_tokens``: prompt tokens found in the prompt cache."""

    cached_tokens: int


class CompletionDetails(ResponseModel):
    """``reasoning_tokens``: tokens of the reasoning."""

    reasoning_tokens: int


class ChoicesUsage(ResponseModel):
    """Token counts of chat completions and completions."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails


class TokenInfo(ResponseModel):
    """A token: the part of the answer it belongs to, and whether it was the only possible one."""

    token_id: int
    text: str
    part: str
    is_forced: bool


class Timings(ResponseModel):
    """Seconds and token counts of an answer."""

    queue_seconds: float
    prompt_seconds: float
    completion_seconds: float
    mask_seconds: float
    sample_seconds: float
    forward_seconds: float
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    fast_forwarded_tokens: int


class Extension(ResponseModel):
    """What ``include_tokens`` adds: tokens to chunks, timings to the end of an answer."""

    tokens: list[TokenInfo] | None = None
    timings: Timings | None = None
