"""``/v1/responses``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response

from ...options.overrides import OptionOverrides
from ..encoders.encoder import new_id, seconds_now
from ..encoders.responses import ResponsesEncoder
from ..errors import ApiError
from ..media_parts import check_urls, prompt_characters
from ..model_host import Lease
from ..response_items import messages_of_items
from ..response_store import Item, ResponseStore, StoredResponse
from ..running import Generation
from ..schemas.common import ResponseModel, json_reply
from ..schemas.items import PAGE, ItemList, PageLimit, PageOrder
from ..schemas.responses import ConversationReference, ResponseObject, ResponsesRequest
from ..services import ServicesOfRequest
from ..settings import ServerSettings
from ..stored_items import input_items, page, resolved, stored_inputs, stored_outputs
from .chat import reasoning_option
from .conversations import known_conversation
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


@dataclass(frozen=True, slots=True)
class _Context:
    """The conversation that a request continues.

    Attributes:
        items: The items before the request's own.
        field: The field that names them.
    """

    items: tuple[Item, ...] = ()
    field: str = ""


@router.post("/responses", response_model=ResponseObject, responses=STREAMED)
async def create_response(
    body: ResponsesRequest, request: Request, services: ServicesOfRequest
) -> Response:
    """Answer a text or a conversation; with ``stream``, as server-sent events."""
    services.unknown_fields.check(request, body)
    store = services.responses
    # On the event loop's thread: an entry that is dropped meanwhile is still used.
    context = _context(body, store)
    if body.input is None and not context.items:
        raise ApiError(422, "input is missing", code="invalid_value", param="input")
    given = resolved(input_items(body.input or []), "input", store)
    return await reply(
        request, services, lambda: _read_request(body, context, given, store, services.settings)
    )


@router.get("/responses/{id}", response_model=ResponseObject)
async def get_response(id: str, services: ServicesOfRequest, stream: bool = False) -> Response:
    """Return a stored response."""
    if stream:
        raise ApiError(400, "stored responses are not streamed", code="unsupported", param="stream")
    return Response(_stored(id, services.responses).body, media_type="application/json")


@router.get("/responses/{id}/input_items", response_model=ItemList)
async def list_input_items(
    id: str,
    services: ServicesOfRequest,
    limit: PageLimit = PAGE,
    order: PageOrder = "desc",
    after: str | None = None,
) -> Response:
    """List the items that a stored response answers, with those of earlier turns."""
    stored = _stored(id, services.responses)
    items = stored.items[: stored.input_count]
    return json_reply(page(items, limit=limit, order=order, after=after))


@router.delete("/responses/{id}", response_model=Deleted)
async def delete_response(id: str, services: ServicesOfRequest) -> Deleted:
    """Delete a stored response."""
    _stored(id, services.responses)
    services.responses.remove(id)
    return Deleted(id=id, object="response", deleted=True)


def _stored(id: str, store: ResponseStore) -> StoredResponse:
    stored = store.response(id)
    if stored is None:
        raise ApiError(404, f"response {id!r} not found", code="not_found", param="id")
    return stored


def _context(body: ResponsesRequest, store: ResponseStore) -> _Context:
    """Return the items of the earlier response or of the conversation."""
    conversation_id, response_id = _conversation_id(body), body.previous_response_id
    if conversation_id is not None:
        if response_id is not None:
            raise ApiError(
                400,
                "conversation and previous_response_id exclude each other; give one of them",
                code="conflicting_values",
                param="conversation",
            )
        return _Context(known_conversation(conversation_id, store).items, "conversation")
    if response_id is None:
        return _Context()
    stored = store.response(response_id)
    if stored is None:
        raise ApiError(
            400,
            f"response {response_id!r} not found; it may have been dropped",
            code="previous_response_not_found",
            param="previous_response_id",
        )
    return _Context(stored.items, "previous_response_id")


def _conversation_id(body: ResponsesRequest) -> str | None:
    given = body.conversation
    return given.id if isinstance(given, ConversationReference) else given


def _read_request(
    body: ResponsesRequest,
    context: _Context,
    given: list[dict[str, Any]],
    store: ResponseStore,
    settings: ServerSettings,
) -> GenerationRequest:
    field, response_format = body.constraint(_format(body), "text.format")
    names = [f"input[{index}]" for index in range(len(given))]
    messages, fields = messages_of_items(
        [*context.items, *given], [*[context.field] * len(context.items), *names]
    )
    if body.instructions is not None:
        # Instructions of a response do not apply to earlier or later ones.
        messages.insert(0, {"role": "system", "content": body.instructions})
        fields.insert(0, "instructions")

    def part_name(message: int, part: int) -> str:
        field = fields[message]
        is_earlier = field.partition(".")[0] == context.field
        return context.field if is_earlier else f"{field}[{part}]"

    check_urls(messages, part_name, is_allowed=settings.allow_image_urls)
    check_prompt_size(prompt_characters(messages), settings, "input")
    generation = Generation(
        messages, response_format, body.tools or None, body.tool_choice, _options(body)
    )
    is_stored = store.is_enabled and body.store is not False

    def store_response(response: ResponseObject) -> None:
        inputs, outputs = stored_inputs(given), stored_outputs(response.output)
        if is_stored:
            items = (*context.items, *inputs, *outputs)
            text = response.model_dump_json(exclude_unset=True)
            stored = StoredResponse(text, items, len(items) - len(outputs))
            store.put(response.id, stored)
        if response.conversation is not None:
            store.extend(response.conversation.id, (*inputs, *outputs))

    def encoder(lease: Lease) -> ResponsesEncoder:
        return ResponsesEncoder(
            _begun(body, lease.name, settings, is_stored=is_stored),
            lease.engine.vocabulary,
            on_finished=store_response,
            tokens=bool(body.include_tokens),
            confidence=bool(body.include_confidence),
        )

    return GenerationRequest(
        body.model,
        [generation],
        encoder,
        bool(body.stream),
        {**_NAMES, "response_format": field},
        body.draft_model,
        body.adapters,
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
    added: dict[str, Any] = {
        name: options[name] for name in ("top_k", "min_p") if getattr(body, name) is not None
    }
    conversation = _conversation_id(body)
    if conversation is not None:
        added["conversation"] = ConversationReference(id=conversation)
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
        parallel_tool_calls=options["parallel_tool_calls"],
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
        **added,
    )
