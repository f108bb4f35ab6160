"""What requests of several endpoints have in common."""

from __future__ import annotations

from typing import Annotated

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from ...option_overrides import OptionOverrides

__all__ = [
    "Extension",
    "Ignored",
    "RequestModel",
    "ResponseModel",
    "Sampling",
    "StopField",
    "StreamOptions",
    "Timings",
    "TokenInfo",
    "json_reply",
]

TokenIdText = Annotated[str, Field(pattern=r"^[0-9]{1,9}$")]
# OpenAI's are four at most. Looking for them is work for every token.
StopText = Annotated[str, Field(min_length=1, max_length=1000)]
StopField = StopText | Annotated[list[StopText], Field(max_length=64)] | None


class RequestModel(BaseModel):
    """What clients send. Unknown fields are refused rather than ignored."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class ResponseModel(BaseModel):
    """What clients are sent: the fields that were set."""

    model_config = ConfigDict(protected_namespaces=())


def json_reply(body: ResponseModel, status: int = 200) -> Response:
    """Return the response with the fields of ``body`` that were set, ``null`` included."""
    text = body.model_dump_json(exclude_unset=True)
    return Response(text, status_code=status, media_type="application/json")


class StreamOptions(RequestModel):
    """How to stream. ``include_obfuscation`` is of no consequence here."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Ignored(RequestModel):
    """Fields that say nothing about what is to be generated; taken, and not looked at."""

    user: str | None = Field(default=None, description="Taken, and not looked at.")
    metadata: dict[str, str] | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None


class Sampling(RequestModel):
    """How tokens are chosen."""

    temperature: float | None = Field(default=None, ge=0, le=100, description="1 unless given.")
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
        """Return what the engine is told, for one of several choices: the seeds must differ."""
        options: OptionOverrides = {
            # As OpenAI's documentation has it.
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


class TokenInfo(ResponseModel):
    """A token: where it belongs, and whether it was the only way to go on."""

    token_id: int
    text: str
    part: str
    is_forced: bool


class Timings(ResponseModel):
    """Where the time of an answer went, in seconds, and what was saved."""

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
    """What ``include_tokens`` adds: tokens where they come, timings at the end of an answer."""

    tokens: list[TokenInfo] | None = None
    timings: Timings | None = None
