"""Ollama's ``POST /api/chat``, ``POST /api/generate`` and ``GET /api/tags``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi import Request, Response

from ...conversation.encoded_prompt import RawPrompt
from ...options.generation import ReasoningOptions
from ..encoders.encoder import EncoderOptions
from ..encoders.ollama import OllamaEncoder
from ..errors import OllamaErrorResponse
from ..media_parts import prompt_characters
from ..model_host import Lease
from ..running import Generation
from ..schemas.ollama import (
    OllamaChatRequest,
    OllamaGenerateRequest,
    OllamaMessage,
    OllamaRequest,
)
from ..services import ServicesOfRequest
from ..settings import ServerSettings
from ..streaming import json_reply
from .generating import (
    GenerationRequest,
    check_prompt_size,
    generating_router,
    has_own_end,
    reply,
    without_end_tokens,
)
from .models import loadable_models

router = generating_router("/api", OllamaErrorResponse)


@router.post("/chat")
async def chat(body: OllamaChatRequest, request: Request, services: ServicesOfRequest) -> Response:
    """Answer a conversation, as lines of JSON unless ``stream`` is false."""
    services.unknown_fields.check(request, body)
    return await reply(request, services, lambda: _read_chat(body, services.settings))


@router.post("/generate")
async def generate(
    body: OllamaGenerateRequest, request: Request, services: ServicesOfRequest
) -> Response:
    """Answer a text, as lines of JSON unless ``stream`` is false."""
    services.unknown_fields.check(request, body)
    return await reply(request, services, lambda: _read_text(body, services.settings))


@router.get("/tags")
async def tags(services: ServicesOfRequest) -> Response:
    """Return the models on this computer that can be loaded."""
    models = [
        {
            "name": model.name,
            "model": model.name,
            "modified_at": datetime.fromtimestamp(model.created, UTC).isoformat(),
            "size": model.weights_bytes,
            "digest": "",
            "details": {"format": "safetensors", "family": "", "parameter_size": ""},
        }
        for model in await loadable_models(services)
    ]
    return json_reply({"models": models})


def _read_chat(body: OllamaChatRequest, settings: ServerSettings) -> GenerationRequest:
    return _read_request(body, [*_messages(body.messages)], "messages", settings, body.tools)


def _read_text(body: OllamaGenerateRequest, settings: ServerSettings) -> GenerationRequest:
    if body.raw:
        return _read_request(body, RawPrompt(body.prompt), "prompt", settings)
    messages = [OllamaMessage(role="user", content=body.prompt, images=body.images)]
    if body.system:
        messages.insert(0, OllamaMessage(role="system", content=body.system))
    return _read_request(body, [*_messages(messages)], "prompt", settings)


def _read_request(
    body: OllamaRequest,
    prompt: list[dict[str, Any]] | RawPrompt,
    name: str,
    settings: ServerSettings,
    tools: list[dict[str, Any]] | None = None,
) -> GenerationRequest:
    is_raw = isinstance(prompt, RawPrompt)
    field, response_format = body.constraint(body.response_format, "format")
    if body.ignore_eos and (tools or not body.has_free_text):
        raise has_own_end()
    size = len(prompt.content) if isinstance(prompt, RawPrompt) else prompt_characters(prompt)
    check_prompt_size(size, settings, name)
    options = body.options()
    if is_raw or body.think is False:
        options["reasoning"] = False
    elif body.think is not None:
        options["reasoning"] = ReasoningOptions(is_required=False)
    if body.ignore_eos:
        options = without_end_tokens(options, settings.request_defaults(is_raw=is_raw))
    is_streamed = body.stream is not False

    def encoder(lease: Lease) -> OllamaEncoder:
        shown = EncoderOptions(
            is_streamed=is_streamed,
            tokens=bool(body.include_tokens),
            confidence=bool(body.include_confidence),
        )
        is_chat = isinstance(body, OllamaChatRequest)
        return OllamaEncoder(lease.name, lease.engine.vocabulary, shown, is_chat=is_chat)

    names = {
        "prompt": name,
        "response_format": field,
        "max_tokens": "options.num_predict",
        "reasoning": "think",
    }
    generation = Generation(prompt, response_format, tools or None, None, options)
    return GenerationRequest(
        body.model, [generation], encoder, is_streamed, names, body.draft_model, body.adapters
    )


def _messages(messages: Sequence[OllamaMessage]) -> Iterator[dict[str, Any]]:
    """Yield messages as chat completions have them.

    Calls have no ids here: the results of calls follow them in their order.
    """
    ids: list[str] = []
    for index, message in enumerate(messages):
        written: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.thinking:
            written["reasoning_content"] = message.thinking
        if message.images:
            urls = [f"data:image/png;base64,{data}" for data in message.images]
            images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
            written["content"] = [*images, {"type": "text", "text": message.content}]
        if message.tool_calls:
            ids = [f"call_{index}_{number}" for number in range(len(message.tool_calls))]
            written["tool_calls"] = [
                {"id": id, "type": "function", "function": call.get("function", {})}
                for id, call in zip(ids, message.tool_calls, strict=True)
            ]
        if message.role == "tool":
            written["tool_call_id"] = ids.pop(0) if ids else f"call_{index}"
        yield written
