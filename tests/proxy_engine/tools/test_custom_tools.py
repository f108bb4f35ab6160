"""Custom tools: definitions, choices, calls in text and messages, the tool loop."""

from __future__ import annotations

from typing import Any

import pytest
from patched_limits import patch_limits

from proxy_engine import (
    GBNF,
    Choice,
    Interaction,
    InvalidOptionError,
    Lark,
    Regex,
    Role,
    ToolChoice,
)
from proxy_engine.conversation.content import ToolCall
from proxy_engine.conversation.messages import template_messages
from proxy_engine.errors import InvalidToolError, PromptError, ToolArgumentsError
from proxy_engine.tools import InputFormat, Tool, parse_tool_calls, resolve_tool
from state_machines import GrammarStateMachine, RegexStateMachine

LARK = 'start: "set " /[0-2][0-9]/ ":" /[0-5][0-9]/'
GRAMMAR = {"syntax": "lark", "definition": LARK}
CLOCK = Tool.from_grammar("clock", LARK, description="Set it.", function=str.upper)


@pytest.mark.parametrize(
    "definition",
    [
        {"custom": {"name": "clock", "format": {"type": "grammar", "grammar": GRAMMAR}}},
        {"name": "clock", "format": {"type": "grammar", **GRAMMAR}, "description": None},
    ],
)
def test_both_forms_of_openai_are_read(definition: dict[str, Any]) -> None:
    tool = resolve_tool({"type": "custom", **definition})
    assert tool.input == InputFormat("lark", LARK)
    assert tool.parse({"input": "set 12:30"}) == "set 12:30"
    assert resolve_tool(tool.to_openai()) == tool
    function = tool.to_function()["function"]
    assert LARK in function["parameters"]["properties"]["input"]["description"]


@pytest.mark.parametrize(
    ("grammar", "syntax", "inside"),
    [
        (LARK, "lark", "set 23:59"),
        (r"(?i)abc\d", "regex", "aBc7"),
        ('root ::= "(" root ")" | ""', "gbnf", "(())"),
    ],
)
def test_strings_have_the_named_syntax(grammar: str, syntax: Any, inside: str) -> None:
    tool = Tool.from_grammar("t", grammar, syntax=syntax, function=len)
    assert tool.invoke({"input": inside}) == len(inside)
    with pytest.raises(InvalidToolError, match="no syntax 'ebnf'"):
        Tool.from_grammar("t", grammar, syntax="ebnf")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("grammar", "inside"),
    [
        (LARK, "set 23:59"),
        (Lark(LARK), "set 23:59"),
        (Lark('go: "b" | "c"', start="go"), "c"),
        (Regex(r"(?i)abc\d", syntax="rust"), "aBc7"),
        (Regex(r"abc\d"), "abc7"),
        (GBNF('root ::= "(" root ")" | ""'), "(())"),
        (Choice(["a", "b"]), "b"),
        (RegexStateMachine("a+"), "aaa"),
        (None, "anything\n"),
    ],
)
def test_kinds_of_grammars(grammar: Any, inside: str) -> None:
    tool = Tool.from_grammar("t", grammar, function=len)
    assert tool.invoke({"input": inside}) == len(inside)
    assert tool.parse({"input": inside}) == inside
    if grammar is not None:
        with pytest.raises(ToolArgumentsError, match="does not match"):
            tool.invoke({"input": inside + "!"})
    with pytest.raises(ToolArgumentsError, match="alone"):
        tool.validate({"input": inside, "more": 1})


def test_input_that_cannot_be_matched_in_time_is_not_called_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tool = Tool.from_grammar("t", GBNF('root ::= "(" root ")" | ""'))
    assert tool.validate({"input": "(())"}) == "(())"
    patch_limits(monkeypatch, compile_steps=20)
    with pytest.raises(ToolArgumentsError, match="takes too many steps"):
        tool.validate({"input": "(" * 99 + ")" * 99})


