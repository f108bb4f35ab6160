"""Response templates: those that transformers documents, and random ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st
from transformers.utils.chat_parsing import ResponseParser

__all__ = ["DOCUMENTED", "ENDS", "SPECIAL", "read_calls", "templates"]

ENDS = ("<|im_end|>", "<|endoftext|>", "<eos>")
SPECIAL = (*ENDS, "<turn|>", "<|tool_response>")

NAMED = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
WHOLE = {"type": "function", "function": "{content}"}
THINK = {"open": "<think>", "close": "</think>"}

_FILE = Path(__file__).parents[1] / "data" / "response_templates.json"
DOCUMENTED: dict[str, dict[str, Any]] = json.loads(_FILE.read_text(encoding="utf-8"))
"""The fields of templates with the members that transformers' documentation and tests show."""

TEXTS = st.sampled_from(["<c>", "[CALL]", "<|a b|>\n", "§§", "call:\n"])
ENDINGS = st.sampled_from(["</c>", "[/CALL]", "\n<|z|>", "¶¶"])
VALUE_PARSERS = [
    None,
    {"name": "text"},
    {"name": "text", "args": {"strip": False}},
    {"name": "json"},
    {"name": "json", "args": {"allow_non_json": True}},
]


@st.composite
def _contents(draw: Any) -> dict[str, Any]:
    kind = draw(st.sampled_from(["json", "xml-inline", "kv-lines"]))
    args: dict[str, Any] = {}
    if kind == "json":
        marks = draw(st.sampled_from([None, ["<s>", "</s>"], ["``", "``"]]))
        if marks:
            args = {"string_delims": [marks], "unquoted_keys": draw(st.booleans())}
        return {"content": kind, "content_args": args}
    if kind == "xml-inline":
        args["tag_pattern"] = draw(
            st.sampled_from(
                [
                    r"<p=(?P<key>\w+)>(?P<value>.*?)</p>",
                    r"<p=(?P<key>[^>]+)>\s*(?P<value>.*?)\s*</p>\n?",
                    r"<k>(?P<key>\w+)</k>\n<v>(?P<value>.+?)</v>",
                    r"@(?P<key>\w+)=(?P<value>[^~]*)~",
                ]
            )
        )
    else:
        args |= draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "kv_sep": st.sampled_from([": ", "=", "->"]),
                    "line_sep": st.sampled_from(["\n", ";;"]),
                    "strip": st.booleans(),
                },
            )
        )
    parser = draw(st.sampled_from(VALUE_PARSERS))
    return {"content": kind, "content_args": args | ({"value_parser": parser} if parser else {})}


@st.composite
def templates(draw: Any) -> dict[str, Any]:
    """Return the fields of a template over the content types."""
    begin, end = draw(TEXTS), draw(ENDINGS)
    content = draw(_contents())
    call: dict[str, Any] = {"open": begin, "close": end, "repeats": True, **content}
    has_body = content["content"] == "json"
    form = draw(st.sampled_from(["group", "content", "path", "each"] if has_body else ["group"]))
    if form == "group":
        del call["open"]
        space = draw(st.sampled_from(["", r"\s*", "\n"]))
        behind = draw(st.sampled_from(["\n", r">\s*", ">"]))
        call["open_pattern"] = rf"{re.escape(begin)}{space}f=(?P<name>\w+){behind}"
        call["transform"] = NAMED
    elif form == "content":
        call["transform"] = WHOLE
    elif form == "path":
        call["transform"] = {
            "function": {"name": "{content.fn.name}", "arguments": "{content.fn.args}"}
        }
    else:
        call |= {"repeats": False, "transform_each": True}
        call["transform"] = {"function": {"name": "{tool}", "arguments": "{input}"}}
    fields: dict[str, Any] = {"tool_calls": call}
    if draw(st.booleans()):
        fields["thinking"] = draw(
            st.sampled_from([THINK, {"open_pattern": r"<t>\s*", "close_pattern": r"\n?</t>"}])
        )
    if draw(st.booleans()):
        fields["content"] = {"close": "<|im_end|>"}
    return fields


def read_calls(
    fields: dict[str, Any], text: str, tools: list[Any], random: Random | None = None
) -> list[tuple[str, Any]]:
    """Return the calls that transformers reads, from the whole text or from random pieces."""
    template = {"start_anchor": "<assistant>", "fields": fields}
    definitions: list[Any] = [
        {"type": "function", "function": {"name": tool.name, "parameters": tool.parameters}}
        for tool in tools
    ]
    parser = ResponseParser(template, prefix="", tools=definitions)
    while text:
        size = random.randint(1, 12) if random is not None else len(text)
        parser.feed(text[:size])
        text = text[size:]
    found = parser.finalize()[0].get("tool_calls", [])
    listed = found if isinstance(found, list) else [found]
    calls = [call["function"] for call in listed]
    return [(call["name"], call["arguments"]) for call in calls]
