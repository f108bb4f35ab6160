"""Calls in text that was generated without their grammar."""

from __future__ import annotations

import pytest

from state_machines.tool_calls import UnreadableCall, WrittenCall, format_named, split_calls


def test_text_and_calls_are_split_in_order() -> None:
    entry = format_named("gemma3")
    text = 'A\n```tool_code\nf(a=1)\ng(b="```")\n```B```tool_code\nf()\n``` C'
    assert list(split_calls(text, entry)) == [
        "A\n",
        WrittenCall("f", None, "a=1", "f(a=1)", entry),
        WrittenCall("g", None, 'b="```"', 'g(b="```")', entry),
        "B",
        WrittenCall("f", None, "", "f()", entry),
        " C",
    ]
    assert list(split_calls("no call", entry)) == ["no call"]
    assert list(split_calls("", entry)) == []


def test_ids_are_read_from_head_and_foot() -> None:
    texts = {
        "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:7"
        "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
        "mistral": '[TOOL_CALLS][{"name": "f", "arguments": {}, "id": "abcDEF123"}]',
        "hermes": '<tool_call>{"name": "f", "arguments": {}}</tool_call>',
    }
    ids = {}
    for name, text in texts.items():
        (call,) = split_calls(text, format_named(name))
        assert isinstance(call, WrittenCall)
        ids[name] = call.id
    assert ids == {"kimi_k2": "functions.f:7", "mistral": "abcDEF123", "hermes": None}


def test_calls_of_both_forms_of_a_format_are_read() -> None:
    entry = format_named("longcat")
    member = "<longcat_arg_key>a</longcat_arg_key>\n<longcat_arg_value>1</longcat_arg_value>\n"
    calls = [
        '<longcat_tool_call>\n{"name": "f", "arguments": {}}\n</longcat_tool_call>',
        f"<longcat_tool_call>f\n{member}</longcat_tool_call>",
    ]
    found = [call for call in split_calls("\n".join(calls), entry) if not isinstance(call, str)]
    assert [call.arguments for call in found if isinstance(call, WrittenCall)] == ["{}", member]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("hermes", "<tool_call>f</tool_call>", "the head of a call was expected"),
        ("hermes", '<tool_call>{"name": "f", "arguments": {', "Expecting"),
        ("hermes", '<tool_call>{"name": "f", "arguments": {}</tool_call>', "the end of a call"),
        ("hermes", '<tool_call>{"name": "f", "arguments": {}} and', "the end of the calls"),
        ("gemma3", "```tool_code\nf(a=(1)\n```", "a parenthesis is not closed"),
        ("glm4_7", "<tool_call>f<arg_key>a</tool_call>", "a value does not end"),
        ("glm4_7", "<tool_call>f<arg_key>a</arg_value></tool_call>", "a value does not end"),
        ("seed_oss", f"<seed:tool_call><function=f><parameter={'a>' * 10**6}", "a value does not"),
        ("gemma4", "<|tool_call>call:f{a:1<tool_call|>", "a brace is not closed"),
    ],
)
def test_unreadable_call_is_text_and_has_a_reason(name: str, text: str, reason: str) -> None:
    found = list(split_calls(f"So: {text}", format_named(name)))
    (error,) = (each for each in found if isinstance(each, UnreadableCall))
    assert error.position == 4
    assert reason in error.reason
    assert "".join(each for each in found if isinstance(each, str)) == f"So: {text}"


def test_call_behind_an_unreadable_one_is_read() -> None:
    text = "<tool_call>f<arg_key>a</arg_value></tool_call>"
    member = "<arg_key>b</arg_key><arg_value>1</arg_value>"
    found = list(split_calls(f"{text}<tool_call>g{member}</tool_call>", format_named("glm4_7")))
    (call,) = (each for each in found if isinstance(each, WrittenCall))
    assert (call.name, call.arguments) == ("g", member)
