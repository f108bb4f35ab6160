"""``POST /v1/chat/completions``."""

from __future__ import annotations

from fastapi import Request, Response

from ...option_overrides import OptionOverrides
from ...options import ReasoningOptions
from ..chat_messages import engine_messages
from ..encoders.chat import ChatEncoder
from ..encoders.choices import EncoderOptions
from ..errors import ApiError
from ..media_parts import check_urls, prompt_characters
from ..model_host import Lease
from ..running import Generation
from ..schemas.chat import ChatCompletion, ChatRequest
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


@router.post("/chat/completions", response_model=ChatCompletion, responses=STREAMED)
async def create_chat_completion(
    body: ChatRequest, request: Request, services: ServicesOfRequest
) -> Response:
    """Answer a conversation; with ``stream``, as server-sent events."""
    services.unknown_fields.check(request, body)
    return await reply(request, services, lambda: _read_request(body, services.settings))


def _read_request(body: ChatRequest, settings: ServerSettings) -> GenerationRequest:
    if body.max_tokens is not None and body.max_completion_tokens not in (None, body.max_tokens):
        raise ApiError(
            400,
            "max_tokens and max_completion_tokens differ; give one of them",
            code="conflicting_values",
            param="max_tokens",
        )
    if body.top_logprobs is not None and not body.logprobs:
        raise ApiError(
            400, "top_logprobs requires logprobs", code="invalid_value", param="top_logprobs"
        )
    choices = body.n or 1
    check_choices(choices, settings)
    field, response_format = body.constraint(body.response_format)
    messages = engine_messages(body.messages)
    check_urls(messages, _part_name, is_allowed=settings.allow_image_urls)
    check_prompt_size(prompt_characters(messages), settings, "messages")
    generations = [
        Generation(
            messages,
            response_format,
            body.tools or None,
            body.tool_choice,
            _options(body, choice),
        )
        for choice in range(choices)
    ]
    stream_options = body.stream_options

    def encoder(lease: Lease) -> ChatEncoder:
        return ChatEncoder(
            lease.name,
            lease.engine.vocabulary,
            choices=choices,
            options=EncoderOptions(
                logprobs=bool(body.logprobs),
                usage=bool(stream_options and stream_options.include_usage),
                tokens=bool(body.include_tokens),
                confidence=bool(body.include_confidence),
            ),
        )

    is_newer = body.max_completion_tokens is not None
    names = {
        "prompt": "messages",
        "response_format": field,
        "max_tokens": "max_completion_tokens" if is_newer else "max_tokens",
        "logprobs": "top_logprobs",
        "reasoning": "reasoning_effort",
    }
    return GenerationRequest(
        body.model,
        generations,
        encoder,
        bool(body.stream),
        names,
        body.draft_model,
        _part_name,
    )


def _part_name(message: int, part: int) -> str:
    return f"messages[{message}].content[{part}]"


def _options(body: ChatRequest, choice: int) -> OptionOverrides:
    options = body.options(choice)
    if body.max_completion_tokens is not None:
        options["max_tokens"] = body.max_completion_tokens
    # A Boolean here, a number for the engine.
    options.pop("logprobs", None)
    if body.logprobs:
        options["logprobs"] = body.top_logprobs or 0
    template = body.chat_template_kwargs
    if body.reasoning_effort is not None:
        options["reasoning"] = reasoning_option(body.reasoning_effort)
    elif template is not None:
        enabled = template.enable_thinking if template.thinking is None else template.thinking
        if enabled is not None:
            options["reasoning"] = enabled
    return options


def reasoning_option(effort: str) -> bool | ReasoningOptions:
    """Return the engine's option: ``"none"`` disables reasoning, other efforts permit it."""
    return False if effort == "none" else ReasoningOptions(is_required=False)
