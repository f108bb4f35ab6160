"""Families whose calls are a list of JSON objects.

Below each row stands the call of ``get_weather`` with ``{"city": "Oslo"}`` that it writes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from state_machines.tool_calls.call import CallIds
from state_machines.tool_calls.tool_format import Delimiters, Sign, ToolFormat

ARGUMENTS = '{"name": "{name}", "arguments": '
"""The text before arguments in JSON that has the name, too."""

NUMBERS = "0|[1-9][0-9]{0,3}"
"""The ids of calls that are numbered."""


def section(*, start: str, opening: str = "", closing: str = "", end: str) -> dict[str, Any]:
    """Return the fields of a format whose calls stand together between two delimiters."""
    texts = {"start": start, "opening": (opening,), "closing": closing, "end": end}
    return {"wraps": "all", **texts}


def _json_list(*, start: str, end: str = "") -> dict[str, Any]:
    """Return the fields of a format whose calls are a JSON list."""
    texts = section(start=start, opening="[", closing="]", end=end)
    return {**texts, "head": ARGUMENTS, "foot": ("}",), "between": (", ",)}


_MISTRAL_LIST = {**_json_list(start="[TOOL_CALLS]"), "opening": ("[", " [")}

MISTRAL = ToolFormat(
    name="mistral",
    models="Mistral up to its seventh tokenizer: 7B v0.3, Nemo, Small 3, Mixtral 8x22B",
    **{**_MISTRAL_LIST, "foot": ("}", ', "id": "{id}"}')},
    tokens=("[TOOL_CALLS]",),
    ids=CallIds(pattern="[A-Za-z0-9]{9}", length=9),
    parser="mistral",
    signs=(Sign(tokens=("[TOOL_CALLS]",)), Sign(texts=("[TOOL_CALLS]",))),
)
"""[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Oslo"}}]"""

_GRANITE = ToolFormat(
    name="granite",
    models="Granite 3",
    **{**_json_list(start="<|tool_call|>"), "opening": ("[", " [")},
)

# Granite 3.1 also writes the marker in ordinary tokens.
GRANITE = replace(
    _GRANITE,
    tokens=("<|tool_call|>",),
    also=(replace(_GRANITE, start="<tool_call>"),),
    signs=(Sign(tokens=("<|tool_call|>", "<|start_of_role|>")),),
)
"""<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Oslo"}}]"""

_COHERE_ACTION = ("<|START_ACTION|>", "<|END_ACTION|>")

_COHERE_RESPONSE = ("<|START_RESPONSE|>", "<|END_RESPONSE|>")

_COHERE_TEXT = ("<|START_TEXT|>", "<|END_TEXT|>")

_COHERE_LIST = {
    **section(start="<|START_ACTION|>", opening="[\n    ", closing="\n]", end="<|END_ACTION|>"),
    "between": (",\n    ",),
}

COHERE = ToolFormat(
    name="cohere",
    models="Command R7B, Command A",
    **_COHERE_LIST,
    head='{"tool_call_id": "{id}", "tool_name": "{name}", "parameters": ',
    foot=("}",),
    tokens=(*_COHERE_ACTION, *_COHERE_RESPONSE),
    ids=CallIds(pattern=NUMBERS, template=""),  # Through an answer, or a conversation.
    reasoning=Delimiters("<|START_THINKING|>", "<|END_THINKING|>"),
    answer=Delimiters(*_COHERE_RESPONSE),
    signs=(Sign(tokens=("<|START_ACTION|>", "<|START_RESPONSE|>"), lacks=("<|START_TEXT|>",)),),
)
"""<|START_ACTION|>[
    {"tool_call_id": "0", "tool_name": "get_weather", "parameters": {"city": "Oslo"}}
]<|END_ACTION|>"""

COHERE_TEXT = replace(
    COHERE,
    name="cohere_text",
    models="Command A+ and others with <|START_TEXT|>",
    tokens=(*_COHERE_ACTION, *_COHERE_TEXT),
    answer=Delimiters(*_COHERE_TEXT),
    signs=(Sign(tokens=("<|START_ACTION|>", "<|START_TEXT|>")),),
)
"""<|START_ACTION|>[
    {"tool_call_id": "0", "tool_name": "get_weather", "parameters": {"city": "Oslo"}}
]<|END_ACTION|>"""

JSON_FENCE = ToolFormat(
    name="json_fence",
    models="any model, on request",
    **_json_list(start="```tool\n", end="\n```"),
    result=Delimiters("```tool_output\n", "\n```"),
)
"""```tool
[{"name": "get_weather", "arguments": {"city": "Oslo"}}]
```"""

APERTUS = ToolFormat(
    name="apertus",
    models="Apertus",
    **section(start="<|tools_prefix|>", opening="[", closing="]", end="<|tools_suffix|>"),
    head='{"{name}": ',
    foot=("}",),
    between=(", ",),
    tokens=("<|tools_prefix|>", "<|tools_suffix|>"),
    result=Delimiters("[", "]"),
    signs=(Sign(tokens=("<|tools_prefix|>", "<|tools_suffix|>")),),
)
"""<|tools_prefix|>[{"get_weather": {"city": "Oslo"}}]<|tools_suffix|>"""

PHI4_MINI = ToolFormat(
    name="phi4_mini",
    models="Phi-4-mini",
    **section(start="functools[", end="]"),
    head=ARGUMENTS,
    foot=("}",),
    between=(", ",),
    signs=(Sign(texts=("functools[",)), Sign(tokens=("<|tool|>", "<|/tool|>"))),
)
"""functools[{"name": "get_weather", "arguments": {"city": "Oslo"}}]"""

XLAM = ToolFormat(
    name="xlam",
    models="xLAM 2",
    **section(start='[{"name": "', end="]"),
    head='{name}", "arguments": ',
    foot=("}",),
    between=(', {"name": "',),
    is_delimited=False,
    signs=(Sign(texts=('[{"name": "tool_call_name"',)),),
)
"""[{"name": "get_weather", "arguments": {"city": "Oslo"}}]"""

HUNYUAN = ToolFormat(
    name="hunyuan",
    models="Hunyuan A13B and 7B",
    **_json_list(start="<tool_calls>", end="</tool_calls>"),
    result=Delimiters("<tool_response>", "</tool_response>"),
    signs=(Sign(texts=("<tool_calls>[",)),),
)
"""<tool_calls>[{"name": "get_weather", "arguments": {"city": "Oslo"}}]</tool_calls>"""

JAMBA = ToolFormat(
    name="jamba",
    models="Jamba 1.5 to 1.7",
    **section(start="<tool_calls>", opening="[\n    ", closing="\n]", end="</tool_calls>"),
    head=ARGUMENTS,
    foot=("}",),
    between=(",\n    ",),
    tokens=("<tool_calls>", "</tool_calls>"),
    signs=(Sign(tokens=("<tool_calls>", "</tool_calls>", "<|bom|>")),),
)
"""<tool_calls>[
    {"name": "get_weather", "arguments": {"city": "Oslo"}}
]</tool_calls>"""

NEMOTRON_NANO_V2 = ToolFormat(
    name="nemotron_nano_v2",
    models="Nemotron Nano 2",
    **_json_list(start="<TOOLCALL>", end="</TOOLCALL>"),
    result=Delimiters("<TOOL_RESPONSE>[", "]</TOOL_RESPONSE>"),
    signs=(Sign(texts=("<TOOLCALL>[",)),),
)
"""<TOOLCALL>[{"name": "get_weather", "arguments": {"city": "Oslo"}}]</TOOLCALL>"""

OPENPANGU = ToolFormat(
    name="openpangu",
    models="openPangu",
    **_json_list(start="[unused11]", end="[unused12]"),
    tokens=("[unused11]", "[unused12]"),
    signs=(Sign(tokens=("[unused11]", "[unused12]"), texts=("[unused11]", "[unused12]")),),
)
"""[unused11][{"name": "get_weather", "arguments": {"city": "Oslo"}}][unused12]"""

JSON_LIST_FAMILIES = (
    *(JAMBA, HUNYUAN, APERTUS, PHI4_MINI, XLAM, GRANITE, COHERE, COHERE_TEXT, NEMOTRON_NANO_V2),
    *(OPENPANGU, MISTRAL, JSON_FENCE),
)
"""A tokenizer that has signs of several rows is one of the first of them."""
