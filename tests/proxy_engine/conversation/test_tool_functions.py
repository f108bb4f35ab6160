"""Tools as Python functions with docstrings."""

from __future__ import annotations

import ast
from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from proxy_engine.conversation.tool_text import describe_tools
from proxy_engine.tools import Tool, resolve_tools
from state_machines.tool_calls import format_named


def described(*tools: Any) -> str:
    """Return the functions in the text that describes tools to Gemma 3."""
    text = describe_tools(
        format_named("gemma3"), [tool.to_openai() for tool in resolve_tools(tools)]
    )
    return text.partition("```python\n")[2].partition("\n```\n\nTo call")[0]


def signature(parameters: Any, description: str = "") -> str:
    tool = {"name": "f", "description": description, "parameters": parameters}
    text = describe_tools(format_named("gemma3"), [tool])
    return text.partition("```python\n")[2].partition("\n```\n\nTo call")[0]


class Place(BaseModel):
    lat: float = Field(ge=-90, le=90)
    name: str | None = Field(None, description="what it is called")


def weather(
    city: Literal["Lima", "Oslo"], days: int = 1, places: list[Place] | None = None
) -> None:
    """Forecast the weather.

    In detail.

    Args:
        city: Where?
        days: For how many days.
        places: Near them.
    """


def test_function_has_defaults_and_an_outline_of_its_parameters() -> None:
    assert (
        described(weather)
        == '''def weather(*, city, days=1, places=None):
    """Forecast the weather.

    In detail.

    {
      "city": "Lima" | "Oslo",  // Where?
      "days"?: integer,  // For how many days.
      "places"?: [{
          "lat": number (at least -90, at most 90),
          "name"?: string | null  // what it is called
        }, ...] | null  // Near them.
    }
    """'''
    )


def test_parameters_of_an_open_or_recursive_schema() -> None:
    class Tree(BaseModel):
        children: list[Tree] = []

    assert described(Tree).startswith("def Tree(**arguments):")
    assert signature({"properties": {}}) == "def f():\n    ..."


def test_default_that_is_nested_too_deeply_is_left_out() -> None:
    default: Any = 1
    for _ in range(2000):
        default = [default]
    schema = {"properties": {"a": {"default": default}, "b": {"const": " = "}}, "required": ["b"]}
    assert signature(schema).startswith("def f(*, a=..., b):")


def test_docstring_cannot_be_closed_by_a_description() -> None:
    text = signature({"properties": {"a": {"description": '""" \\'}}}, 'Say """hi""".')
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert ast.get_docstring(function) == ('Say """hi""".\n\n{\n  "a"?: any value  // """ \\\n}')


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["object", "#/$defs/a", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "$ref", "$defs", "a", "anyOf", "enum", "required"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_malformed_schemas_are_described(parameters: Any) -> None:
    assert signature(parameters).startswith("def f(")


def test_gemma_3_gets_googles_description_of_functions() -> None:
    text = describe_tools(format_named("gemma3"), [Tool("clock", "Tell the time.").to_openai()])
    assert text.startswith(
        "At each turn, if you decide to invoke any of the function(s), it should"
    )
    assert "wrapped with ```tool_code```." in text
    assert '```python\ndef clock():\n    """Tell the time."""\n```' in text
    assert text.endswith("```tool_code\n<its name>(<name>=<value>, …)\n```")
