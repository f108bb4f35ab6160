"""``tool_choice``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from proxy_engine import InvalidOptionError
from proxy_engine.tools import Tool, ToolChoice
from proxy_engine.tools.choice import requires_call

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
