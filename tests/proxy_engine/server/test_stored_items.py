"""Items as they are stored."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.server.response_items import messages_of_items
from proxy_engine.server.stored_items import stored_inputs

TEXTS = st.text("ab ", max_size=3)
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}


def parts(kind: str) -> st.SearchStrategy[Any]:
    written = st.fixed_dictionaries({"type": st.sampled_from(["text", kind]), "text": TEXTS})
    return TEXTS | st.lists(written, max_size=3)


def message(roles: list[str], content: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"role": st.sampled_from(roles), "content": content},
        optional={"type": st.just("message"), "id": st.just("msg_1")},
    )


ITEMS = st.lists(
    message(["user", "system", "developer"], parts("input_text") | st.just([IMAGE]))
    | message(["assistant", "agent"], parts("output_text"))
    | st.fixed_dictionaries(
        {
            "type": st.just("function_call"),
            "call_id": st.sampled_from("cd"),
            "name": TEXTS,
            "arguments": st.just("{}"),
        }
    )
    | st.fixed_dictionaries(
        {
            "type": st.just("function_call_output"),
            "call_id": st.sampled_from("cd"),
            "output": parts("input_text"),
        }
    )
    | st.fixed_dictionaries(
        {"type": st.just("reasoning")},
        optional={
            "summary": st.just([{"type": "summary_text", "text": "s"}]),
            "content": st.just([{"type": "reasoning_text", "text": "r"}]),
        },
    ),
    max_size=5,
)


def messages(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return messages_of_items(items, [""] * len(items))[0]


@given(ITEMS)
def test_stored_items_are_the_same_messages(items: list[dict[str, Any]]) -> None:
    before = copy.deepcopy(items)
    stored = stored_inputs(items)
    assert items == before
    assert messages(stored) == messages(items)
    assert messages(stored_inputs(stored)) == messages(items)


@given(ITEMS)
def test_stored_items_have_ids_of_their_own_and_a_type(items: list[dict[str, Any]]) -> None:
    stored = stored_inputs([*items, *items])
    assert len({item["id"] for item in stored}) == len(stored)
    assert all(item["status"] == "completed" for item in stored)
    assert all(isinstance(item["content"], list) for item in stored if item["type"] == "message")
    json.dumps(stored)


def test_roles_of_stored_messages_are_openais() -> None:
    (item,) = stored_inputs([{"role": "agent", "content": "Hi"}])
    part = {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}
    assert (item["role"], item["content"]) == ("assistant", [part])
