"""Calls that a model writes as JSON in its text, over each interface."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from live_server import Live, serving_engine
from mlx_lm.tokenizer_utils import TokenizerWrapper
from scripted_answers import ScriptedModel

from proxy_engine import InferenceEngine

SCHEMA: Any = {
    "type": "object",
    "properties": {"city": {"enum": ["Lima", "Oslo"]}},
    "required": ["city"],
}
HELLO: Any = [{"role": "user", "content": "Hello"}]
MODEL = "SmolLM2-135M-Instruct"
TEXT = "One moment.\n"
# By the number of messages before them: the first describes the tools.
SCRIPT = {
    2: TEXT + '```json\n{\n  "name": "weather",\n  "arguments": {"city": "Oslo"}\n}\n```',
    4: '{"name": "weather", "city": "Oslo"}',
}


@pytest.fixture(scope="module")
def scripted(tiny_tokenizer: TokenizerWrapper) -> Iterator[Live]:
    engine = InferenceEngine(ScriptedModel(tiny_tokenizer, SCRIPT), tiny_tokenizer)
    with engine, serving_engine(engine) as live:
        yield live


def test_chat_has_the_call_and_the_text_before_it(scripted: Live) -> None:
    client = scripted.client()
    tool: Any = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
    given: Any = {
        "model": MODEL,
        "tools": [tool],
        "temperature": 0,
        "max_tokens": 200,
        "extra_body": {"calls_in_text": "lines"},
    }
    choice = client.chat.completions.create(messages=HELLO, **given).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == TEXT
    (call,) = choice.message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments) == {"city": "Oslo"}
    told, arguments, reason = "", "", None
    for chunk in client.chat.completions.create(messages=HELLO, stream=True, **given):
        delta = chunk.choices[0].delta
        told += delta.content or ""
        for each in delta.tool_calls or ():
            arguments += (each.function and each.function.arguments) or ""
        reason = chunk.choices[0].finish_reason or reason
    assert (told, json.loads(arguments), reason) == (TEXT, {"city": "Oslo"}, "tool_calls")
    # In the next turn the call stands in the model's own format, and JSON is an answer.
    result = {"role": "tool", "tool_call_id": call.id, "content": "sun"}
    history = [*HELLO, choice.message.model_dump(exclude_none=True), result]
    answer = client.chat.completions.create(messages=history, **given).choices[0]
    assert answer.finish_reason == "stop"
    assert answer.message.content == SCRIPT[4]


def test_chat_without_calls_in_text_has_the_text(scripted: Live) -> None:
    tool: Any = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
    choice = (
        scripted.client()
        .chat.completions.create(
            model=MODEL,
            messages=HELLO,
            tools=[tool],
            temperature=0,
            max_tokens=200,
        )
        .choices[0]
    )
    assert choice.finish_reason == "stop"
    assert choice.message.content == SCRIPT[2]
    assert not choice.message.tool_calls


def test_responses_have_a_message_and_a_function_call(scripted: Live) -> None:
    tool: Any = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}
    given: Any = {
        "model": MODEL,
        "input": "Hello",
        "tools": [tool],
        "temperature": 0,
        "extra_body": {"calls_in_text": "lines"},
    }
    with scripted.client().responses.create(stream=True, **given) as stream:
        events = list(stream)
    deltas = [e.delta for e in events if e.type == "response.function_call_arguments.delta"]
    assert json.loads("".join(deltas)) == {"city": "Oslo"}
    (last,) = (event.response for event in events if event.type == "response.completed")
    message, call = last.output
    assert message.type == "message"
    assert last.output_text == TEXT
    assert call.type == "function_call"
    assert call.name == "weather"
    assert json.loads(call.arguments) == {"city": "Oslo"}


def test_messages_have_a_text_block_and_a_tool_use_block(scripted: Live) -> None:
    tool: Any = {"name": "weather", "input_schema": SCHEMA}
    message = scripted.claude().messages.create(
        model=MODEL,
        messages=HELLO,
        tools=[tool],
        max_tokens=200,
        extra_body={"temperature": 0, "calls_in_text": "lines"},
    )
    assert message.stop_reason == "tool_use"
    text, call = message.content
    assert text.type == "text"
    assert text.text == TEXT
    assert call.type == "tool_use"
    assert (call.name, call.input) == ("weather", {"city": "Oslo"})
