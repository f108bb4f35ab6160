"""The models that requests and responses of several endpoints share."""

from __future__ import annotations

from typing import Any

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from .request_model import RequestModel


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
    """OpenAI's fields that do not influence the answer."""

    user: str | None = Field(default=None, description="Ignored.")
    metadata: Any = Field(default=None, description="Ignored.")
    service_tier: str | None = Field(default=None, description="Ignored.")
    safety_identifier: str | None = Field(default=None, description="Ignored.")
    prompt_cache_key: str | None = Field(default=None, description="Ignored.")
    prompt_cache_retention: str | None = Field(default=None, description="Ignored.")


class TopLogprob(ResponseModel):
    """A token and the logarithm of its probability, before any mask."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(TopLogprob):
    """The same of a generated token, with the most probable tokens at its position."""

    top_logprobs: list[TopLogprob]


class PromptDetails(ResponseModel):
    """Tokens of the prompt that were cached, and tokens of images and recordings."""

    cached_tokens: int
    image_tokens: int
    audio_tokens: int


class CompletionDetails(ResponseModel):
    """``reasoning_tokens``: tokens of the reasoning."""

    reasoning_tokens: int


class ChoicesUsage(ResponseModel):
    """Token counts of chat completions and completions.

    ``input_tokens`` and ``output_tokens`` are the names of the Responses interface for
    ``prompt_tokens`` and ``completion_tokens``.
    """

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    input_tokens: int
    output_tokens: int
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

    preparation_seconds: float
    queue_seconds: float
    prompt_seconds: float
    completion_seconds: float
    mask_seconds: float
    draft_seconds: float
    sample_seconds: float
    forward_seconds: float
    prompt_tokens: int
    cached_tokens: int
    image_tokens: int
    audio_tokens: int
    completion_tokens: int
    fast_forwarded_tokens: int
    drafted_tokens: int
    accepted_tokens: int
    forward_passes: int
    inexact_choice_tokens: int


class Extension(ResponseModel):
    """What ``include_tokens`` adds: tokens to chunks, timings to the end of an answer."""

    tokens: list[TokenInfo] | None = None
    timings: Timings | None = None


class QuotationInfo(ResponseModel):
    """Where a quote of the answer stands in its source, in code points."""

    pointer: str
    source: str
    start: int
    end: int
    occurrences: int


class CutShortInfo(ResponseModel):
    """The limit that ended an answer, and the JSON Pointer of the value that was open there."""

    reason: str
    pointer: str | None


class ChoiceExtension(ResponseModel):
    """What is added to an answer.

    With ``include_confidence``, the probabilities of values by JSON Pointer; the quotes of the
    answer, if its schema has ``x-substring-of``; ``cut_short``, if a limit ended one in a format.
    """

    confidence: dict[str, float] | None = None
    quotes: list[QuotationInfo] | None = None
    cut_short: CutShortInfo | None = None


class ExtendedChoice(ResponseModel):
    """The base of answers. The last chunk of an answer has the extension."""

    proxy_engine: ChoiceExtension | None = None
