"""Anthropic's messages with its own client, and with the requests of a coding agent."""

from __future__ import annotations

import base64
import io
import json
from typing import Any, Literal

import anthropic
import httpx
import pytest
from live_server import Live
from PIL import Image
from pydantic import BaseModel

from proxy_engine.server.unknown_fields import HEADER

HELLO: Any = [{"role": "user", "content": "Hello"}]
WEATHER: Any = {
    "name": "weather",
    "description": "Tell the weather.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"enum": ["Lima", "Oslo"]}},
        "required": ["city"],
    },
    "cache_control": {"type": "ephemeral"},
}
MODEL = "SmolLM2-135M-Instruct"


class Review(BaseModel):
    stars: Literal[1, 2, 3]
    # The client leaves limits of lengths out of the schema.
    word: Literal["fine", "poor"]


@pytest.fixture(scope="module")
def claude(live: Live) -> anthropic.Anthropic:
    return live.claude()


def create(client: anthropic.Anthropic, **given: Any) -> Any:
    extra = {"temperature": 0, **given.pop("extra_body", {})}
    return client.messages.create(
        **{"model": MODEL, "messages": HELLO, "max_tokens": 12, "extra_body": extra, **given}
    )


def post(live: Live, path: str = "messages", **given: Any) -> httpx.Response:
    with live.http() as http:
        return http.post(f"/v1/{path}", json={"messages": HELLO, "max_tokens": 12, **given})


def test_message_has_anthropics_fields(claude: anthropic.Anthropic) -> None:
    message = create(claude)
    assert (message.type, message.role, message.model) == ("message", "assistant", MODEL)
    assert message.id.startswith("msg_")
    assert [block.type for block in message.content] == ["text"]
    assert message.stop_reason in ("end_turn", "max_tokens")
    assert 0 < message.usage.output_tokens <= 12
    assert message.usage.input_tokens + message.usage.cache_read_input_tokens > 0
    anthropic.types.Message.model_validate(message.to_dict(), strict=True)


def test_stream_has_the_events_and_the_text_of_the_whole_message(
    claude: anthropic.Anthropic,
) -> None:
    whole = create(claude)
    with claude.messages.stream(
        model=MODEL, messages=HELLO, max_tokens=12, extra_body={"temperature": 0}
    ) as stream:
        kinds = [event.type for event in stream]
        message = stream.get_final_message()
    assert message.content[0].text == whole.content[0].text
    assert message.usage.output_tokens == whole.usage.output_tokens
    assert message.stop_reason == whole.stop_reason
    assert list(dict.fromkeys(kinds)) == [
        *("message_start", "content_block_start", "content_block_delta", "text"),
        *("content_block_stop", "message_delta", "message_stop"),
    ]


async def test_async_client_streams(live: Live) -> None:
    async with anthropic.AsyncAnthropic(base_url=live.url, auth_token="none") as client:
        stream = await client.messages.create(
            model=MODEL, messages=HELLO, max_tokens=12, stream=True
        )
        kinds = [event.type async for event in stream]
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"


def test_text_matches_a_schema(claude: anthropic.Anthropic) -> None:
    message = claude.messages.parse(
        model=MODEL, messages=HELLO, max_tokens=80, output_format=Review
    )
    assert isinstance(message.parsed_output, Review)
    with claude.messages.stream(
        model=MODEL, messages=HELLO, max_tokens=80, output_format=Review
    ) as stream:
        assert isinstance(stream.get_final_message().parsed_output, Review)


def test_extension_fields_constrain_the_text(claude: anthropic.Anthropic) -> None:
    message = create(claude, extra_body={"regex": "[ab]{3}!"})
    assert message.content[0].text[3:] == "!"


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "weather"}])
def test_tool_is_called_and_its_result_is_read(
    claude: anthropic.Anthropic, choice: dict[str, Any]
) -> None:
    tools = [WEATHER, {"type": "web_search_20250305", "name": "web_search"}]
    choice = {**choice, "disable_parallel_tool_use": True}
    message = create(claude, tools=tools, tool_choice=choice, max_tokens=100)
    assert message.stop_reason == "tool_use"
    calls = [block for block in message.content if block.type == "tool_use"]
    assert all(call.input["city"] in ("Lima", "Oslo") for call in calls)
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": "Sunny."} for call in calls
    ]
    conversation = [
        *HELLO,
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": [*results, {"type": "text", "text": "And?"}]},
    ]
    after = create(claude, messages=conversation, tools=tools, tool_choice={"type": "none"})
    assert [block.type for block in after.content] == ["text"]


def test_streamed_input_of_a_tool_is_its_json(claude: anthropic.Anthropic) -> None:
    given: Any = {"model": MODEL, "messages": HELLO, "max_tokens": 100, "tools": [WEATHER]}
    with claude.messages.stream(
        **given, tool_choice={"type": "any", "disable_parallel_tool_use": True}
    ) as stream:
        pieces = [event.partial_json for event in stream if event.type == "input_json"]
        (block,) = stream.get_final_message().content
    assert json.loads("".join(pieces)) == block.input


