"""``tool_choice``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from proxy_engine import Interaction, InvalidOptionError
from proxy_engine.conversation.messages import to_interactions
from proxy_engine.tools import Tool, ToolChoice
from proxy_engine.tools.choice import answered_arguments, requires_call

F, G = Tool("get_weather"), Tool("none")
TOOLS = (F, G)
NAMED_F = {"type": "function", "name": "get_weather"}


@pytest.mark.parametrize(
    ("given", "mode", "tools"),
    [
        (None, "auto", TOOLS),
        ("auto", "auto", TOOLS),
        ("required", "required", TOOLS),
        ("none", "none", ()),
        ("get_weather", "named", (F,)),
        ({"type": "function", "function": {"name": "none"}}, "named", (G,)),
        ({"type": "function", "name": "none"}, "named", (G,)),
        ({"type": "allowed_tools", "mode": "auto", "tools": [NAMED_F]}, "auto", (F,)),
        ({"type": "allowed_tools", "mode": "required", "tools": [NAMED_F] * 2}, "required", (F,)),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "function", "function": {"name": "none"}}, NAMED_F],
                },
            },
            "required",
            (G, F),
        ),
    ],
)
def test_choices(given: Any, mode: str, tools: tuple[Tool, ...]) -> None:
    choice = ToolChoice.of(given, TOOLS)
    assert (choice.mode, choice.tools) == (mode, tools)
    assert choice.may_answer == (mode in ("auto", "none"))
    assert requires_call(given) is not choice.may_answer
    assert choice.may_call == bool(tools)
    assert ToolChoice.of(choice, TOOLS) == choice


@pytest.mark.parametrize(
    ("given", "tools", "said"),
    [
        ("get_wether", TOOLS, "Did you mean 'get_weather'"),
        ("requird", TOOLS, "Did you mean 'required'"),
        ("xyz", TOOLS, "Known are get_weather, none, auto, required"),
        ("xyz", (), "No tools were given"),
        ("required", (), "there are none"),
        ({"type": "function", "function": {"name": "xyz"}}, TOOLS, "no tool 'xyz'"),
        ({"type": "function", "function": {"name": "none"}, "x": 1}, TOOLS, "'x'"),
        ({"type": "tool"}, TOOLS, "not known"),
        ({"type": "allowed_tools", "mode": "auto", "tools": []}, TOOLS, "malformed"),
        ({"type": "allowed_tools", "mode": "none", "tools": [NAMED_F]}, TOOLS, "malformed"),
        ({"type": "allowed_tools", "mode": "auto", "tools": ["get_weather"]}, TOOLS, "not known"),
        ({"type": "allowed_tools", "mode": "auto", "tools": [NAMED_F]}, (G,), "no tool"),
        ({"type": "allowed_tools", "allowed_tools": 5}, TOOLS, "malformed"),
        (5, TOOLS, "int"),
        (np.arange(2), TOOLS, "ndarray"),
        ({"type": np.arange(2)}, TOOLS, "not known"),
    ],
)
def test_choices_that_are_refused(given: Any, tools: tuple[Tool, ...], said: str) -> None:
    with pytest.raises(InvalidOptionError, match=said) as caught:
        ToolChoice.of(given, tools)
    assert caught.value.option == "tool_choice"


def _calls(*calls: tuple[str, str, str]) -> dict[str, Any]:
    written = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, name, arguments in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": written}


def _result(call_id: str | None, name: str | None = None) -> dict[str, Any]:
    message = {"role": "tool", "content": "x", "tool_call_id": call_id, "name": name}
    return {key: value for key, value in message.items() if value is not None}


USER = {"role": "user", "content": "x"}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([USER], {}),
        ([USER, _calls(("1", "f", '{"a": 1}'))], {}),
        ([USER, _calls(("1", "f", '{"a": 1}')), _result("1")], {"f": [{"a": 1}]}),
        # Another question may need the same call.
        ([USER, _calls(("1", "f", "{}")), _result("1"), USER], {}),
        (
            [
                USER,
                _calls(("1", "f", '{"a": 1}'), ("2", "g", "{}"), ("3", "g", '{"b": 2}')),
                _result("3"),
                _result("1"),
                _calls(("1", "f", '{"a": 2}')),
                _result("1"),
            ],
            {"g": [{"b": 2}], "f": [{"a": 1}, {"a": 2}]},
        ),
        # Clients write the id or the name of a result, or neither.
        (
            [USER, _calls(("1", "f", "{}"), ("2", "g", "{}")), _result(None, "g"), _result(None)],
            {"g": [{}], "f": [{}]},
        ),
        ([USER, _calls(("1", "f", "{}")), _result("other")], {}),
    ],
)
def test_calls_with_a_result_since_the_last_question_are_answered(
    messages: list[dict[str, Any]], expected: dict[str, Any]
) -> None:
    assert answered_arguments(to_interactions(messages)) == expected


def test_call_that_was_cut_short_is_not_answered() -> None:
    asked = to_interactions([USER, _calls(("1", "f", "{}"))])
    result = Interaction("tool", "x", tool_call_id="1", metadata={"is_cut_short": True})
    assert answered_arguments([*asked, result]) == {}
