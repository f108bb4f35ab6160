"""What the router reads of requests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy_engine.runtime import process_runtime
from proxy_engine.server.encoders.encoder import new_id
from proxy_engine.server.id_prefixes import ITEM_ID_PREFIXES
from proxy_engine.server.router.prompts import PromptKeys, read_prompt, stored_on


def keys(**request: Any) -> PromptKeys:
    return read_prompt(json.dumps(request).encode())


def message(text: str, role: str = "user") -> dict[str, str]:
    return {"role": role, "content": text}


texts = st.builds(lambda text, count: text * count, st.text(max_size=5), st.integers(0, 500))
roles = st.sampled_from(["user", "assistant"])
conversations = st.lists(st.builds(message, texts, roles), max_size=4)


@settings(max_examples=50)
@given(conversations, conversations)
def test_blocks_of_a_conversation_begin_those_of_its_continuation(
    first: list[Any], added: list[Any]
) -> None:
    blocks = keys(messages=first).blocks
    assert keys(messages=[*first, *added]).blocks[: len(blocks)] == blocks
    assert sum(block.size for block in blocks) == sum(
        len(json.dumps(one, ensure_ascii=False, separators=(",", ":")).encode()) for one in first
    )


def test_equal_prompts_of_other_models_tools_and_instructions_differ() -> None:
    requests: list[dict[str, Any]] = [
        {},
        {"model": "a"},
        {"model": "a", "adapters": "b"},
        {"tools": [{"type": "function"}]},
        {"instructions": "Be brief."},
    ]
    found = [keys(messages=[message("Hello")], **request) for request in requests]
    assert len({prompt.blocks[-1].key for prompt in found}) == len(requests)
    assert found[0].model is None
    assert found[1].model != found[2].model


def test_settings_of_a_request_do_not_change_its_prompt() -> None:
    plain = keys(messages=[message("Hello")])
    assert keys(messages=[message("Hello")], temperature=0, stream=True) == plain


def test_long_texts_have_few_blocks_and_share_their_beginning() -> None:
    document = "word " * 100_000
    one, two = keys(prompt=document + "one").blocks, keys(prompt=document + "two").blocks
    assert len(one) < 15
    shared = [block.size for block, other in zip(one, two, strict=True) if block == other]
    assert sum(shared) > len(document) / 2


def test_blocks_are_bounded() -> None:
    assert len(keys(messages=[message("Hello")] * 5000).blocks) == 1000


@pytest.mark.parametrize("field", ["messages", "input", "prompt"])
def test_prompts_of_all_endpoints_are_read(field: str) -> None:
    assert keys(**{field: [message("Hello")]}).blocks == keys(messages=[message("Hello")]).blocks
    assert keys(**{field: "Hello"}).blocks


@settings(max_examples=50)
@given(st.binary(max_size=20) | st.sampled_from(["null", "[]", '{"messages": {"a": NaN}}', "{}"]))
def test_any_body_has_keys(body: bytes | str) -> None:
    read_prompt(body if isinstance(body, bytes) else body.encode())


def test_body_with_too_many_values_is_not_parsed() -> None:
    assert read_prompt(b'{"messages": [' + b"1," * 400_000 + b"1]}") == PromptKeys()


def test_stored_ids_name_their_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_runtime, "_worker", 37)
    response, conversation, item = new_id("resp_"), new_id("conv_"), new_id("msg_")
    assert stored_on(f"/v1/responses/{response}/input_items") == 37
    assert keys(input="Hello", previous_response_id=response).worker == 37
    assert keys(input="Hello", conversation=conversation).worker == 37
    assert keys(input="Hello", conversation={"id": conversation}).worker == 37
    assert keys(input=[{"type": "item_reference", "id": item}]).worker == 37
    assert keys(items=[{"id": item}]).worker == 37
    for prefix in ITEM_ID_PREFIXES.values():
        assert keys(items=[{"id": new_id(prefix)}]).worker == 37
    # An id in a text is none.
    assert keys(input=f"What is {response}?").worker is None
    assert keys(messages=[message(response)]).worker is None
    assert stored_on("/v1/responses/unknown") is None
    assert len({new_id("resp_") for _ in range(100)}) == 100
