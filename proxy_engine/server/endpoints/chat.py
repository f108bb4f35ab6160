"""``POST /v1/chat/completions``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import Request, Response

from ...options.overrides import OptionOverrides
from ..encoders.chat import ChatEncoder
from ..encoders.encoder import EncoderOptions
from ..media_parts import check_urls, prompt_characters
from ..model_host import Lease
from ..running import Generation
from ..schemas.chat import ChatRequest, Message
from ..services import ServicesOfRequest
from ..settings import ServerSettings
from .generating import (
    STREAMED,
    GenerationRequest,
    check_choices,
    check_prompt_size,
    generating_router,
    has_own_end,
    message_part,
    reasoning_option,
    reply,
    without_end_tokens,
)

router = generating_router()
# As in mlx_lm.server.
short_router = generating_router(prefix="")

# Parts of history that contain the reasoning of an answer, and their members with its text.
_REASONING_PARTS = {"thinking": "thinking", "reasoning": "text", "redacted_thinking": None}


@router.post("/chat/completions", responses=STREAMED)
@short_router.post("/chat/completions", include_in_schema=False)
async def create_chat_completion(
    body: ChatRequest, request: Request, services: ServicesOfRequest
) -> Response:
    """Answer a conversation; with ``stream``, as server-sent events."""
    services.unknown_fields.check(request, body)
    return await reply(request, services, lambda: _read_request(body, services.settings))


def _read_request(body: ChatRequest, settings: ServerSettings) -> GenerationRequest:
    choices = body.n or 1
    check_choices(choices, settings)
    field, response_format = body.constraint(
        body.response_format, body.given_name("response_format")
    )
    tools = body.tools or None
    if body.ignore_eos and (tools or not body.has_free_text):
        raise has_own_end()
    messages = engine_messages(body.messages)
    check_urls(messages, message_part, is_allowed=settings.allow_image_urls)
    check_prompt_size(prompt_characters(messages), settings, "messages")
    generations = [
        Generation(
            messages, response_format, tools, body.tool_choice, _options(body, choice, settings)
        )
        for choice in range(choices)
    ]
    stream_options = body.stream_options

    def encoder(lease: Lease) -> ChatEncoder:
        options = EncoderOptions(
            is_streamed=bool(body.stream),
            logprobs=body.most_likely is not None,
            usage=bool(stream_options and stream_options.include_usage),
            tokens=bool(body.include_tokens),
            confidence=bool(body.include_confidence),
            reasoning=body.include_reasoning is not False,
            is_complete=not body.has_free_text,
        )
        return ChatEncoder(lease.name, lease.engine.vocabulary, options, choices=choices)

    names = {
        "prompt": "messages",
        "response_format": field,
        "max_tokens": body.limit_name,
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
        body.adapters,
        message_part,
    )


def _options(body: ChatRequest, choice: int, settings: ServerSettings) -> OptionOverrides:
    options = body.options(choice)
    # A Boolean here, a number for the engine.
    options.pop("logprobs", None)
    if body.most_likely is not None:
        options["logprobs"] = body.most_likely
    if body.reasoning_effort is not None:
        options["reasoning"] = reasoning_option(body.reasoning_effort)
    if body.ignore_eos:
        options = without_end_tokens(options, settings.request_defaults())
    return options


def engine_messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return the messages of a request, with the fields that a model can read."""
    return [_engine_message(message) for message in messages]


def _engine_message(message: Message) -> dict[str, Any]:
    names = message.model_fields_set - {"reasoning", "thinking"}
    written: dict[str, Any] = {name: getattr(message, name) for name in names}
    if message.role in ("assistant", "agent"):
        reasoning = _move_reasoning(written)
        given = (message.reasoning_content, message.reasoning, _text(message.thinking), reasoning)
        written["reasoning_content"] = next((text for text in given if text), None)
    return written


def _move_reasoning(written: dict[str, Any]) -> str:
    """Remove the parts of reasoning from a message's content, and return their text."""
    content = written.get("content")
    if not isinstance(content, list):
        return ""
    reasoning = [part for part in content if _is_reasoning(part)]
    if reasoning:
        written["content"] = [part for part in content if not _is_reasoning(part)]
    return "".join(_text(part.get(_REASONING_PARTS[part["type"]])) for part in reasoning)


def _is_reasoning(part: dict[str, Any]) -> bool:
    kind = part.get("type")
    return isinstance(kind, str) and kind in _REASONING_PARTS


def _text(thinking: Any) -> str:
    """Return the text of reasoning, which some clients write as a list of text parts."""
    if isinstance(thinking, str):
        return thinking
    parts = thinking if isinstance(thinking, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))
