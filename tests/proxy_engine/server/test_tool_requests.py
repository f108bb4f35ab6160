"""Forms of tools, formats of calls and delimiters over HTTP."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"enum": ["Lima", "Oslo"]}},
    "required": ["city"],
    "additionalProperties": False,
}


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
