"""Calls of tools whose names and properties the tool format cannot write."""

from __future__ import annotations

from typing import Any

from engine_parts import prompt_text

from proxy_engine import InferenceEngine, ToolCallDelta, ToolCallFinished, ToolCallStarted
from proxy_engine.tools import parse_tool_calls

TOOL: dict[str, Any] = {
    "name": "get-weather",
    "parameters": {
        "type": "object",
        "properties": {"from": {"enum": ["Oslo"]}, "$top": {"enum": [1]}},
        "required": ["from", "$top"],
    },
}
NAMESAKE = {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}
ARGUMENTS = {"from": "Oslo", "$top": 1}
OPTIONS: Any = {"tool_format": "gemma3", "max_tokens": 100, "parallel_tool_calls": False}


def test_calls_have_the_names_of_the_tools(roomy_engine: InferenceEngine) -> None:
    result = roomy_engine.generate("Go.", tools=[TOOL], tool_choice="get-weather", **OPTIONS)
    (call,) = result.tool_calls
    assert (call.name, call.arguments) == ("get-weather", ARGUMENTS)
    # The space behind a comma is optional.
    assert call.raw.strip().replace(" ", "") == 'get_weather(from_="Oslo",_top=1)'
    assert [part.pointer for part in result.parts if part.pointer] == ["/tool_calls/0/name"]
    written = "".join(part.text for part in result.parts)
    (parsed,) = parse_tool_calls(written, "gemma3", [TOOL]).calls
    assert (parsed.name, parsed.arguments) == ("get-weather", ARGUMENTS)


def test_events_have_the_names_of_the_tools(roomy_engine: InferenceEngine) -> None:
    events = list(roomy_engine.stream("Go.", tools=[TOOL], tool_choice="required", **OPTIONS))
    (started,) = [event for event in events if isinstance(event, ToolCallStarted)]
    (finished,) = [event for event in events if isinstance(event, ToolCallFinished)]
    assert started.name == finished.name == "get-weather"
    assert finished.arguments == ARGUMENTS
    deltas = "".join(e.arguments for e in events if isinstance(e, ToolCallDelta))
    assert deltas == '{"from": "Oslo", "$top": 1}'


def test_prompt_has_the_written_names(roomy_engine: InferenceEngine) -> None:
    call = {"name": "get-weather", "arguments": ARGUMENTS}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": call}]},
        {"role": "tool", "content": "sun", "tool_call_id": "1"},
    ]
    arguments = {"tools": [TOOL, NAMESAKE], **OPTIONS}
    text = prompt_text(roomy_engine, messages, **arguments)
    assert "def get_weather_(*, from_, _top):" in text
    assert "def get_weather():" in text
    assert 'get_weather_(from_="Oslo", _top=1)' in text
    assert "get-weather" not in text
    # The choice of one tool does not change its written name.
    only = {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "get-weather"}],
    }
    result = roomy_engine.generate(messages, tool_choice=only, **arguments)
    assert result.tool_calls[0].raw.strip().startswith("get_weather_(")
    assert result.tool_calls[0].name == "get-weather"