def test_stop_sequence_is_named(claude: anthropic.Anthropic) -> None:
    text = create(claude).content[0].text
    stop = text[3:5]
    message = create(claude, stop_sequences=["never written", stop])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop)
    assert message.content[0].text == text[: text.index(stop)]


def test_last_message_of_the_assistant_is_continued(live: Live) -> None:
    begun = [*HELLO, {"role": "assistant", "content": "Well"}]
    counts = [
        post(live, "messages/count_tokens", messages=messages).json()["input_tokens"]
        for messages in (HELLO, begun)
    ]
    assert counts[1] > counts[0]


def test_tokens_are_counted_as_generation_counts_them(claude: anthropic.Anthropic) -> None:
    given: Any = {"system": "Be brief.", "tools": [WEATHER], "tool_choice": {"type": "any"}}
    counted = claude.messages.count_tokens(model=MODEL, messages=HELLO, **given)
    usage = create(claude, **given, max_tokens=100).usage
    assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens


def test_requests_of_a_coding_agent_are_answered(live: Live) -> None:
    ephemeral = {"cache_control": {"type": "ephemeral"}}
    tools = [{**WEATHER, "name": f"tool_{number}"} for number in range(12)]
    calls = [
        {"type": "tool_use", "id": f"toolu_{n}", "name": f"tool_{n}", "input": {"city": "Lima"}}
        for n in range(3)
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "toolu_0", "content": "Sunny.", "is_error": False},
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "Rain"}]},
        {"type": "tool_result", "tool_use_id": "toolu_2", **ephemeral},
    ]  # fmt: skip
    reply = post(
        live,
        model=MODEL,
        system=[{"type": "text", "text": "You are an agent.", **ephemeral}, {"type": "text", "text": "Work."}],
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "Look.", **ephemeral}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "I look."}, *calls]},
            {"role": "user", "content": [*results, {"type": "text", "text": "<reminder/>"}]},
        ],
        tools=tools,
        tool_choice={"type": "auto"},
        thinking={"type": "enabled", "budget_tokens": 1024},
        output_config={"effort": "high"},
        metadata={"user_id": "u"},
        context_management={"edits": []},
        betas=["new-thing-2027-01-01"],
        stream=True,
        max_tokens=60,
    )  # fmt: skip
    assert reply.status_code == 200, reply.text
    assert reply.headers[HEADER] == "context_management, betas"
    assert reply.text.rstrip().endswith('data: {"type":"message_stop"}')


def test_images_are_read_by_a_model_that_reads_them(vision: Live) -> None:
    file = io.BytesIO()
    Image.new("RGB", (32, 32), "red").save(file, "PNG")
    data = base64.b64encode(file.getvalue()).decode()
    source = {"type": "base64", "media_type": "image/png", "data": data}
    content = [{"type": "image", "source": source}, {"type": "text", "text": "What is it?"}]
    client = vision.claude()
    message = client.messages.create(
        model="default_model", max_tokens=4, messages=[{"role": "user", "content": content}]
    )
    assert message.usage.output_tokens > 0
    source["data"] = "no image"
    with pytest.raises(anthropic.BadRequestError, match=r"messages\[0\].content\[0\]"):
        client.messages.create(
            model="default_model", max_tokens=4, messages=[{"role": "user", "content": content}]
        )


@pytest.mark.parametrize(
    ("given", "status", "kind", "what"),
    [
        ({"model": "nope"}, 404, "not_found_error", "model 'nope' not found"),
        ({"messages": []}, 400, "invalid_request_error", "messages must contain at least one item"),
        ({"max_tokens": "many"}, 400, "invalid_request_error", "should be a valid integer"),
        ({"max_tokens": 3, "output_config": {"format": {"type": "json_schema", "schema": {"const": "long text"}}}}, 400, "invalid_request_error", "max_tokens"),
        ({"messages": [{"role": "user", "content": [{"type": "server_tool_use"}]}]}, 400, "invalid_request_error", "server_tool_use"),
        ({"tools": [{"name": "a b", "input_schema": {}}]}, 400, "invalid_request_error", "a b"),
        ({"tool_choice": {"type": "tool", "name": "nope"}}, 400, "invalid_request_error", "nope"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool"}}, 400, "invalid_request_error", "tool_choice"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": 5}]}]}, 400, "invalid_request_error", "neither a text nor a list"),
        ({"guided": 1}, 400, "invalid_request_error", "guided"),
    ],
)  # fmt: skip
def test_errors_have_anthropics_envelope(
    live: Live, given: dict[str, Any], status: int, kind: str, what: str
) -> None:
    reply = post(live, **given)
    body = reply.json()
    assert (reply.status_code, body["type"], body["error"]["type"]) == (status, "error", kind)
    assert what in body["error"]["message"]


def test_cached_tokens_are_counted_apart_from_the_beginning(claude: anthropic.Anthropic) -> None:
    for _ in range(2):
        events = [*create(claude, stream=True, max_tokens=2)]
        begun, ended = events[0].message.usage, events[-2].usage
        assert begun.input_tokens + begun.cache_read_input_tokens > 0
        assert begun.input_tokens == ended.input_tokens
        assert begun.cache_read_input_tokens == ended.cache_read_input_tokens
    assert begun.cache_read_input_tokens > 0
