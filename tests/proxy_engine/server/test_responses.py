"""Responses with OpenAI's client."""

from __future__ import annotations

import json
from itertools import count
from typing import Any, Literal

import openai
import pytest
from object_schemas import closed_object
from pydantic import BaseModel
from pydantic_core import to_json

from proxy_engine.server import response_items
from proxy_engine.server.response_items import ResponseStore, StoredResponse

TOOL: Any = {
    "type": "function",
    "name": "weather",
    "description": "Tell the weather.",
    "strict": True,
    "parameters": closed_object(city={"enum": ["Lima", "Oslo"]}),
}
SCHEMA: Any = {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"]}


class Review(BaseModel):
    stars: Literal[1, 2, 3]


def respond(client: openai.OpenAI, given: Any = "Hello", **more: Any) -> Any:
    asked = {"model": "SmolLM2-135M-Instruct", "input": given, "max_output_tokens": 12}
    return client.responses.create(**{**asked, **more})


def test_schema_in_the_prompt_is_counted(client: openai.OpenAI) -> None:
    body = {"guided_json": {"enum": ["yes", "no"]}}
    plain = respond(client, extra_body=body)
    told = respond(client, extra_body={**body, "schema_in_prompt": "outline"})
    assert told.usage.input_tokens > plain.usage.input_tokens


def test_response_has_openais_fields(client: openai.OpenAI) -> None:
    response = respond(client)
    assert response.object == "response"
    assert response.status in ("completed", "incomplete")
    assert response.output[-1].type == "message"
    assert response.output_text == response.output[-1].content[0].text
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    if response.status == "incomplete":
        assert response.incomplete_details.reason == "max_output_tokens"


def test_stream_has_the_text_of_the_whole_response(client: openai.OpenAI) -> None:
    whole = respond(client, temperature=0)
    events = list(respond(client, temperature=0, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:-1] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
    ]
    assert kinds[-1] in ("response.completed", "response.incomplete")
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert text == whole.output_text == events[-1].response.output_text
    # Cached tokens differ: the second request finds the prompt of the first.
    counts = {"input_tokens", "output_tokens", "total_tokens"}
    assert whole.usage is not None
    assert events[-1].response.usage.model_dump(include=counts) == whole.usage.model_dump(
        include=counts
    )


def test_client_parses_into_a_pydantic_model(client: openai.OpenAI) -> None:
    response = client.responses.parse(
        model="SmolLM2-135M-Instruct", input="Hello", text_format=Review, max_output_tokens=40
    )
    assert isinstance(response.output_parsed, Review)
    assert response.status == "completed"


def test_client_streams_into_a_pydantic_model(client: openai.OpenAI) -> None:
    with client.responses.stream(
        model="SmolLM2-135M-Instruct", input="Hello", text_format=Review, max_output_tokens=40
    ) as stream:
        for _ in stream:
            pass
        assert isinstance(stream.get_final_response().output_parsed, Review)


def test_formats_shape_the_text(client: openai.OpenAI) -> None:
    text = {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA, "strict": True}}
    response = respond(client, text=text, max_output_tokens=200)
    assert json.loads(response.output_text)["a"] == 1
    response = respond(client, text={"format": {"type": "text"}})
    assert response.text.format.type == "text"
    response = respond(client, extra_body={"choice": ["yes", "no"]})
    assert response.output_text in ("yes", "no")


def test_conversation_continues_after_a_tool_call(client: openai.OpenAI) -> None:
    given: list[Any] = [{"role": "user", "content": "Oslo?"}]
    tools: Any = {"tools": [TOOL], "parallel_tool_calls": False}
    response = respond(client, given, tool_choice="required", max_output_tokens=200, **tools)
    (call,) = (item for item in response.output if item.type == "function_call")
    assert json.loads(call.arguments)["city"] in ("Lima", "Oslo")
    assert call.status == "completed"
    given += response.output
    given.append({"type": "function_call_output", "call_id": call.call_id, "output": "sun"})
    again = respond(client, given, tool_choice="none", **tools)
    assert again.output[-1].type == "message"


def test_tool_calls_are_streamed_in_pieces(client: openai.OpenAI) -> None:
    events = list(
        respond(
            client,
            tools=[TOOL],
            tool_choice={"type": "function", "name": "weather"},
            max_output_tokens=200,
            stream=True,
        )
    )
    deltas = "".join(e.delta for e in events if e.type == "response.function_call_arguments.delta")
    (done,) = (e for e in events if e.type == "response.function_call_arguments.done")
    assert deltas == done.arguments
    assert events[-1].response.output[-1].arguments == deltas
    assert events[-1].type == "response.completed"


