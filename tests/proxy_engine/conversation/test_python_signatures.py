"""Tools as Python functions with docstrings."""

from __future__ import annotations

import ast
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from proxy_engine.conversation.python_signatures import python_signatures
from proxy_engine.conversation.tool_text import tool_text_of
from proxy_engine.tools import Tool, resolve_tools
from state_machines.tool_calls import format_named


def signature(parameters: Any, description: str = "") -> str:
    return python_signatures([{"name": "f", "description": description, "parameters": parameters}])


class Place(BaseModel):
    lat: float = Field(ge=-90, le=90)
    name: str | None = Field(None, description="what it is called")


class Tree(BaseModel):
    """A tree."""

    label: str
    children: list[Tree] = []


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


def test_signature_has_types_defaults_and_a_docstring() -> None:
    tools = [tool.to_openai() for tool in resolve_tools([weather])]
    assert (
        python_signatures(tools)
        == '''def weather(city: Literal["Lima", "Oslo"], days: int = 1, places: list[dict] | None = None):
    """Forecast the weather.

    In detail.

    Args:
      city: Where?
      days: For how many days.
      places: Near them. [{
          "lat": number (-90 to 90),
          "name"?: string | null  // what it is called
        }, ...] | null
    """'''
    )


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (True, "Any"),
        ({}, "Any"),
        ({"type": "string"}, "str"),
        ({"type": "integer", "maximum": 3}, "int"),
        ({"type": "number"}, "float"),
        ({"type": "boolean"}, "bool"),
        ({"type": "null"}, "None"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"type": "array"}, "list"),
        ({"type": "array", "items": {"type": "integer"}}, "list[int]"),
        ({"items": [{"type": "string"}]}, "list[str]"),
        ({"prefixItems": [{"type": "string"}, {"type": "null"}]}, "list[str | None]"),
        ({"type": "object"}, "dict"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "dict[str, float]"),
        ({"enum": ["a", 1, None, True]}, 'Literal["a", 1, None, True]'),
        ({"const": "ä"}, 'Literal["ä"]'),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "string"}]}, "str | int"),
        ({"anyOf": [{"type": "string"}, {}]}, "Any"),
        ({"type": "object", "anyOf": [{"required": ["a"]}]}, "dict"),
        ({"allOf": [{"description": "x"}, {"type": "string"}]}, "str"),
        ({"$ref": "#/$defs/a"}, "int"),
        ({"$ref": "#/$defs/loop"}, "Any"),
        ({"$ref": "https://example.com/other"}, "Any"),
        ({"type": "unknown"}, "Any"),
    ],
)
def test_types_of_schemas(schema: Any, expected: str) -> None:
    definitions = {"a": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}}
    parameters = {"properties": {"x": schema}, "required": ["x"], "$defs": definitions}
    assert signature(parameters).splitlines()[0] == f"def f(x: {expected}):"


def test_parameters_without_a_default_after_others_are_keyword_only() -> None:
    parameters = {"properties": {"a": {"default": "x"}, "b": {}, "c": {}}, "required": ["c"]}
    assert signature(parameters) == 'def f(*, a: Any = "x", b: Any = None, c: Any):\n    ...'


def test_default_that_is_nested_too_deeply_is_left_out() -> None:
    default: Any = 1
    for _ in range(2000):
        default = [default]
    schema = {"properties": {"a": {"default": default}, "b": {"const": " = "}}, "required": ["b"]}
    assert signature(schema).startswith('def f(*, a: Any = ..., b: Literal[" = "]):')


def test_further_arguments_of_an_open_schema() -> None:
    assert signature({"additionalProperties": {"type": "integer"}}).startswith(
        "def f(**kwargs: int)"
    )
    assert signature({"properties": {}}).startswith("def f():")


def test_outline_of_recursive_objects_ends() -> None:
    class Forest(BaseModel):
        trees: list[Tree]

    text = python_signatures([tool.to_openai() for tool in resolve_tools([Forest])])
    assert text.startswith("def Forest(trees: list[dict]):")
    assert (
        '      trees: [Tree, ...]\n      where Tree is {  // A tree.\n        "label": string,'
        in text
    )


def test_docstring_cannot_be_closed_by_a_description() -> None:
    text = signature({"properties": {"a": {"description": '""" \\'}}}, 'Say """hi""".')
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert ast.get_docstring(function) == 'Say """hi""".\n\nArgs:\n  a: """ \\'


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


def test_wide_schema_is_cut() -> None:
    schema: Any = {"type": "string"}
    for _ in range(12):
        schema = {"anyOf": [{"type": "array", "items": schema}] * 4}
    assert len(signature({"properties": {"a": schema}})) < 100_000


def test_gemma_3_gets_googles_description_of_functions() -> None:
    text = tool_text_of(format_named("gemma3")).describe(
        [Tool("clock", "Tell the time.").to_openai()]
    )
    assert text.startswith(
        "At each turn, if you decide to invoke any of the function(s), it should"
    )
    assert "wrapped with ```tool_code```." in text
    assert '```python\ndef clock():\n    """Tell the time."""\n```' in text
    assert text.endswith("```tool_code\n<its name>(<name>=<value>, …)\n```")
