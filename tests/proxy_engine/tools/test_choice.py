"""``tool_choice``."""

from __future__ import annotations

from typing import Any

import pytest

from proxy_engine import InvalidOptionError
from proxy_engine.tools import Tool, ToolChoice

F, G = Tool("get_weather"), Tool("none")
TOOLS = (F, G)


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
    ],
)
def test_choices(given: Any, mode: str, tools: tuple[Tool, ...]) -> None:
    choice = ToolChoice.of(given, TOOLS)
    assert (choice.mode, choice.tools) == (mode, tools)
    assert choice.may_answer == (mode in ("auto", "none"))
    assert choice.may_call == bool(tools)
    assert ToolChoice.of(choice, TOOLS) == choice


@pytest.mark.parametrize(
    ("given", "tools", "said"),
    [
        ("get_wether", TOOLS, "Did you mean 'get_weather'"),
        ("requird", TOOLS, "Did you mean 'required'"),
        ("xyz", TOOLS, "Known are 'get_weather', 'none'"),
        ("xyz", (), "No tools were given"),
        ("required", (), "there are none"),
        ({"type": "function", "function": {"name": "xyz"}}, TOOLS, "no tool 'xyz'"),
        ({"type": "function", "function": {"name": "none"}, "x": 1}, TOOLS, "'x'"),
        ({"type": "tool"}, TOOLS, "not known"),
        (5, TOOLS, "int"),
    ],
)
def test_choices_that_are_refused(given: Any, tools: tuple[Tool, ...], said: str) -> None:
    with pytest.raises(InvalidOptionError, match=said) as caught:
        ToolChoice.of(given, tools)
    assert caught.value.option == "tool_choice"
