"""Custom tools over HTTP, in both APIs of OpenAI."""

from __future__ import annotations

import json
import re
from typing import Any

import openai
import pytest
from object_schemas import closed_object, function_tool

PLAIN: dict[str, Any] = {
    "type": "custom",
    "name": "clock",
    "description": "Set the clock.",
    "format": {"type": "grammar", "syntax": "regex", "definition": r"[0-2][0-9]:[0-5][0-9]\n"},
}
NESTED: dict[str, Any] = {
    "type": "custom",
    "custom": {
        "name": "clock",
        "description": "Set the clock.",
        "format": {
            "type": "grammar",
            "grammar": {"syntax": "regex", "definition": r"[0-2][0-9]:[0-5][0-9]\n"},
        },
    },
}
ADD: dict[str, Any] = function_tool("add", {"type": "object", "additionalProperties": False})
CLOCK = re.compile(r"[0-2][0-9]:[0-5][0-9]\n")
NAMED: dict[str, Any] = {"type": "custom", "custom": {"name": "clock"}}


@pytest.fixture(scope="module")
def model(client: openai.OpenAI) -> str:
    return client.models.list().data[0].id


@pytest.mark.parametrize("tool", [NESTED, PLAIN], ids=["nested", "flat"])
@pytest.mark.parametrize("tool_format", ["hermes", "qwen3_coder", "gemma3"])
def test_chat_answers_with_a_custom_call(
    client: openai.OpenAI, model: str, tool: Any, tool_format: str
) -> None:
    completion = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "What time is it?"}],
        tools=[tool],
        tool_choice="required",
        parallel_tool_calls=False,
        extra_body={"tool_format": tool_format},
    )
    choice = completion.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    (call,) = choice.message.tool_calls
    assert call.type == "custom"
    assert call.custom.name == "clock"
    assert CLOCK.fullmatch(call.custom.input)


def test_chat_streams_the_input(client: openai.OpenAI, model: str) -> None:
    stream = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "What time is it?"}],
        tools=[ADD, NESTED],
        tool_choice=NAMED,  # type: ignore[arg-type]
        stream=True,
    )
    calls = [
        call
        for chunk in stream
        if chunk.choices
        for call in chunk.choices[0].delta.tool_calls or ()
    ]
    assert calls[0].type == "custom"
    assert calls[0].custom["name"] == "clock"  # type: ignore[attr-defined]
    assert all(call.index == 0 and call.function is None for call in calls)
    deltas = [call.custom["input"] for call in calls]  # type: ignore[attr-defined]
    assert CLOCK.fullmatch("".join(deltas))
    assert len(deltas) > 2


def test_chat_history_and_allowed_tools(client: openai.OpenAI, model: str) -> None:
    tools: list[Any] = [ADD, NESTED]
    messages: list[Any] = [
        {"role": "user", "content": "What time is it?"},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "c1", "type": "custom", "custom": {"name": "clock", "input": "12:00\n"}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "set"},
    ]
    choice: Any = {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": [NAMED]},
    }
    completion = client.chat.completions.create(
        model=model,
        messages=messages,
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=False,
    )
    assert completion.choices[0].message.tool_calls is not None
    (call,) = completion.choices[0].message.tool_calls
    assert call.type == "custom"


def test_responses_stream_and_continue_a_custom_call(client: openai.OpenAI, model: str) -> None:
    tools: list[Any] = [PLAIN]
    with client.responses.stream(
        model=model, input="What time is it?", tools=tools, tool_choice="required"
    ) as stream:
        events = list(stream)
        response = stream.get_final_response()
    item = response.output[-1]
    assert item.type == "custom_tool_call"
    assert CLOCK.fullmatch(item.input)
    deltas = [e.delta for e in events if e.type == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == "".join(i.input for i in response.output if i.type == item.type)
    done = [e for e in events if e.type == "response.custom_tool_call_input.done"]
    assert done[-1].input == item.input
    assert done[-1].item_id == item.id
    output: Any = {
        "type": "custom_tool_call_output",
        "call_id": item.call_id,
        "output": "set",
    }
    named: Any = {"type": "custom", "name": "clock"}
    second = client.responses.create(
        model=model,
        previous_response_id=response.id,
        input=[output],
        tools=tools,
        tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [named]},
        max_output_tokens=8,
    )
    assert second.output
    items: list[Any] = [{"role": "user", "content": "What time is it?"}, item.to_dict(), output]
    third = client.responses.create(model=model, input=items, tools=tools, tool_choice=named)
    assert third.output[-1].type == "custom_tool_call"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": {"type": "grammar", "syntax": "ebnf", "definition": "x"}}, "malformed"),
        (
            {"format": {"type": "grammar", "syntax": "regex", "definition": "("}},
            "grammar of the input",
        ),
        ({"schema": {"type": "string"}}, "no 'schema'"),
        ({"name": "a b"}, "not a valid name"),
    ],
)
def test_malformed_custom_tools_are_refused(
    client: openai.OpenAI, model: str, changes: dict[str, Any], message: str
) -> None:
    tools: list[Any] = [{**PLAIN, **changes}]
    with pytest.raises(openai.BadRequestError, match=message) as caught:
        client.responses.create(model=model, input="What time is it?", tools=tools)
    assert str(caught.value.param).startswith("tools")


