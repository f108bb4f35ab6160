"""Items of the Responses interface: input, and lists of stored items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field

from .common import ResponseModel

ITEM_KEYS: Mapping[str, frozenset[str]] = {
    "message": frozenset({"role", "content", "phase"}),
    "function_call": frozenset({"call_id", "name", "arguments", "parsed_arguments"}),
    "function_call_output": frozenset({"call_id", "output", "name"}),
    "custom_tool_call": frozenset({"call_id", "name", "input"}),
    "custom_tool_call_output": frozenset({"call_id", "output", "name"}),
    "reasoning": frozenset({"content", "summary", "encrypted_content"}),
    "item_reference": frozenset(),
}
"""By type: keys of items. Clients send back the output of a response with keys that no model reads.
All types have ``type``, ``id`` and ``status``."""

_COMMON_KEYS = frozenset({"type", "id", "status"})

PAGE = 20
"""The number of items of a page if a request does not say, as in OpenAI's API."""

PageLimit = Annotated[int, Query(ge=1, le=100)]
"""The query parameter for the maximum number of items of a page."""

PageOrder = Literal["asc", "desc"]
"""The query parameter for the order of items; ``"desc"`` begins with the newest one."""


class ItemList(ResponseModel):
    """A page of items."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None = Field(description="The id of the first item of the page.")
    last_id: str | None = Field(description="The id of the last item of the page.")
    has_more: bool


def unknown_item_keys(items: object) -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each key that items of their types do not have."""
    for item in items if isinstance(items, list) else ():
        known = ITEM_KEYS.get(str(item.get("type", "message")))
        if known is not None:
            for name, value in item.items():
                if name not in known and name not in _COMMON_KEYS and value is not None:
                    yield f"[].{name}", value
