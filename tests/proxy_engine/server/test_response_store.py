"""The store of responses and its bounds."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from pydantic_core import to_json

from proxy_engine.server import response_store
from proxy_engine.server.response_store import ResponseStore, StoredResponse

IDS = count()


def item(text: str) -> dict[str, Any]:
    return {"id": f"msg_{next(IDS)}", "type": "message", "role": "assistant", "content": text}


def response(*outputs: dict[str, Any], earlier: StoredResponse | None = None) -> StoredResponse:
    return StoredResponse.after(earlier, b"body", [{"role": "user", "content": "Hi"}], outputs)


def test_response_continues_an_earlier_one() -> None:
    first, second = item("a"), item("b")
    begun = response(first)
    longer = response(second, earlier=begun)
    assert longer.items == (*begun.items, longer.items[2], second)
    assert longer.own_items == (second,)
    assert longer.size == len(b"body") + sum(len(to_json(one)) for one in longer.items)


def test_removed_response_takes_its_output_along() -> None:
    store = ResponseStore(10)
    first, second = item("a"), item("b")
    store.put("1", response(first))
    store.put("2", response(second, earlier=store.response("1")))
    assert store.remove("1")
    assert not store.remove("1")
    assert (store.item(first["id"]), store.item(second["id"])) == (None, second)
    assert store.remove("2")
    assert store.stored_bytes == 0


def test_oldest_responses_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    store = ResponseStore(2)
    for name in "123":
        store.put(name, response())
    assert [store.response(name) is None for name in "123"] == [True, False, False]
    monkeypatch.setattr(response_store, "_MAX_BYTES", 2000)
    store.put("4", response(item("a" * 1500)))
    store.put("5", response(item("b" * 1500)))
    assert [store.response(name) is None for name in "345"] == [True, True, False]
    assert store.stored_bytes <= 2000
    store.put("6", response(item("c" * 3000)))
    assert store.response("6") is None
    assert store.stored_bytes == 0
