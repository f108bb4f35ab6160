"""``/v1/conversations``: conversations that responses continue."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from ..encoders.encoder import new_id, seconds_now
from ..errors import ApiError
from ..response_items import messages_of_items
from ..response_store import Item, ResponseStore, StoredConversation
from ..schemas.common import json_reply
from ..schemas.conversations import (
    Conversation,
    ConversationRequest,
    ConversationUpdate,
    DeletedConversation,
    ItemsRequest,
)
from ..schemas.items import PAGE, ItemList, PageLimit, PageOrder
from ..services import ServicesOfRequest
from ..stored_items import page, resolved, stored_inputs, whole_list
from .generating import generating_router

router = generating_router()


@router.post("/conversations", response_model=Conversation)
async def create_conversation(
    request: Request, services: ServicesOfRequest, body: ConversationRequest | None = None
) -> Response:
    """Create a conversation."""
    body = body or ConversationRequest()
    services.unknown_fields.check(request, body)
    store = services.responses
    if not store.is_enabled:
        raise ApiError(
            400,
            "the server stores no conversations; its setting is --stored-responses",
            code="unsupported",
        )
    id = new_id("conv_")
    items = _read_items(body.items or [], store)
    conversation = StoredConversation(seconds_now(), body.metadata or {}, tuple(items))
    store.put(id, conversation)
    return _reply(id, conversation)


@router.get("/conversations/{id}", response_model=Conversation)
async def get_conversation(id: str, services: ServicesOfRequest) -> Response:
    """Return a conversation, without its items."""
    return _reply(id, known_conversation(id, services.responses))


@router.post("/conversations/{id}", response_model=Conversation)
async def update_conversation(
    id: str, body: ConversationUpdate, request: Request, services: ServicesOfRequest
) -> Response:
    """Replace the metadata of a conversation."""
    services.unknown_fields.check(request, body)
    return _reply(id, _known(id, services.responses.set_metadata(id, body.metadata or {})))


@router.delete("/conversations/{id}", response_model=DeletedConversation)
async def delete_conversation(id: str, services: ServicesOfRequest) -> Response:
    """Delete a conversation. Its responses stay."""
    known_conversation(id, services.responses)
    services.responses.remove(id)
    return json_reply(DeletedConversation(id=id, object="conversation.deleted", deleted=True))


@router.post("/conversations/{id}/items", response_model=ItemList)
async def add_items(
    id: str, body: ItemsRequest, request: Request, services: ServicesOfRequest
) -> Response:
    """Add items to a conversation."""
    services.unknown_fields.check(request, body)
    items = _read_items(body.items, services.responses)
    _known(id, services.responses.extend(id, items))
    return json_reply(whole_list(items))


@router.get("/conversations/{id}/items", response_model=ItemList)
async def list_items(
    id: str,
    services: ServicesOfRequest,
    limit: PageLimit = PAGE,
    order: PageOrder = "desc",
    after: str | None = None,
) -> Response:
    """List the items of a conversation."""
    items = known_conversation(id, services.responses).items
    return json_reply(page(items, limit=limit, order=order, after=after))


@router.get("/conversations/{id}/items/{item_id}", response_model=dict[str, Any])
async def get_item(id: str, item_id: str, services: ServicesOfRequest) -> Response:
    """Return an item of a conversation."""
    for item in known_conversation(id, services.responses).items:
        if item["id"] == item_id:
            return JSONResponse(item)
    raise _item_not_found(item_id)


@router.delete("/conversations/{id}/items/{item_id}", response_model=Conversation)
async def delete_item(id: str, item_id: str, services: ServicesOfRequest) -> Response:
    """Remove an item from a conversation, and return the conversation."""
    known_conversation(id, services.responses)
    left = services.responses.remove_item(id, item_id)
    if left is None:
        raise _item_not_found(item_id)
    return _reply(id, left)


def known_conversation(id: str, store: ResponseStore) -> StoredConversation:
    """Return a stored conversation.

    Raises:
        ApiError: There is no conversation of that id.
    """
    return _known(id, store.conversation(id))


def _known(id: str, conversation: StoredConversation | None) -> StoredConversation:
    if conversation is None:
        raise ApiError(
            404,
            f"conversation {id!r} not found; it may have been dropped",
            code="not_found",
            param="conversation",
        )
    return conversation


def _item_not_found(id: str) -> ApiError:
    return ApiError(404, f"item {id!r} not found", code="not_found", param="item_id")


def _read_items(given: list[dict[str, Any]], store: ResponseStore) -> list[Item]:
    items = resolved(given, "items", store)
    # Checks the items.
    messages_of_items(items, [f"items[{index}]" for index in range(len(items))])
    return stored_inputs(items)


def _reply(id: str, conversation: StoredConversation) -> Response:
    return json_reply(
        Conversation(
            id=id,
            object="conversation",
            created_at=conversation.created_at,
            metadata=conversation.metadata,
        )
    )
