"""Conversations, input items and references to items, with OpenAI's client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_server import Live, serving_engine

from proxy_engine import InferenceEngine
from proxy_engine.server.stored_items import page

MODEL = "SmolLM2-135M-Instruct"
FREE: Any = {"extra_body": {"choice": ["yes", "no"]}}
IMAGE = "data:image/png;base64,AAAA"


def respond(client: openai.OpenAI, given: Any = "Hello", **more: Any) -> Any:
    asked = {"model": MODEL, "input": given, "max_output_tokens": 8, **FREE}
    return client.responses.create(**{**asked, **more})


def texts(items: Any) -> list[str]:
    return [item.content[0].text for item in items]


def refusal(caught: pytest.ExceptionInfo[openai.APIStatusError]) -> tuple[int, Any, Any]:
    body = caught.value.body
    assert isinstance(body, dict)
    return caught.value.status_code, body["code"], body["param"]


def test_response_continues_a_conversation_and_is_added_to_it(client: openai.OpenAI) -> None:
    conversation = client.conversations.create(
        items=[{"role": "developer", "content": "Be brief."}], metadata={"topic": "snow"}
    )
    assert conversation.id.startswith("conv_")
    assert conversation.metadata == {"topic": "snow"}
    first = respond(client, "Is snow white?", conversation=conversation.id)
    assert first.conversation.id == conversation.id
    second = respond(client, "Really?", conversation={"id": conversation.id})
    assert second.usage.input_tokens > first.usage.input_tokens
    items = list(client.conversations.items.list(conversation.id, order="asc"))
    expected = ["Be brief.", "Is snow white?", first.output_text, "Really?", second.output_text]
    assert texts(items) == expected
    assert [item.role for item in items] == ["developer", "user", "assistant", "user", "assistant"]
    assert all(item.status == "completed" and item.type == "message" for item in items)
    assert items[2].id == first.output[0].id
    same = respond(client, "Sure?", previous_response_id=second.id)
    assert (
        same.usage.input_tokens
        == respond(client, "Sure?", conversation=conversation.id, temperature=0).usage.input_tokens
    )


def test_streamed_and_unstored_responses_are_added_as_well(client: openai.OpenAI) -> None:
    conversation = client.conversations.create()
    events = list(respond(client, conversation=conversation.id, stream=True, store=False))
    assert events[-1].response.conversation.id == conversation.id
    listed = client.conversations.items.list(conversation.id)
    assert texts(listed) == [events[-1].response.output_text, "Hello"]
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(events[-1].response.id)


def test_added_items_are_answered_without_input(client: openai.OpenAI) -> None:
    conversation = client.conversations.create(items=[{"role": "user", "content": "Hello"}])
    response = client.responses.create(model=MODEL, conversation=conversation.id, **FREE)
    assert response.output_text in ("yes", "no")
    assert texts(client.responses.input_items.list(response.id)) == ["Hello"]
    assert texts(client.conversations.items.list(conversation.id)) == [
        response.output_text,
        "Hello",
    ]


def test_empty_conversation_is_not_answered_without_input(client: openai.OpenAI) -> None:
    conversation = client.conversations.create()
    with pytest.raises(openai.UnprocessableEntityError, match="input is missing"):
        client.responses.create(model=MODEL, conversation=conversation.id)


def test_stored_items_have_no_logprobs(client: openai.OpenAI) -> None:
    first = respond(client, include=["message.output_text.logprobs"])
    assert first.output[0].content[0].logprobs
    assert client.responses.retrieve(first.id).output[0].content[0].logprobs  # type: ignore[union-attr]
    second = respond(client, previous_response_id=first.id)
    (answer,) = (
        item
        for item in client.responses.input_items.list(second.id)
        if item.id == first.output[0].id
    )
    assert answer.content[0].logprobs == []  # type: ignore[union-attr]


def test_conversations_are_updated_and_deleted(client: openai.OpenAI) -> None:
    created = client.conversations.create(metadata={"a": "1"})
    assert client.conversations.retrieve(created.id) == created
    updated = client.conversations.update(created.id, metadata={"b": "2"})
    assert (updated.id, updated.metadata) == (created.id, {"b": "2"})
    assert updated.created_at == created.created_at
    deleted = client.conversations.delete(created.id)
    assert (deleted.id, deleted.object, deleted.deleted) == (
        created.id,
        "conversation.deleted",
        True,
    )
    for use in (
        lambda: client.conversations.retrieve(created.id),
        lambda: client.conversations.update(created.id, metadata={}),
        lambda: client.conversations.delete(created.id),
        lambda: client.conversations.items.list(created.id),
        lambda: client.conversations.items.create(
            created.id, items=[{"role": "user", "content": "a"}]
        ),
        lambda: respond(client, conversation=created.id),
    ):
        with pytest.raises(openai.NotFoundError) as caught:
            use()
        assert refusal(caught) == (404, "not_found", "conversation")


def test_items_are_added_read_and_removed(client: openai.OpenAI) -> None:
    id = client.conversations.create().id
    call = {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}"}
    added = client.conversations.items.create(
        id,
        items=[
            {"role": "user", "content": [{"type": "input_text", "text": "Oslo?"}]},
            {
                "type": "reasoning",
                "id": "mine",
                "summary": [{"type": "summary_text", "text": "Hm"}],
            },
            call,  # type: ignore[list-item]
            {"type": "function_call_output", "call_id": "c", "output": "sun"},
            {"role": "user", "content": [{"type": "input_image", "image_url": IMAGE}]},  # type: ignore[list-item, typeddict-item]
        ],
    )
    assert not added.has_more
    kinds = ["message", "reasoning", "function_call", "function_call_output", "message"]
    assert [item.type for item in added.data] == kinds
    assert (added.first_id, added.last_id) == (added.data[0].id, added.data[-1].id)
    assert len({item.id for item in added.data}) == len(kinds)
    found: Any = client.conversations.items.retrieve(added.data[2].id or "", conversation_id=id)
    assert (found.name, found.arguments, found.status) == ("weather", "{}", "completed")
    after = client.conversations.items.delete(found.id, conversation_id=id)
    assert after.id == id
    left = list(client.conversations.items.list(id, order="asc"))
    assert [item.id for item in left] == [item.id for item in added.data if item.id != found.id]
    for use in (client.conversations.items.retrieve, client.conversations.items.delete):
        with pytest.raises(openai.NotFoundError) as caught:
            use(found.id, conversation_id=id)
        assert refusal(caught) == (404, "not_found", "item_id")


@pytest.mark.parametrize(
    ("items", "param"),
    [
        ([{"role": "user", "content": "a"}, {"type": "web_search_call"}], "items[1]"),
        ([{"role": "user", "content": 3}], "items[0]"),
        ([{"role": "robot", "content": "a"}], "items[0]"),
        ([{"type": "item_reference", "id": "no-such"}], "items[0]"),
    ],
)
def test_invalid_items_are_refused_by_field(client: openai.OpenAI, items: Any, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.conversations.create(items=items)
    assert refusal(caught)[2] == param


def test_input_items_are_those_before_the_output(client: openai.OpenAI) -> None:
    first = respond(client, "One", instructions="Be brief.")
    assert texts(client.responses.input_items.list(first.id)) == ["One"]
    given = [{"role": "user", "content": "Two"}, {"role": "agent", "content": "Yes."}]
    second = respond(
        client, [*given, {"role": "user", "content": "Three"}], previous_response_id=first.id
    )
    listed = client.responses.input_items.list(second.id, limit=2, order="asc")
    assert listed.data[1].id == first.output[0].id
    assert listed.has_more
    assert texts(listed) == ["One", first.output_text, "Two", "Yes.", "Three"]
    roles = [item.role for item in client.responses.input_items.list(second.id, order="asc")]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    assert len({item.id for item in listed}) == 5
    newest = client.responses.input_items.list(second.id, limit=1).data
    assert texts(newest) == ["Three"]
    client.responses.delete(second.id)
    with pytest.raises(openai.NotFoundError) as caught:
        client.responses.input_items.list(second.id)
    assert refusal(caught) == (404, "not_found", "id")


@pytest.mark.parametrize(
    ("query", "param", "status"),
    [({"limit": 0}, "limit", 422), ({"order": "up"}, "order", 422), ({"after": "x"}, "after", 404)],
)
def test_invalid_page_is_refused(
    client: openai.OpenAI, query: Any, param: str, status: int
) -> None:
    conversation = client.conversations.create()
    with pytest.raises(openai.APIStatusError) as caught:
        client.conversations.items.list(conversation.id, **query)
    assert (refusal(caught)[0], refusal(caught)[2]) == (status, param)


@given(st.integers(0, 12), st.integers(1, 5), st.sampled_from(["asc", "desc"]))
def test_pages_have_every_item_once(count: int, limit: int, order: Any) -> None:
    items = [{"id": f"msg_{number}"} for number in range(count)]
    found: list[Any] = []
    after = None
    while True:
        one = page(items, limit=limit, order=order, after=after)
        found += one.data
        if not one.has_more:
            break
        after = one.last_id
    assert found == (items if order == "asc" else items[::-1])


def test_references_stand_for_stored_items(client: openai.OpenAI) -> None:
    first = respond(client, "Is snow white?")
    answer = first.output[0].id
    question = client.responses.input_items.list(first.id).data[0].id
    references = [
        {"type": "item_reference", "id": question},
        {"id": answer},
        {"role": "user", "content": "Really?"},
    ]
    second = respond(client, references)
    same = respond(client, "Really?", previous_response_id=first.id)
    assert second.usage.input_tokens == same.usage.input_tokens
    items = client.responses.input_items.list(second.id, order="asc")
    assert texts(items) == ["Is snow white?", first.output_text, "Really?"]
    with pytest.raises(openai.BadRequestError) as caught:
        respond(client, [{"role": "user", "content": "a"}, {"id": "no-such"}])
    assert refusal(caught) == (400, "item_not_found", "input[1]")


def test_null_members_of_items_are_missing(client: openai.OpenAI) -> None:
    message = {"type": None, "id": None, "status": None, "role": "user", "content": "Hello"}
    conversation = client.conversations.create(items=[message])  # type: ignore[list-item]
    (item,) = client.conversations.items.list(conversation.id)
    assert (item.type, item.status) == ("message", "completed")
    assert respond(client, [message]).output_text in ("yes", "no")


def test_conversation_excludes_an_earlier_response(client: openai.OpenAI) -> None:
    first, conversation = respond(client), client.conversations.create()
    with pytest.raises(openai.BadRequestError) as caught:
        respond(client, previous_response_id=first.id, conversation=conversation.id)
    assert refusal(caught) == (400, "conflicting_values", "conversation")


def test_roles_of_other_interfaces_are_read(client: openai.OpenAI) -> None:
    def tokens(system: str, assistant: str) -> int:
        messages: Any = [
            {"role": system, "content": "Be brief."},
            {"role": "user", "content": "Hello"},
            {"role": assistant, "content": "Hi."},
            {"role": "user", "content": "Well?"},
        ]
        response = respond(client, messages)
        answer = client.chat.completions.create(
            model=MODEL, messages=messages, max_tokens=8, **FREE
        )
        assert answer.usage is not None
        assert response.usage.input_tokens == answer.usage.prompt_tokens
        return int(response.usage.input_tokens)

    assert tokens("system", "assistant") == tokens("developer", "agent")


@pytest.fixture
def forgetful(roomy_engine: InferenceEngine) -> Iterator[Live]:
    with serving_engine(roomy_engine, stored_responses=0) as live:
        yield live


def test_server_without_a_store_creates_no_conversation(forgetful: Live) -> None:
    client = forgetful.client()
    with pytest.raises(openai.BadRequestError, match="--stored-responses"):
        client.conversations.create()
    assert respond(client).store is False


def test_unknown_keys_of_items_are_ignored_aloud(client: openai.OpenAI) -> None:
    message = {"role": "user", "content": "Hello", "colour": 1}
    reply = client.responses.with_raw_response.create(model=MODEL, input=[message], **FREE)  # type: ignore[list-item]
    assert reply.headers["X-Ignored-Fields"] == "input[].colour"
    added = client.conversations.with_raw_response.create(items=[message])  # type: ignore[list-item]
    assert added.headers["X-Ignored-Fields"] == "items[].colour"
