"""``POST /v1/completions``."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Request, Response

from ...conversation.raw_prompt import RawPrompt
from ...option_overrides import OptionOverrides
from ..encoders.choices import EncoderOptions
from ..encoders.completions import CompletionEncoder
from ..errors import ApiError
from ..model_host import Lease
from ..running import Generation
from ..schemas.completions import Completion, CompletionRequest
from ..services import ServicesOfRequest
from ..settings import ServerSettings
from .generating import (
    STREAMED,
    GenerationRequest,
    check_choices,
    check_prompt_size,
    generating_router,
    reply,
)

router = generating_router()


@router.post("/completions", response_model=Completion, responses=STREAMED)
async def create_completion(
    body: CompletionRequest, request: Request, services: ServicesOfRequest
) -> Response:
    """Continue one or several texts; with ``stream``, as server-sent events."""
    services.unknown_fields.check(request, body)
    return await reply(request, services, lambda: _read_request(body, services.settings))


def _read_request(body: CompletionRequest, settings: ServerSettings) -> GenerationRequest:
    choices = body.n or 1
    if body.best_of not in (None, choices):
        raise ApiError(400, "best_of must equal n", code="unsupported", param="best_of")
    if body.echo and body.logprobs is not None:
        raise ApiError(
            400,
            "log-probabilities of prompt tokens are not supported; give echo or logprobs",
            code="unsupported",
            param="echo",
        )
    prompts = _prompts(body)
    check_choices(choices * len(prompts), settings)
    field, response_format = body.constraint(body.response_format)
    check_prompt_size(sum(map(len, prompts)), settings, "prompt")
    generations = [
        Generation(
            RawPrompt(prompt),
            response_format,
            options=_options(body, number * choices + choice),
        )
        for number, prompt in enumerate(prompts)
        for choice in range(choices)
    ]
    stream_options = body.stream_options

    def encoder(lease: Lease) -> CompletionEncoder:
        return CompletionEncoder(
            lease.name,
            lease.engine.vocabulary,
            prompts=prompts,
            is_echoed=bool(body.echo),
            choices=choices,
            options=EncoderOptions(
                logprobs=body.logprobs is not None,
                usage=bool(stream_options and stream_options.include_usage),
                tokens=bool(body.include_tokens),
                confidence=bool(body.include_confidence),
            ),
        )

    names = {"response_format": field}
    return GenerationRequest(
        body.model, generations, encoder, bool(body.stream), names, body.draft_model
    )


def _prompts(body: CompletionRequest) -> list[str | Sequence[int]]:
    given = body.prompt
    if isinstance(given, str):
        return [given]
    if not given:
        raise ApiError(400, "the list of prompts is empty", code="invalid_prompt", param="prompt")
    if isinstance(given[0], int):
        return [[token for token in given if isinstance(token, int)]]
    return [prompt for prompt in given if not isinstance(prompt, int)]


def _options(body: CompletionRequest, choice: int) -> OptionOverrides:
    options = body.options(choice)
    # A raw prompt is continued; the answer has no parts.
    options["reasoning"] = False
    return options