@pytest.mark.parametrize(
    ("grammar", "said"),
    [
        ("start: nothing", "line 1"),
        (Regex("(", syntax="rust"), "offset 0"),
        (Regex("("), "offset 0"),
        (GBNF("root ::= <[5]>"), "tokens by name or by number"),
        ("start: a\na[max_tokens=3]: /[a-z]+/", "limits the tokens"),
        ("start: a\na[temperature=1]: /[a-z]+/", "temperatures of rules"),
    ],
)
def test_grammars_that_are_refused(grammar: Any, said: str) -> None:
    tool = Tool.from_grammar("t", grammar)
    with pytest.raises(InvalidToolError, match=said) as caught:
        _ = tool.signature
    assert caught.value.tool == "t"


def test_arguments_that_are_refused() -> None:
    with pytest.raises(InvalidToolError, match="no syntax 'ebnf'"):
        InputFormat("ebnf", "x")  # type: ignore[arg-type]
    with pytest.raises(InvalidToolError, match="syntax of Rust"):
        Tool.from_grammar("t", Regex("a")).to_openai()
    with pytest.raises(InvalidToolError, match="the definition of a grammar"):
        Tool.from_grammar("t", 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidToolError, match="no InputFormat: 'x'"):
        Tool("t", input="x")  # type: ignore[arg-type]
    with pytest.raises(InvalidToolError, match="cannot be written as JSON"):
        Tool.from_grammar("t", RegexStateMachine("a")).to_openai()


@pytest.mark.parametrize(
    ("syntax", "definition"), [("gbnf", 'root ::= "a"'), ("lark", 'start: "a"')]
)
def test_machine_of_a_grammar_is_described_in_its_notation(syntax: str, definition: str) -> None:
    tool = Tool.from_grammar("t", GrammarStateMachine(definition, notation=syntax))
    assert tool.to_openai()["custom"]["format"]["grammar"] == {
        "syntax": syntax,
        "definition": definition,
    }
    described = tool.to_function()["function"]["parameters"]["properties"]["input"]["description"]
    assert f"{syntax} grammar".casefold() in described.casefold()


def test_choices_name_custom_tools_by_their_type() -> None:
    tools = (CLOCK, Tool("f"))
    for given in ({"type": "custom", "name": "clock"}, "clock"):
        assert ToolChoice.of(given, tools) == ToolChoice("named", (CLOCK,))
    both = [{"type": "function", "name": "f"}, {"type": "custom", "custom": {"name": "clock"}}]
    allowed = {"type": "allowed_tools", "mode": "required", "tools": both}
    assert ToolChoice.of(allowed, tools) == ToolChoice("required", tools[::-1])
    for wrong in ({"type": "function", "name": "clock"}, {"type": "custom", "name": "f"}):
        with pytest.raises(InvalidOptionError, match="is a tool of type"):
            ToolChoice.of(wrong, tools)


def test_calls_in_messages_and_dicts() -> None:
    call = ToolCall("c1", "clock", {"input": "set 12:30"}, is_custom=True)
    turn = Interaction(Role.ASSISTANT, tool_calls=[call])
    custom = {"name": "clock", "input": "set 12:30"}
    assert turn.to_message()["tool_calls"] == [{"id": "c1", "type": "custom", "custom": custom}]
    for written in (turn.to_message(), turn.to_dict()):
        (read,) = Interaction.from_dict(written).tool_calls
        assert read == call
        assert read.input == "set 12:30"
    (message,) = template_messages([turn]).messages
    assert message["tool_calls"][0]["function"]["arguments"] == {"input": "set 12:30"}
    with pytest.raises(PromptError, match="custom tool"):
        ToolCall("c1", "clock", {"x": 1}, is_custom=True)


@pytest.mark.parametrize(
    ("tool_format", "written"),
    [
        ("hermes", '<tool_call>{"name":"clock","arguments":{"input":"set %s"}}</tool_call>'),
        ("gpt_oss", "<|channel|>commentary to=functions.clock code<|message|>set %s<|call|>"),
    ],
)
def test_calls_in_text_are_checked(tool_format: str, written: str) -> None:
    parsed = parse_tool_calls(written % "12:30" + written % "99:99", tool_format, [CLOCK])
    assert [(call.input, call.parsed, call.is_custom) for call in parsed.calls] == [
        ("set 12:30", "set 12:30", True)
    ]
    (error,) = parsed.errors
    assert isinstance(error, ToolArgumentsError)
