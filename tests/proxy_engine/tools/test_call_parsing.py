"""Tool calls in text that was generated elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from call_walks import a_walk, calls_in
from family_tokenizers import family_tokenizer
from hypothesis import given
from hypothesis import strategies as st
from object_schemas import closed_object

from proxy_engine import InvalidOptionError, OutputValidationError, Tool, ToolArgumentsError
from proxy_engine.conversation.tool_text import write_calls
from proxy_engine.tools import parse_tool_calls
from state_machines.errors import CompositionError
from state_machines.tool_calls import FORMATS, ToolFormat, ToolSignature

PARAMETERS: dict[str, Any] = closed_object(
    ["city"], city={"type": "string"}, days={"type": "integer"}, exact={"type": "boolean"}
)
NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": {"anyOf": [{"type": "string"}, {}]}}},
    "additionalProperties": False,
}


def clock() -> str:
    """Tell the time."""
    return "noon"


def book(title: str, copies: int = 1) -> None:
    """Order a book."""


WEATHER = Tool("get_weather", "", PARAMETERS)
SIGNATURES = [ToolSignature("get_weather", PARAMETERS), ToolSignature("nest", NESTED)]
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


def tools_of(entry: ToolFormat) -> list[ToolSignature]:
    return SIGNATURES[:1] if entry.name == "function_gemma" else SIGNATURES


@pytest.mark.parametrize("own", [False, True], ids=["own", "other delimiters"])
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("seed", range(2))
def test_generated_calls_are_parsed_in_any_text(name: str, seed: int, own: bool) -> None:
    entry = FORMATS[name].with_delimiters("«", "»") if own else FORMATS[name]
    signatures = tools_of(entry)
    part = entry.calls(signatures, 1, 3 if entry.parallel else 1)
    pieces = a_walk(part, Random(seed))
    calls = calls_in(pieces)
    written = b"".join(piece.text for piece in pieces).decode()
    tools = [Tool(tool.name, "", tool.parameters) for tool in signatures]  # type: ignore[arg-type]
    rest = "\nWell, <that> [is] {it}."
    # White space after the last call belongs to the calls if the answer ends there.
    for before, text, after in (("", written, ""), ("I look. ", written.rstrip("\n"), rest)):
        parsed = parse_tool_calls(before + text + after, entry, tools)
        assert not parsed.errors
        assert parsed.text == before + after
        assert [(c.name, c.arguments) for c in parsed.calls] == [
            (c.name, c.arguments) for c in calls
        ]
        assert all(own.id in (None, c.id) for own, c in zip(calls, parsed.calls, strict=True))
        assert len({c.id for c in parsed.calls}) == len(calls)


@pytest.mark.parametrize("name", FORMATS)
def test_calls_of_a_history_are_parsed(name: str) -> None:
    entry = FORMATS[name]
    arguments = {"city": 'Ha "x" )]', "days": 3}
    text = write_calls(entry, [("get_weather", arguments)])
    (call,) = parse_tool_calls(text, name, [WEATHER]).calls
    assert call.arguments == arguments


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes", '<tool_call>{"name":"get_weather","arguments":{"city":"Oslo"}}</tool_call>'),
        (
            "hermes",
            '<tool_call>\n{\n  "name": "get_weather",\n  "arguments": {\n    "city": "Oslo"\n  }\n}'
            "\n</tool_call>",
        ),
        ("hermes", CALL.removesuffix("</tool_call>")),
        ("llama3", '{"name":"get_weather", "parameters":{"city" : "Oslo"} }'),
        ("mistral", '[TOOL_CALLS] [ {"name":"get_weather","arguments":{"city":"Oslo"}} ]'),
        (
            "json_fence",
            '```tool\n[\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n]\n```',
        ),
        ("gemma3", "```tool_code\nget_weather(city='Oslo')\n```"),
        ("olmo3", "<function_calls>\nget_weather(city='Oslo')\n</function_calls>"),
        ("apertus", '<|tools_prefix|>[{"get_weather":{"city":"Oslo"}}]'),
        (
            "internlm",
            '<|action_start|> <|plugin|>{"name":"get_weather","parameters":{"city":"Oslo"}}',
        ),
        (
            "hunyuan3",
            "<tool_calls><tool_call>get_weather<tool_sep><arg_key>city</arg_key>\n"
            "<arg_value>Oslo</arg_value>\n</tool_call></tool_calls>",
        ),
        ("gemma3", '```tool_code\nget_weather( city = """Oslo""" )```'),
        ("lfm2", '<|tool_call_start|>[ get_weather(city="Oslo") ]<|tool_call_end|>'),
        (
            "gpt_oss",
            "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
            '{"city":"Oslo"}',
        ),
    ],
)
def test_other_white_space_quotes_and_a_missing_end_are_accepted(name: str, text: str) -> None:
    parsed = parse_tool_calls(text, name, [WEATHER])
    assert not parsed.errors
    assert parsed.text == ""
    assert [(call.name, call.arguments) for call in parsed.calls] == [
        ("get_weather", {"city": "Oslo"})
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_calls_of_unknown_tools_are_read_without_tools(name: str) -> None:
    entry = FORMATS[name]
    arguments = {"city": "Oslo", "place": "a <b>\n"}
    text = write_calls(entry, [("get_weather", arguments)])
    parsed = parse_tool_calls(f"So: {text} and", entry)
    assert parsed.text.strip() in ("So:  and", "So: and")
    (call,) = parsed.calls
    assert (call.name, call.arguments, call.parsed) == ("get_weather", arguments, None)


def test_names_that_no_tool_can_have_are_errors() -> None:
    text = '[TOOL_CALLS] [{"name": "a:b", "arguments": {}}, {"name": "c", "arguments": {}}]'
    parsed = parse_tool_calls(text, "mistral")
    assert [call.name for call in parsed.calls] in (["a:b", "c"], ["c"])
    assert len(parsed.calls) + len(parsed.errors) == 2


def test_tokenizer_tells_the_format(tmp_path: Path) -> None:
    tokenizer = family_tokenizer(tmp_path, FORMATS["apertus"].tokens)
    text = '<|tools_prefix|>[{"f": {"a": 1}}, {"g": {}}]<|tools_suffix|>'
    parsed = parse_tool_calls(text, tokenizer)
    assert [(call.name, call.arguments) for call in parsed.calls] == [("f", {"a": 1}), ("g", {})]
    assert not parsed.text


def test_several_fences_with_text_between_are_parsed() -> None:
    text = (
        "First.\n```tool_code\nclock()\nget_weather(city='Oslo', days=2)\n```\nThen\n"
        "```tool_code\nclock()\n``` done."
    )
    parsed = parse_tool_calls(text, "gemma3", [WEATHER, clock])
    assert parsed.text == "First.\n\nThen\n done."
    assert [call.name for call in parsed.calls] == ["clock", "get_weather", "clock"]


def test_arguments_are_converted_for_functions() -> None:
    text = CALL.replace("get_weather", "book").replace('"city": "Oslo"', '"title": "T"')
    (call,) = parse_tool_calls(text, tools=[book]).calls
    assert call.parsed == {"title": "T", "copies": 1}
    assert call.raw == '{"name": "book", "arguments": {"title": "T"}}'


def test_invalid_calls_are_errors_and_other_calls_are_parsed() -> None:
    unknown = CALL.replace("get_weather", "fly")
    invalid = CALL.replace('"Oslo"', "3")
    unreadable = "<tool_call>\nnothing\n</tool_call>"
    parsed = parse_tool_calls(f"{unknown}{invalid} a {unreadable} b {CALL}", tools=[WEATHER])
    assert [call.arguments for call in parsed.calls] == [{"city": "Oslo"}]
    first, second, third = parsed.errors
    assert isinstance(first, OutputValidationError)
    assert "no tool 'fly'" in str(first)
    assert isinstance(second, ToolArgumentsError)
    assert (second.tool, second.arguments) == ("get_weather", {"city": 3})
    assert isinstance(third, OutputValidationError)
    assert "cannot be read" in str(third)
    assert third.text.startswith(unreadable)
    assert parsed.text == f" a {unreadable} b "


@pytest.mark.parametrize(
    "value", ["NaN", r'"\ud800"', "[" * 200_000 + "]" * 200_000, '{"a": 1, "a": 2}']
)
def test_arguments_that_are_no_json_values_are_errors(value: str) -> None:
    tool = Tool("f", "", {"type": "object", "properties": {"x": {}}})
    text = f'<tool_call>{{"name": "f", "arguments": {{"x": {value}}}}}</tool_call>'
    parsed = parse_tool_calls(text, tools=[tool])
    assert not parsed.calls
    assert len(parsed.errors) == 1


def test_repeated_ids_become_unique() -> None:
    call = "<|tool_call_begin|>functions.clock:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
    text = f"<|tool_calls_section_begin|>{call * 2}<|tool_calls_section_end|>"
    parsed = parse_tool_calls(text, "kimi_k2", [clock])
    assert [call.id for call in parsed.calls] == ["functions.clock:0", "functions.clock:1"]


def test_many_unreadable_calls_are_text() -> None:
    text = "```tool_code\nf(" * 2_000
    parsed = parse_tool_calls(text, "gemma3", [clock])
    assert parsed.text == text
    assert len(parsed.errors) == 101
    assert "what follows 100 unreadable calls is not read" in str(parsed.errors[-1])


def test_invalid_arguments_of_the_parser_raise() -> None:
    with pytest.raises(CompositionError, match="no tool format 'hermis'"):
        parse_tool_calls("", "hermis", [])
    with pytest.raises(InvalidOptionError, match="tool format is 3"):
        parse_tool_calls("", 3)  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match="3"):
        parse_tool_calls(3, "hermes", [])  # type: ignore[arg-type]


@given(
    st.sampled_from(sorted(FORMATS)),
    st.lists(
        st.sampled_from([*'{}[]()<>|"`: \n=,', "tool_call", "tool", "f", "name", "arguments"]),
        max_size=12,
    ),
)
def test_any_text_is_parsed(name: str, pieces: list[str]) -> None:
    entry = FORMATS[name]
    text = entry.start + "".join(pieces) + entry.end
    parsed = parse_tool_calls(text, entry, [clock])
    assert parsed.calls or parsed.errors
    assert parsed.text == text or not any("cannot be read" in str(e) for e in parsed.errors)


@pytest.mark.parametrize("name", ["hermes", "phi4_mini", "llama3"])
def test_arguments_that_were_encoded_twice_are_read(name: str) -> None:
    tool = Tool("f", parameters={"type": "object", "properties": {"n": {"type": "integer"}}})
    once = '{"n": 1}'
    text = write_calls(FORMATS[name], [("f", {"n": 1})])
    assert once in text
    parsed = parse_tool_calls(text.replace(once, json.dumps(once)), name, [tool])
    assert parsed.errors == ()
    assert [call.arguments for call in parsed.calls] == [{"n": 1}]