@pytest.mark.parametrize(
    ("syntax", "definition", "location"),
    [
        ("lark", "start: nothing", {"line": 1, "column": 8, "rule": "start"}),
        ("regex", "a(", {"pattern": "a(", "pattern_position": 1}),
    ],
)
def test_refused_grammars_of_inputs_are_located(
    client: openai.OpenAI, model: str, syntax: str, definition: str, location: dict[str, Any]
) -> None:
    form = {"type": "grammar", "syntax": syntax, "definition": definition}
    tools: list[Any] = [{**PLAIN, "format": form}]
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model=model, input="What time is it?", tools=tools)
    assert isinstance(caught.value.body, dict)
    assert location.items() <= caught.value.body.items()


def test_choice_names_the_type_of_a_tool(client: openai.OpenAI, model: str) -> None:
    tools: list[Any] = [PLAIN]
    choice: Any = {"type": "function", "name": "clock"}
    with pytest.raises(openai.BadRequestError, match="type 'custom'"):
        client.responses.create(model=model, input="?", tools=tools, tool_choice=choice)


# Forms of tools, formats of calls and delimiters over HTTP.


PARAMETERS: dict[str, Any] = closed_object(city={"enum": ["Lima", "Oslo"]})


def answer(client: openai.OpenAI, **body: Any) -> Any:
    """Return the first choice; fields and tools are sent as they are given."""
    completion = client.chat.completions.create(
        model=client.models.list().data[0].id,
        messages=[{"role": "user", "content": "Hello"}],
        max_tokens=150,
        extra_body=body,
    )
    return completion.choices[0]


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "function": {"name": "f", **PARAMETERS}},
        {
            "type": "function",
            "function": {"name": "f", "type": "function", "parameters": PARAMETERS},
        },
        {"name": "f", **PARAMETERS},
        {"name": "f", "input_schema": PARAMETERS, "cache_control": {"type": "ephemeral"}},
        {"name": "f", "inputSchema": PARAMETERS},
    ],
    ids=["schema in function", "type in function", "schema", "Anthropic", "MCP"],
)
def test_tools_of_other_apis_are_called(client: openai.OpenAI, tool: Any) -> None:
    choice = answer(client, tools=[tool], tool_choice="required", parallel_tool_calls=False)
    (call,) = choice.message.tool_calls
    assert call.function.name == "f"
    assert json.loads(call.function.arguments)["city"] in ("Lima", "Oslo")


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_format": "json_fence"},
        {"tool_format": "gemma3"},
        {"tool_delimiters": ["```tool\n", "\n```"]},
        {"tool_format": "gemma3", "tool_delimiters": ["<call>", "</call>"]},
    ],
    ids=str,
)
def test_tool_format_and_delimiters_of_a_request(
    client: openai.OpenAI, fields: dict[str, Any]
) -> None:
    tool = {"name": "f", "parameters": PARAMETERS}
    choice = answer(
        client, tools=[tool], tool_choice="required", parallel_tool_calls=False, **fields
    )
    (call,) = choice.message.tool_calls
    assert json.loads(call.function.arguments)["city"] in ("Lima", "Oslo")
    assert not choice.message.content


def test_invalid_tool_delimiters_are_refused(client: openai.OpenAI) -> None:
    tool = {"name": "f", "parameters": PARAMETERS}
    for delimiters in (["", "x"], ["x"], [1, 2]):
        with pytest.raises(openai.APIStatusError, match="tool_delimiters"):
            answer(client, tools=[tool], tool_delimiters=delimiters)


@pytest.mark.parametrize(
    "response_format",
    [
        {"type": "json_schema", "json_schema": {"name": "x", "schema": PARAMETERS}},
        {"type": "json_schema", "schema": PARAMETERS},
    ],
    ids=["OpenAI", "llama.cpp"],
)
def test_content_is_the_value_between_delimiters(
    client: openai.OpenAI, response_format: dict[str, Any]
) -> None:
    given = {**response_format, "delimiters": ["```json\n", "\n```"]}
    choice = answer(client, response_format=given)
    assert json.loads(choice.message.content)["city"] in ("Lima", "Oslo")
    with pytest.raises(openai.BadRequestError, match="two texts"):
        answer(client, response_format={**response_format, "delimiters": "```"})


def test_delimiters_of_a_response(client: openai.OpenAI) -> None:
    response = client.responses.create(
        model=client.models.list().data[0].id,
        input="Hello",
        max_output_tokens=150,
        extra_body={
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": "x",
                    "schema": PARAMETERS,
                    "delimiters": ["```json\n", "\n```"],
                }
            }
        },
    )
    assert json.loads(response.output_text)["city"] in ("Lima", "Oslo")
