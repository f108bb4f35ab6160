"""The models that requests and responses of several endpoints share."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from samplers.parameters import SamplingParameters

from ...errors import InvalidOptionError
from ...option_fields import given_options, with_options
from ...option_overrides import OptionOverrides
from ...options import MAX_DRAFT_TOKENS, GenerationOptions, SpeculationOptions
from .request_model import RequestModel

# OpenAI allows four. Each is searched for at every token.
StopText = Annotated[str, Field(min_length=1, max_length=1000)]
StopField = StopText | Annotated[list[StopText], Field(max_length=64)] | None


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
    metadata: dict[str, str] | None = None
    service_tier: str | None = Field(default=None, description="Ignored.")
    safety_identifier: str | None = Field(default=None, description="Ignored.")
    prompt_cache_key: str | None = Field(default=None, description="Ignored.")
    prompt_cache_retention: str | None = Field(default=None, description="Ignored.")


_OPENAI_OPTIONS: dict[str, dict[str, Any]] = {
    "temperature": {"description": "0 selects the most likely token. Default 1."},
    "top_p": {},
    "presence_penalty": {"ge": -2, "le": 2},
    "frequency_penalty": {"ge": -2, "le": 2},
    "logit_bias": {},
}


def _extension(name: str) -> str:
    return f"Extension. {GenerationOptions.model_fields[name].description}"


_EXTENSIONS = {
    name: {"description": _extension(name)}
    for name in (*SamplingParameters.model_fields, "particles", "exact_choices", "speculation")
    # The last two are fields of the class itself.
    if name not in (*_OPENAI_OPTIONS, "seed", "top_k")
}

SCHEMA_IN_PROMPT = {"description": _extension("schema_in_prompt")}
"""The field of requests with messages. A text to continue has no place for a schema."""


@with_options(**_OPENAI_OPTIONS, **_EXTENSIONS)
class SamplingFields(RequestModel):
    """The engine's sampling parameters, and fields that ask for more than the answer."""

    seed: int | None = Field(default=None, ge=-(2**63), lt=2**64)
    top_k: int | None = Field(
        default=None,
        ge=-1,
        description="Extension. Keep this many most likely tokens; 0 and -1 are off.",
    )
    draft_model: str | None = Field(
        default=None,
        description="Extension. Name of a draft model, as in `model`. `default_model` is that of "
        "the server. Default: the draft model in memory.",
    )
    num_draft_tokens: int | None = Field(
        default=None,
        ge=0,
        le=MAX_DRAFT_TOKENS,
        description="Extension. Number of tokens that the draft model drafts per forward pass; 0 "
        "disables it. Not with `speculation`, which has a member of this name.",
    )
    include_tokens: bool | None = Field(
        default=None, description="Extension: add every token to a stream, and timings to the end."
    )
    include_confidence: bool | None = Field(
        default=None,
        description="Extension: add the confidence of each value that has one, by JSON Pointer.",
    )

    def options(self, choice: int = 0) -> OptionOverrides:
        """Return the request's options for the choice of that number, whose seed is its own."""
        options = given_options(self)
        # The server runs each of the `n` answers as a separate request.
        options.pop("n", None)
        if self.seed is not None:
            options["seed"] = (self.seed + choice) % 2**64
        if self.top_k is not None:
            options["top_k"] = max(0, self.top_k)
        if self.num_draft_tokens is not None:
            options["speculation"] = self._speculation(self.num_draft_tokens)
        return options

    def _speculation(self, num_draft_tokens: int) -> SpeculationOptions:
        if getattr(self, "speculation", None) is not None:
            raise InvalidOptionError(
                "num_draft_tokens should not be given with speculation",
                option="num_draft_tokens",
                hint='Give {"speculation": {"num_draft_tokens": …}}.',
            )
        if not num_draft_tokens:
            return SpeculationOptions(draft_model=False)
        return SpeculationOptions(num_draft_tokens=num_draft_tokens)


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


class Extension(ResponseModel):
    """What ``include_tokens`` adds: tokens to chunks, timings to the end of an answer."""

    tokens: list[TokenInfo] | None = None
    timings: Timings | None = None


class ChoiceExtension(ResponseModel):
    """What ``include_confidence`` adds to an answer: probabilities of values by JSON Pointer."""

    confidence: dict[str, float]


class ExtendedChoice(ResponseModel):
    """The base of answers. The last chunk of an answer has the extension."""

    proxy_engine: ChoiceExtension | None = None
