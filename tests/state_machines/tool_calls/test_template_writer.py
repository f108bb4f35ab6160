"""transformers' parser reads the calls and the reasoning of each format by its response template."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from call_walks import a_walk, calls_in
from hypothesis import assume, given
from hypothesis import strategies as st
from judging import Judge
from notation_families import is_same
from schema_strategies import examples
from transformers.utils.chat_parsing import ResponseParser, parse_response

from state_machines.argument_notations.gemma import MarkedNotation
from state_machines.errors import CompositionError, SchemaError
from state_machines.tool_calls import (
    FORMATS,
    CallNames,
    Delimiters,
    ToolFormat,
    ToolSignature,
    format_named,
    in_compact_json,
)

ANCHOR, END = "<|start of the answer|>", "<|end of the answer|>"
THINK = Delimiters("<think>", "</think>")
REFUSED = {
    "apertus": "a key of the JSON",
    "cohere_cofl": "nests elements",
    "minimax_m3": "nests elements",
    "gemma3": "no list",
    "olmo3": "no list",
}
WRITABLE = {
    name: replace(entry, reasoning=entry.reasoning or THINK)
    for name, entry in FORMATS.items()
    if name not in REFUSED
}
MOST = 2**53 - 1
# A value in a tag is a text that the parser converts by the property's type, if there is one type:
# numbers become doubles. ``python-call-list`` refuses other integers.
NUMBERS = {"minimum": -MOST, "maximum": MOST}
SCALARS: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "boolean"},
    {"type": "integer", **NUMBERS},
    {"type": "number", **NUMBERS},
]
CONTAINERS = [
    *({"type": "array", "items": schema, "maxItems": 3} for schema in SCALARS),
    {"type": "object", "properties": {"a": SCALARS[0], "b": SCALARS[2]}, "required": ["b"]},
]


def typed_objects(containers: bool) -> st.SearchStrategy[dict[str, Any]]:
    values = st.sampled_from([*SCALARS, *(CONTAINERS if containers else ())])
    properties = st.dictionaries(st.sampled_from(["city", "n", "a_b", "x2"]), values, max_size=3)

    def schema(members: dict[str, Any]) -> dict[str, Any]:
        required = sorted(members)[:1]
        closed = {"additionalProperties": False}
        return {"type": "object", "properties": members, "required": required, **closed}

    return properties.map(schema)


def an_answer(
    entry: ToolFormat, calls: str, thinking: str, content: str
) -> tuple[str, dict[str, Any]]:
    """Return an answer in the format, and its reasoning and content."""
    assert entry.reasoning is not None
    begin, joint = entry.preamble if entry.preamble.begin else entry.answer, entry.joint
    text = f"{entry.reasoning.begin}{thinking}{entry.reasoning.end}{joint}"
    text += f"{begin.begin}{content}{begin.end}{joint}{calls}{entry.finish}{END}"
    parts = {"thinking": thinking.strip(), "content": content.strip()}
    return text, {name: part for name, part in parts.items() if part}


TEXTS = st.text(st.sampled_from("ab {}[]:,\"\n\t'éß😀"), max_size=12)


@pytest.mark.parametrize("entry", WRITABLE.values(), ids=list(WRITABLE))
@given(data=st.data(), seed=st.integers(0, 2**32), thinking=TEXTS, content=TEXTS)
@examples(6)
def test_parser_of_transformers_reads_generated_answers(
    entry: ToolFormat, data: st.DataObject, seed: int, thinking: str, content: str
) -> None:
    names = data.draw(st.lists(st.sampled_from(["get", "get_all", "f"]), min_size=1, unique=True))
    tools = [
        ToolSignature(name, data.draw(typed_objects(entry.notation.writes_plain))) for name in names
    ]
    random = Random(seed)
    part = entry.calls(tools, 1, 3 if entry.parallel else 1)
    try:
        pieces = a_walk(part, random)
    except (SchemaError, OverflowError):
        assume(False)
    meant = calls_in(pieces)
    assume(entry.start not in thinking + content)
    written = b"".join(piece.text for piece in pieces).decode()
    # The parser refuses these characters beside strings with delimiters of their own.
    assume(not isinstance(entry.notation, MarkedNotation) or not re.search("[\x01\x02]", written))
    text, parts = an_answer(entry, written, thinking, content)

    template = entry.to_response_template(start_anchor=ANCHOR, end=END)
    assert json.loads(json.dumps(template)) == template
    known: list[Any] = [
        {"type": "function", "function": {"name": tool.name, "parameters": tool.parameters}}
        for tool in tools
    ]
    whole = parse_response(text, template, prefix=ANCHOR, tools=known)
    parser = ResponseParser(template, prefix=ANCHOR, tools=known)
    at = 0
    while at < len(text):
        width = random.randint(1, 9)
        parser.feed(text[at : at + width])
        at += width
    streamed, _ = parser.finalize()
    assert whole == streamed

    found = whole.pop("tool_calls")
    assert whole == {"role": "assistant", **parts}
    assert len(found) == len(meant)
    aliases = CallNames(entry, tools)
    for call, other in zip(meant, found, strict=True):
        schema = next(tool.parameters for tool in tools if tool.name == call.name)
        assert Judge(schema).admits(call.arguments)
        assert other["function"]["name"] == call.name
        _, arguments = aliases.call(call.name, call.arguments or {})
        assert is_same(other["function"]["arguments"], arguments), text
        assert other.get("id") in (None, call.id)


@pytest.mark.parametrize("name", REFUSED)
def test_format_without_response_template_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(CompositionError, match=REFUSED[name]) as caught:
        FORMATS[name].to_response_template(start_anchor=ANCHOR)
    assert caught.value.part == "response_template"


def test_documented_template_of_transformers_is_the_written_one() -> None:
    entry = replace(format_named("hermes"), reasoning=THINK)
    assert entry.to_response_template(start_anchor="<|im_start|>assistant\n", end="<|im_end|>") == {
        "defaults": {"role": "assistant"},
        "start_anchor": "<|im_start|>assistant\n",
        "fields": {
            "thinking": {"open": "<think>", "close": "</think>"},
            "tool_calls": {
                "open": "<tool_call>",
                "close": "</tool_call>",
                "repeats": True,
                "content": "json",
                "transform": {
                    "type": "function",
                    "function": {"name": "{content.name}", "arguments": "{content.arguments}"},
                },
            },
            "content": {"repeats": True, "join": "", "close": "<|im_end|>"},
        },
    }


@pytest.mark.parametrize(
    "entry",
    [
        in_compact_json(format_named("hermes")),
        in_compact_json(format_named("xlam")),
        format_named("qwen3_coder").with_delimiters("<call>", "</call>"),
        format_named("llama3").with_delimiters("```tool\n", "\n```"),
    ],
)
def test_changed_formats_have_response_templates(entry: ToolFormat) -> None:
    city = {"properties": {"city": {"const": "Oslo"}}, "required": ["city"]}
    schema = {"type": "object", **city, "additionalProperties": False}
    text = b"".join(
        piece.text for piece in a_walk(entry.calls([ToolSignature("f", schema)], 1, 1), Random(1))
    ).decode()
    template = entry.to_response_template(start_anchor=ANCHOR)
    (call,) = parse_response(text, template, prefix="")["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": {"city": "Oslo"}}


@pytest.mark.parametrize("texts", [{"start_anchor": 1}, {"start_anchor": "a", "end": None}])
def test_invalid_texts_raise(texts: dict[str, Any]) -> None:
    with pytest.raises(CompositionError):
        format_named("hermes").to_response_template(**texts)
