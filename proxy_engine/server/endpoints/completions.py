"""``POST /v1/completions``."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Request, Response

from ...conversation.encoded_prompt import RawPrompt
from ...options.overrides import OptionOverrides
from ..encoders.completions import CompletionEncoder
from ..encoders.encoder import EncoderOptions
from ..errors import ApiError, conflict
from ..model_host import Lease
from ..running import Generation
from ..schemas.completions import CompletionRequest
from ..services import ServicesOfRequest
from ..settings import ServerSettings
from .generating import (
    STREAMED,
    GenerationRequest,
    check_choices,
    check_prompt_size,
    generating_router,
    has_own_end,
    reply,
    without_end_tokens,
)

router = generating_router()


@router.post("/completions", responses=STREAMED)
async def create_completion(
    body: CompletionRequest, request: Request, services: ServicesOfRequest
) -> Response:
    """Continue one or several texts; with ``stream``, as server-sent events."""
    services.unknown_fields.check(request, body)
    return await reply(request, services, lambda: _read_request(body, services.settings))


def _read_request(body: CompletionRequest, settings: ServerSettings) -> GenerationRequest:
    kept = body.n or 1
    choices = _candidates(body, kept)
    prompts = _prompts(body)
    check_choices(choices * len(prompts), settings)
    field, response_format = body.constraint(
        body.response_format, body.given_name("response_format")
    )
    if body.ignore_eos and not body.has_free_text:
        raise has_own_end()
    check_prompt_size(sum(map(len, prompts)), settings, "prompt")
    generations = [
        Generation(
            RawPrompt(prompt),
            response_format,
            options=_options(body, number * choices + choice, settings),
        )
        for number, prompt in enumerate(prompts)
        for choice in range(choices)
    ]
    stream_options = body.stream_options
    top = body.most_likely
    scores_prompts = bool(body.echo) and top is not None

    def encoder(lease: Lease) -> CompletionEncoder:
        engine = lease.engine
        scored = prompts if scores_prompts else []
        return CompletionEncoder(
            lease.name,
            engine.vocabulary,
            EncoderOptions(
                is_streamed=bool(body.stream),
                logprobs=top is not None,
                usage=bool(stream_options and stream_options.include_usage),
                tokens=bool(body.include_tokens),
                confidence=bool(body.include_confidence),
            ),
            prompts=prompts,
            is_echoed=bool(body.echo),
            prompt_logprobs=[engine.prompt_logprobs(prompt, top or 0) for prompt in scored],
            choices=choices,
            kept=kept,
        )

    names = {
        "response_format": field,
        "max_tokens": body.limit_name,
    }
    return GenerationRequest(
        body.model,
        generations,
        encoder,
        bool(body.stream),
        names,
        body.draft_model,
        body.adapters,
        runs_model=scores_prompts,
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


def _candidates(body: CompletionRequest, kept: int) -> int:
    """Return the number of generated answers to each prompt; ``kept`` of them are returned."""
    candidates = body.best_of or kept
    if candidates < kept:
        raise conflict("best_of must be at least n", "best_of")
    if candidates > kept and body.stream:
        raise conflict("a stream cannot have the best of several answers", "best_of")
    return candidates


def _options(body: CompletionRequest, choice: int, settings: ServerSettings) -> OptionOverrides:
    options = body.options(choice)
    # A raw prompt is continued; the answer has no parts.
    options["reasoning"] = False
    # A number for the engine.
    options.pop("logprobs", None)
    if body.most_likely is not None:
        options["logprobs"] = body.most_likely
    elif body.best_of not in (None, body.n or 1):
        options["logprobs"] = 0
    if body.ignore_eos:
        options = without_end_tokens(options, settings.request_defaults(is_raw=True))
    return options
