"""``POST /v1/chat/completions`` and ``POST /v1/completions``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from fastapi import Request, Response

from ...conversation.messages import RawPrompt
from ...options.overrides import OptionOverrides
from ..encoders.choices import ChatEncoder, CompletionEncoder
from ..errors import ApiError, conflict
from ..host import Lease
from ..schemas.choices import ChatRequest, CompletionRequest, Message
from ..services import ServicesOfRequest
from ..settings import ServerSettings
from .generating import (
    STREAMED,
    GenerationRequest,
    encoder_options,
    generating_router,
    message_part,
    read_request,
    reasoning_option,
    reply,
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
    return await reply(request, services, lambda: _read_chat(body, services.settings))


@router.post("/completions", responses=STREAMED)
async def create_completion(
    body: CompletionRequest, request: Request, services: ServicesOfRequest
) -> Response:
    """Continue one or several texts; with ``stream``, as server-sent events."""
    services.unknown_fields.check(request, body)
    return await reply(request, services, lambda: _read_completion(body, services.settings))


def _read_chat(body: ChatRequest, settings: ServerSettings) -> GenerationRequest:
    choices = body.n or 1

    async def encoder(lease: Lease) -> ChatEncoder:
        options = encoder_options(
            body,
            logprobs=body.most_likely is not None,
            usage=body.includes_usage,
            reasoning=body.include_reasoning is not False,
        )
        return ChatEncoder(lease.name, lease.engine.vocabulary, options, choices=choices)

    def options(choice: int) -> OptionOverrides:
        options = body.options(choice)
        if body.reasoning_effort is not None:
            options["reasoning"] = reasoning_option(body.reasoning_effort)
        return options

    return read_request(
        body,
        [engine_messages(body.messages)],
        encoder,
        settings,
        names={"prompt": "messages", "logprobs": "top_logprobs", "reasoning": "reasoning_effort"},
        options=options,
        choices=choices,
        tools=body.tools,
        tool_choice=body.tool_choice,
        part_name=message_part,
    )


def _read_completion(body: CompletionRequest, settings: ServerSettings) -> GenerationRequest:
    kept = body.n or 1
    choices = body.best_of or kept
    if choices < kept:
        raise conflict("best_of must be at least n", "best_of")
    if choices > kept and body.stream:
        raise conflict("a stream cannot have the best of several answers", "best_of")
    prompts = _prompts(body)
    top = body.most_likely
    scored = prompts if body.echo and top is not None else []

    async def encoder(lease: Lease) -> CompletionEncoder:
        engine = lease.engine
        # A client that leaves ends this at the next prompt.
        scores = [
            await asyncio.to_thread(engine.prompt_logprobs, prompt, top or 0) for prompt in scored
        ]
        return CompletionEncoder(
            lease.name,
            engine.vocabulary,
            encoder_options(body, logprobs=top is not None, usage=body.includes_usage),
            prompts=prompts,
            is_echoed=bool(body.echo),
            prompt_logprobs=scores,
            choices=choices,
            kept=kept,
        )

    def options(choice: int) -> OptionOverrides:
        options = body.options(choice)
        # A raw prompt is continued; the answer has no parts.
        options["reasoning"] = False
        if choices > kept:
            options.setdefault("logprobs", 0)
        return options

    return read_request(
        body,
        [RawPrompt(prompt) for prompt in prompts],
        encoder,
        settings,
        names={},
        options=options,
        choices=choices,
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
