"""``/v1/responses``."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from ...option_overrides import OptionOverrides
from ..encoders.encoder import new_id, seconds_now
from ..encoders.responses import ResponsesEncoder
from ..errors import ApiError
from ..media_parts import check_urls, prompt_characters
from ..model_host import Lease
from ..response_items import messages_of_input, messages_of_output
from ..response_store import ResponseStore, StoredResponse
from ..running import Generation
from ..schemas.common import ResponseModel
from ..schemas.responses import ResponseObject, ResponsesRequest
from ..services import ServicesOfRequest
from ..settings import ServerSettings
from .chat import reasoning_option
from .generating import (
    STREAMED,
    GenerationRequest,
    check_prompt_size,
    generating_router,
    reply,
)

_NAMES = {"prompt": "input", "max_tokens": "max_output_tokens", "logprobs": "top_logprobs"}

router = generating_router()


class Deleted(ResponseModel):
    """OpenAI's confirmation that a response was deleted."""

    id: str
    object: str
    deleted: bool


@router.post("/responses", response_model=ResponseObject, responses=STREAMED)
async def create_response(
    body: ResponsesRequest, request: Request, services: ServicesOfRequest
) -> Response:
    """Answer a text or a conversation; with ``stream``, as server-sent events."""
    services.unknown_fields.check(request, body)
    # On the event loop's thread, like all uses of the store.
    earlier = _earlier_messages(body, services.responses)
    return await reply(
        request,
        services,
        lambda: _read_request(body, earlier, services.responses, services.settings),
    )


@router.get("/responses/{id}", response_model=ResponseObject)
async def get_response(id: str, services: ServicesOfRequest) -> Response:
    """Return a stored response."""
    stored = services.responses.get(id)
    if stored is None:
        raise _not_found(id)
    return Response(stored.body, media_type="application/json")


@router.delete("/responses/{id}", response_model=Deleted)
async def delete_response(id: str, services: ServicesOfRequest) -> Deleted:
    """Delete a stored response."""
    if not services.responses.remove(id):
        raise _not_found(id)
    return Deleted(id=id, object="response", deleted=True)


def _not_found(id: str) -> ApiError:
    return ApiError(404, f"response {id!r} not found", code="not_found", param="id")


def _earlier_messages(body: ResponsesRequest, store: ResponseStore) -> list[dict[str, Any]]:
    id = body.previous_response_id
    if id is None:
        return []
    stored = store.get(id)
    if stored is None:
        raise ApiError(
            400,
            f"response {id!r} not found; it may have been dropped",
            code="previous_response_not_found",
            param="previous_response_id",
        )
    return stored.messages


def _read_request(
    body: ResponsesRequest,
    earlier: list[dict[str, Any]],
    store: ResponseStore,
    settings: ServerSettings,
) -> GenerationRequest:
    field, response_format = body.constraint(_format(body), "text.format")
    added, fields = messages_of_input(body.input)
    conversation = [*earlier, *added]
    messages = conversation
    if body.instructions is not None:
        # Instructions of a response do not apply to earlier or later ones.
        messages = [{"role": "system", "content": body.instructions}, *conversation]
    # Behind the instructions and the conversation before.
    first = len(messages) - len(added)

    def part_name(message: int, part: int) -> str:
        if message < first:
            return "previous_response_id"
        return f"{fields[message - first]}[{part}]"

    check_urls(messages, part_name, is_allowed=settings.allow_image_urls)
    check_prompt_size(prompt_characters(messages), settings, "input")
    generation = Generation(
        messages, response_format, body.tools or None, body.tool_choice, _options(body)
    )
    is_stored = store.is_enabled and body.store is not False

    def store_response(response: ResponseObject) -> None:
        if is_stored:
            text = response.model_dump_json(exclude_unset=True)
            messages = [*conversation, *messages_of_output(response.output)]
            store.put(response.id, StoredResponse(text, messages))

    def encoder(lease: Lease) -> ResponsesEncoder:
        return ResponsesEncoder(
            _begun(body, lease.name, settings, is_stored=is_stored),
            lease.engine.vocabulary,
            on_finished=store_response,
            tokens=bool(body.include_tokens),
            confidence=bool(body.include_confidence),
        )

    names = {**_NAMES, "response_format": field}
    return GenerationRequest(
        body.model,
        [generation],
        encoder,
        bool(body.stream),
        names,
        body.draft_model,
        part_name,
    )


def _format(body: ResponsesRequest) -> Any:
    """Return ``text.format`` as chat completions have it, with the schema in an inner object."""
    given = body.text.format if body.text is not None else None
    if given is None or given.get("type") != "json_schema":
        return given
    return {
        "type": "json_schema",
        "json_schema": {key: value for key, value in given.items() if key != "type"},
    }


def _options(body: ResponsesRequest) -> OptionOverrides:
    options = body.options()
    # An object here, another type for the engine.
    options.pop("reasoning", None)
    if body.max_output_tokens is not None:
        options["max_tokens"] = body.max_output_tokens
    if body.reasoning is not None and body.reasoning.effort is not None:
        options["reasoning"] = reasoning_option(body.reasoning.effort)
    if body.top_logprobs is not None or "message.output_text.logprobs" in (body.include or ()):
        options["logprobs"] = body.top_logprobs or 0
    return options


def _begun(
    body: ResponsesRequest, model: str, settings: ServerSettings, *, is_stored: bool
) -> ResponseObject:
    reasoning = body.reasoning
    options: dict[str, Any] = {**settings.request_defaults(), **body.options()}
    return ResponseObject(
        id=new_id("resp_"),
        object="response",
        created_at=seconds_now(),
        status="in_progress",
        error=None,
        incomplete_details=None,
        instructions=body.instructions,
        max_output_tokens=body.max_output_tokens,
        model=model,
        output=[],
        parallel_tool_calls=body.parallel_tool_calls is not False,
        previous_response_id=body.previous_response_id,
        reasoning={"effort": reasoning.effort if reasoning else None, "summary": None},
        store=is_stored,
        temperature=options["temperature"],
        text={"format": (body.text and body.text.format) or {"type": "text"}},
        tool_choice=body.tool_choice or "auto",
        tools=body.tools or [],
        top_p=options.get("top_p", 1.0),
        truncation="disabled",
        usage=None,
        user=body.user,
        metadata=body.metadata or {},
    )
