"""The store of responses and conversations: its bounds, and items that responses share."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from proxy_engine.server import response_store
from proxy_engine.server.response_store import ResponseStore, StoredConversation, StoredResponse

IDS = count()


def item(text: str) -> dict[str, Any]:
    part = {"type": "input_image", "image_url": f"data:image/png;base64,{text}"}
    return {"id": f"msg_{next(IDS)}", "type": "message", "role": "user", "content": [part]}


def response(*items: dict[str, Any], body: str = "body") -> StoredResponse:
    return StoredResponse(body, items)


def size(*items: dict[str, Any]) -> int:
    return sum(len(json.dumps(one)) for one in items)


def test_shared_items_count_once() -> None:
    store = ResponseStore(10)
    image, answer = item("a" * 1000), item("b")
    store.put("1", response(image))
    store.put("2", response(image, answer))
    assert store.stored_bytes == 2 * len("body") + size(image, answer)
    assert store.remove("1")
    assert store.item(image["id"]) is image
    assert store.stored_bytes == len("body") + size(image, answer)
    assert store.remove("2")
    assert store.item(image["id"]) is None
    assert store.stored_bytes == 0
    assert not store.remove("2")


def test_oldest_entries_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    store = ResponseStore(2)
    for name in "123":
        store.put(name, response())
    assert [store.response(name) is None for name in "123"] == [True, False, False]
    monkeypatch.setattr(response_store, "_MAX_BYTES", 2000)
    store.put("4", response(item("a" * 1500), body=""))
    assert store.response("3") is not None
    store.put("5", response(item("b" * 1500), body=""))
    assert [store.response(name) is None for name in "345"] == [True, True, False]
    assert store.stored_bytes <= 2000


def test_entry_larger_than_the_store_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_store, "_MAX_BYTES", 2000)
    store = ResponseStore(2)
    store.put("1", response(item("a" * 3000)))
    assert store.response("1") is None
    assert store.stored_bytes == 0


def test_conversation_that_is_used_stays() -> None:
    store = ResponseStore(2)
    store.put("c", StoredConversation(0))
    store.put("1", response())
    store.extend("c", [item("a")])
    store.put("2", response())
    assert store.conversation("c") is not None
    assert store.response("1") is None


def test_conversation_and_its_responses_share_items() -> None:
    store = ResponseStore(10)
    first, second = item("a" * 100), item("b" * 100)
    store.put("c", StoredConversation(0))
    store.put("1", response(first, second, body=""))
    store.extend("c", [first, second])
    assert store.stored_bytes == size({}, first, second)
    left = store.remove_item("c", first["id"])
    assert left is not None
    assert left.items == (second,)
    assert store.stored_bytes == size({}, first, second)
    store.remove("1")
    assert store.stored_bytes == size({}, second)
    assert store.set_metadata("c", {"a": "b"}) is not None
    assert store.stored_bytes == size({"a": "b"}, second)


def test_names_of_responses_and_conversations_are_not_mixed_up() -> None:
    store = ResponseStore(10)
    store.put("c", StoredConversation(0))
    store.put("r", response())
    assert store.response("c") is None
    assert store.conversation("r") is None
    assert store.extend("r", [item("a")]) is None
    assert store.set_metadata("r", {}) is None
    assert store.remove_item("r", "msg") is None
