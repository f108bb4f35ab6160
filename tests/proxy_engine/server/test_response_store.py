"""The store of responses: its bounds, and messages that responses share."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy_engine.server import response_store
from proxy_engine.server.response_store import ResponseStore, StoredResponse


def message(text: str) -> dict[str, Any]:
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{text}"}}
    return {"role": "user", "content": [part]}


def size(*messages: dict[str, Any]) -> int:
    return sum(len(json.dumps(one)) for one in messages)


def test_shared_messages_count_once() -> None:
    store = ResponseStore(10)
    image, answer = message("a" * 1000), {"role": "assistant", "content": "b"}
    store.put("1", StoredResponse("body", [image]))
    store.put("2", StoredResponse("body", [image, answer]))
    assert store.stored_bytes == 2 * len("body") + size(image, answer)
    assert store.remove("1")
    assert store.stored_bytes == len("body") + size(image, answer)
    assert store.remove("2")
    assert store.stored_bytes == 0
    assert not store.remove("2")


def test_response_that_is_stored_again_counts_once() -> None:
    store = ResponseStore(10)
    image = message("a")
    for _ in range(2):
        store.put("1", StoredResponse("body", [image, image]))
    assert store.stored_bytes == len("body") + size(image)


def test_oldest_responses_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    store = ResponseStore(2)
    for name in "123":
        store.put(name, StoredResponse("body", []))
    assert [store.get(name) is None for name in "123"] == [True, False, False]
    monkeypatch.setattr(response_store, "_MAX_BYTES", 2000)
    store.put("4", StoredResponse("", [message("a" * 1500)]))
    assert store.get("3") is not None
    store.put("5", StoredResponse("", [message("b" * 1500)]))
    assert [store.get(name) is None for name in "345"] == [True, True, False]
    assert store.stored_bytes <= 2000