def test_previous_response_is_continued(client: openai.OpenAI) -> None:
    first = respond(client, instructions="Be brief.")
    second = respond(client, "More", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert second.usage.input_tokens > respond(client, "More").usage.input_tokens
    with pytest.raises(openai.BadRequestError) as caught:
        respond(client, previous_response_id="resp_0")
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["code"] == "previous_response_not_found"


def test_sampling_parameters_of_the_request_are_repeated(client: openai.OpenAI) -> None:
    response = respond(client, extra_body={"top_k": 7, "min_p": 0.5})
    assert (response.model_extra["top_k"], response.model_extra["min_p"]) == (7, 0.5)
    assert not {"top_k", "min_p"} & set(respond(client).model_extra)


def test_stored_response_is_neither_returned_nor_deleted(client: openai.OpenAI) -> None:
    response = respond(client)
    for call in (
        client.responses.retrieve,
        client.responses.delete,
        client.responses.input_items.list,
    ):
        with pytest.raises(openai.NotFoundError, match="continue it with 'previous_response_id'"):
            call(response.id)
    assert respond(client, "More", previous_response_id=response.id)


def test_store_false_stores_nothing(client: openai.OpenAI) -> None:
    response = respond(client, store=False)
    with pytest.raises(openai.BadRequestError, match="not found"):
        respond(client, "More", previous_response_id=response.id)


def test_reasoning_is_an_item(client: openai.OpenAI) -> None:
    response = respond(
        client,
        [
            {"type": "reasoning", "id": "r", "summary": [], "content": [
                {"type": "reasoning_text", "text": "Hm"}]},
            {"type": "message", "role": "assistant", "content": [
                {"type": "output_text", "text": "Yes", "annotations": []}]},
            {"role": "developer", "content": "Think."},
            {"role": "user", "content": [{"type": "input_text", "text": "Well?"}]},
        ],
        reasoning={"effort": "low"},
        extra_body={"choice": ["yes", "no"]},
        max_output_tokens=60,
    )  # fmt: skip
    assert response.output_text in ("yes", "no")
    assert response.output[-1].type == "message"


@pytest.mark.parametrize(
    ("given", "status", "param"),
    [
        ({"input": []}, 400, "input"),
        ({"input": [{"type": "item_reference", "id": "a"}]}, 400, "input[0]"),
        ({"input": [{"role": "user", "content": [{"type": "x"}]}]}, 400, "input[0]"),
        ({"input": [{"role": "user", "content": 3}]}, 400, "input[0]"),
        (
            {
                "input": [
                    {"role": "user", "content": [{"type": "input_text", "text": "a", "size": 1}]}
                ]
            },
            400,
            "input[0]",
        ),
        ({"input": [{"type": ["message"], "content": "a"}]}, 400, "input[0]"),
        (
            {"text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": 3}}}},
            400,
            "text.format",
        ),
        ({"tools": [{"type": "function"}]}, 400, "tools[0]"),
        ({"extra_body": {"choice": ["a" * 40]}}, 400, "max_output_tokens"),
        ({"extra_body": {"draft_model": "no-such"}}, 404, "draft_model"),
        ({"extra_body": {"speculation": "on"}}, 400, "speculation"),
        ({"background": True}, 400, "background"),
        ({"truncation": "always"}, 400, "truncation"),
        ({"prompt": {"id": "pmpt_1"}}, 400, "prompt"),
    ],
)
def test_invalid_request_is_refused_by_field(
    client: openai.OpenAI, given: dict[str, Any], status: int, param: str
) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        respond(client, **given) if "input" not in given else client.responses.create(
            model="SmolLM2-135M-Instruct", **given
        )
    assert caught.value.status_code == status
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["param"] == param


def test_logprobs_and_tokens_cover_the_text(client: openai.OpenAI) -> None:
    include: Any = ["message.output_text.logprobs"]
    letters = {"regex": "[a-z]{3,5}"}
    response = respond(client, include=include, top_logprobs=1, temperature=0, extra_body=letters)
    told = response.output[-1].content[0].logprobs
    assert "".join(token.token for token in told) == response.output_text
    events = list(
        respond(
            client,
            include=include,
            top_logprobs=1,
            temperature=0,
            stream=True,
            extra_body={"include_tokens": True, **letters},
        )
    )
    streamed = [
        token.token
        for event in events
        if event.type == "response.output_text.delta"
        for token in event.logprobs
    ]
    assert streamed == [token.token for token in told][: len(streamed)]
    tokens = [event for event in events if event.type == "proxy_engine.token"]
    assert len(tokens) == events[-1].response.usage.output_tokens


# The store of responses and its bounds.


IDS = count()


def item(text: str) -> dict[str, Any]:
    return {"id": f"msg_{next(IDS)}", "type": "message", "role": "assistant", "content": text}


def response(*outputs: dict[str, Any], earlier: StoredResponse | None = None) -> StoredResponse:
    return StoredResponse.after(earlier, [{"role": "user", "content": "Hi"}], outputs)


def test_response_continues_an_earlier_one() -> None:
    first, second = item("a"), item("b")
    begun = response(first)
    longer = response(second, earlier=begun)
    assert longer.items == (*begun.items, longer.items[2], second)
    assert longer.own_items == (second,)
    assert longer.size == sum(len(to_json(one)) for one in longer.items)


def test_dropped_response_takes_its_output_along() -> None:
    store = ResponseStore(1)
    first, second = item("a"), item("b")
    store.put("1", response(first))
    store.put("2", response(second, earlier=store.response("1")))
    assert (store.item(first["id"]), store.item(second["id"])) == (None, second)


def test_oldest_responses_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    store = ResponseStore(2)
    for name in "123":
        store.put(name, response())
    assert [store.response(name) is None for name in "123"] == [True, False, False]
    monkeypatch.setattr(response_items, "_MAX_BYTES", 2000)
    store.put("4", response(item("a" * 1500)))
    store.put("5", response(item("b" * 1500)))
    assert [store.response(name) is None for name in "345"] == [True, True, False]
    assert store.stored_bytes <= 2000
    store.put("6", response(item("c" * 3000)))
    assert store.response("6") is None
    assert store.stored_bytes == 0
