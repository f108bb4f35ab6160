"""Calls as plain text, in the way of families: their own readers read them."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schema_strategies import examples

from proxy_engine import PromptError
from proxy_engine.conversation.tool_text import describe_tools, write_calls
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
