"""``POST /v1/chat/completions``."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from ...options.generation import ReasoningOptions
from ...options.overrides import OptionOverrides
from ..chat_messages import engine_messages
from ..encoders.chat import ChatEncoder
from ..encoders.choices import EncoderOptions
from ..errors import conflict
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
    has_own_end,
    reply,
    without_end_tokens,
)

router = generating_router()
# As in mlx_lm.server.
short_router = generating_router(prefix="")


@router.post("/chat/completions", response_model=ChatCompletion, responses=STREAMED)
@short_router.post("/chat/completions", response_model=ChatCompletion, include_in_schema=False)
async def create_chat_completion(
    body: ChatRequest, request: Request, services: ServicesOfRequest
) -> Response:
    """Answer a conversation; with ``stream``, as server-sent events."""
    services.unknown_fields.check(request, body)
    return await reply(request, services, lambda: _read_request(body, services.settings))


def _read_request(body: ChatRequest, settings: ServerSettings) -> GenerationRequest:
    choices = body.n or 1
    check_choices(choices, settings)
    field, response_format = body.constraint(body.response_format)
    tools, tool_choice = _tools(body)
    if body.ignore_eos and (tools or not body.has_free_text):
        raise has_own_end()
    messages = engine_messages(body.messages)
    check_urls(messages, _part_name, is_allowed=settings.allow_image_urls)
    check_prompt_size(prompt_characters(messages), settings, "messages")
    generations = [
        Generation(messages, response_format, tools, tool_choice, _options(body, choice, settings))
        for choice in range(choices)
    ]
    stream_options = body.stream_options

    def encoder(lease: Lease) -> ChatEncoder:
        return ChatEncoder(
            lease.name,
            lease.engine.vocabulary,
            choices=choices,
            options=EncoderOptions(
                logprobs=body.most_likely is not None,
                usage=bool(stream_options and stream_options.include_usage),
                tokens=bool(body.include_tokens),
                confidence=bool(body.include_confidence),
                reasoning=body.include_reasoning is not False,
                is_complete=not body.has_free_text,
            ),
            has_function_call=body.wants_function_call,
        )

    names = {
        "prompt": "messages",
        "response_format": field,
        "max_tokens": body.limit_name,
        "logprobs": "top_logprobs",
        "reasoning": "reasoning_effort",
        **_tool_names(body),
    }
    return GenerationRequest(
        body.model,
        generations,
        encoder,
        bool(body.stream),
        names,
        body.draft_model,
        body.adapters,
        _part_name,
    )


def _part_name(message: int, part: int) -> str:
    return f"messages[{message}].content[{part}]"


def _tools(body: ChatRequest) -> tuple[list[dict[str, Any]] | None, Any]:
    """Return the tools and the tool choice, from ``functions`` and ``function_call`` as well."""
    if body.functions and body.tools:
        raise conflict("tools and functions are the same; give one of them", "functions")
    older = [{"type": "function", "function": function} for function in body.functions or ()]
    choice = body.function_call
    if isinstance(choice, dict):
        choice = {"type": "function", **choice}
    return older or body.tools or None, choice if body.tool_choice is None else body.tool_choice


def _tool_names(body: ChatRequest) -> dict[str, str]:
    """Return the names of the older fields that a request has in place of ``tools``."""
    names = {f"tools[{index}]": f"functions[{index}]" for index in range(len(body.functions or ()))}
    if names:
        names["tools"] = "functions"
    if body.tool_choice is None and body.function_call is not None:
        names["tool_choice"] = "function_call"
    return names


def _options(body: ChatRequest, choice: int, settings: ServerSettings) -> OptionOverrides:
    options = body.options(choice)
    # A Boolean here, a number for the engine.
    options.pop("logprobs", None)
    if body.most_likely is not None:
        options["logprobs"] = body.most_likely
    if body.reasoning_effort is not None:
        options["reasoning"] = reasoning_option(body.reasoning_effort)
    if body.functions:
        # The answer has one `function_call`.
        options["parallel_tool_calls"] = False
    if body.ignore_eos:
        options = without_end_tokens(options, settings.request_defaults())
    continues = _continues(body)
    if continues is not None:
        options["continue_final_message"] = continues
    return options


def _continues(body: ChatRequest) -> bool | None:
    continues, begins = body.continue_final_message, body.add_generation_prompt
    if continues is not None and continues == begins:
        raise conflict(
            "continue_final_message and add_generation_prompt are opposites; give one of them",
            "add_generation_prompt",
        )
    if continues is None and begins is not None:
        return not begins
    return continues


def reasoning_option(effort: str) -> bool | ReasoningOptions:
    """Return the engine's option: ``"none"`` disables reasoning, other efforts permit it."""
    return False if effort == "none" else ReasoningOptions(is_required=False)
