"""Items as they are stored and listed: with an id, a status, and a list of content parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from ..checks.texts import short_repr
from .encoders.encoder import new_id
from .errors import ApiError
from .response_store import Item, ResponseStore
from .schemas.items import ItemList
from .schemas.responses import OutputItem

_ID_PREFIXES = {
    "message": "msg_",
    "function_call": "fc_",
    "function_call_output": "fco_",
    "custom_tool_call": "ctc_",
    "custom_tool_call_output": "ctco_",
    "reasoning": "rs_",
}


def input_items(given: str | Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the input of a request as items. A text is one message of the user."""
    return [{"role": "user", "content": given}] if isinstance(given, str) else [*given]


def resolved(
    items: Sequence[dict[str, Any]], field: str, store: ResponseStore
) -> list[dict[str, Any]]:
    """Return items without null members, and with stored items in place of references to them.

    Args:
        items: The items of a request.
        field: The field of the request that has them.
        store: Finds items by id.

    Raises:
        ApiError: An item is not stored.
    """
    found = []
    for index, given in enumerate(items):
        item = {name: value for name, value in given.items() if value is not None}
        # The type of a reference is optional.
        if item.get("type") == "item_reference" or [*item] == ["id"]:
            id = item.get("id")
            stored = store.item(id) if isinstance(id, str) else None
            if stored is None:
                raise ApiError(
                    400,
                    f"item {short_repr(id)} not found; it may have been dropped",
                    code="item_not_found",
                    param=f"{field}[{index}]",
                )
            item = stored
        found.append(item)
    return found


def stored_inputs(items: Iterable[dict[str, Any]]) -> list[Item]:
    """Return valid items of a request as they are stored.

    Each gets a new id: a client may send one item twice, so its ids need not identify items.
    """
    return [_stored_input(item) for item in items]


def stored_outputs(items: Iterable[OutputItem]) -> list[Item]:
    """Return the output of a response as it is stored, without log-probabilities."""
    stored = []
    for item in items:
        fields = item.model_dump(exclude_unset=True)
        if fields["type"] == "message":
            for part in fields["content"]:
                part["logprobs"] = []
        stored.append(fields)
    return stored


def page(
    items: Sequence[Item], *, limit: int, order: Literal["asc", "desc"], after: str | None
) -> ItemList:
    """Return a page of a list of items.

    Args:
        items: All items, the oldest one first.
        limit: The maximum number of items of the page.
        order: ``"desc"`` begins with the newest item.
        after: The id of the item before the page.

    Raises:
        ApiError: No item has the id ``after``.
    """
    ordered = [*items] if order == "asc" else [*reversed(items)]
    if after is not None:
        ids = [item["id"] for item in ordered]
        if after not in ids:
            raise ApiError(404, f"item {after!r} not found", code="not_found", param="after")
        ordered = ordered[ids.index(after) + 1 :]
    shown = ordered[:limit]
    return whole_list(shown, has_more=len(ordered) > len(shown))


def whole_list(items: Sequence[Item], *, has_more: bool = False) -> ItemList:
    """Return items as a list of the interface."""
    return ItemList(
        object="list",
        data=[*items],
        first_id=items[0]["id"] if items else None,
        last_id=items[-1]["id"] if items else None,
        has_more=has_more,
    )


def _stored_input(item: dict[str, Any]) -> Item:
    kind = item.get("type", "message")
    stored = {**item, "id": new_id(_ID_PREFIXES[kind]), "type": kind, "status": "completed"}
    if kind == "message":
        is_output = item["role"] in ("assistant", "agent")
        stored["role"] = "assistant" if is_output else item["role"]
        stored["content"] = _parts(item["content"], is_output=is_output)
    elif kind == "reasoning":
        stored.setdefault("summary", [])
    return stored


def _parts(content: str | list[dict[str, Any]], *, is_output: bool) -> list[dict[str, Any]]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return [_part(part, is_output=is_output) for part in content]


def _part(part: dict[str, Any], *, is_output: bool) -> dict[str, Any]:
    match part["type"]:
        case "text" | "input_text" | "output_text" if is_output:
            return {"type": "output_text", "text": part["text"], "annotations": [], "logprobs": []}
        case "text" | "output_text":
            return {"type": "input_text", "text": part["text"]}
        case "input_image":
            return {**part, "detail": part.get("detail") or "auto"}
    return part
