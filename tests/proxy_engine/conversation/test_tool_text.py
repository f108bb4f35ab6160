"""Calls as plain text, in the way of families: their own readers read them."""

from __future__ import annotations

import ast
import importlib
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from schema_strategies import examples

from proxy_engine import PromptError
from proxy_engine.conversation.tool_text import describe_tools, write_calls
from proxy_engine.tools import Tool, resolve_tools
from state_machines.argument_notations import JSON, PYTHONIC, PYTHONIC_JSON
from state_machines.tool_calls import FORMATS, ToolFormat, format_named

WRITTEN = sorted(
    name for name, entry in FORMATS.items() if entry.notation in (JSON, PYTHONIC, PYTHONIC_JSON)
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=4,
)
calls = st.lists(
    st.tuples(st.sampled_from(["f", "get_x"]), st.dictionaries(st.sampled_from("xyz"), values)),
    min_size=1,
    max_size=3,
)


@pytest.mark.parametrize("name", WRITTEN)
@examples(8)
@given(written=calls)
def test_the_notation_reads_what_is_written(
    name: str, written: list[tuple[str, dict[str, Any]]]
) -> None:
    entry = format_named(name)
    text = write_calls(entry, written[:1])
    tool, arguments = written[0]
    head = entry.start + (entry.opening[0] if entry.wraps == "all" else "")
    first = "1" if name == "kimi_k3" else "0"
    head += entry.head.replace("{name}", tool).replace("{id}", first)
    assert text.startswith(head)
    tail = entry.foot[0] + (entry.closing if entry.wraps == "all" else "") + entry.end
    assert text.endswith(tail)
    assert entry.notation.compile(True).read(text[len(head) : len(text) - len(tail)]) == arguments


@given(written=calls)
def test_parser_of_mlx_lm_reads_written_calls(written: list[tuple[str, dict[str, Any]]]) -> None:
    parser = importlib.import_module("mlx_lm.tool_parsers.json_tools")
    text = write_calls(format_named("hermes"), written[:1])
    inner = text.removeprefix(parser.tool_call_start).removesuffix(parser.tool_call_end)
    name, arguments = written[0]
    assert parser.parse_tool_call(inner, None) == {"name": name, "arguments": arguments}


def test_python_words() -> None:
    pythonic = ToolFormat(
        name="test",
        models="none",
        start="```tool_code\n",
        wraps="all",
        head="{name}(",
        notation=PYTHONIC,
        foot=(")",),
        between=("\n",),
        end="\n```",
    )
    both = [("f", {"a": [True, None, "x\n"], "b": {"c": 1.5}}), ("g", {})]
    assert write_calls(pythonic, both) == (
        '```tool_code\nf(a=[True, None, "x\\n"], b={"c": 1.5})\ng()\n```'
    )
    assert "```tool_code\n<its name>(<name>=<value>, …)\n```" in describe_tools(pythonic, [])


def test_tags_of_a_format_are_described_and_written() -> None:
    entry = format_named("qwen3_coder").with_delimiters("<c>", "</c>")
    call = "<c>\n<function=f>\n<parameter={}>\n{}\n</parameter>\n</function>\n</c>"
    assert write_calls(entry, [("f", {"x": "ä"})]) == call.format("x", "ä")
    described = call.format("<name>", "<value>").replace("f>", "<its name>>", 1)
    assert described in describe_tools(entry, [])


@pytest.mark.parametrize("name", ["hermes", "gemma3", "gemma4", "glm4_5"])
def test_arguments_that_are_nested_too_deeply_are_refused(name: str) -> None:
    value: Any = 1
    for _ in range(10_000):
        value = [value]
    with pytest.raises(PromptError, match="nested too deeply"):
        write_calls(format_named(name), [("f", {"x": value})])


# Tools as Python functions with docstrings.


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
