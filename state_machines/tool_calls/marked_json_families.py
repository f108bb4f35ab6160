"""Families that write calls as JSON, after a marker of their own or none."""

from __future__ import annotations

from dataclasses import replace

from state_machines.argument_notations import JSON
from state_machines.tool_calls.json_families import HERMES, json_list
from state_machines.tool_calls.tool_format import Delimiters, ToolFormat

ERNIE = replace(HERMES, name="ernie", models="ERNIE 4.5 and X1.1, if they reason")

INTERNLM = ToolFormat(
    name="internlm",
    models="InternLM 2, 2.5 and 3, Intern-S1",
    start="<|action_start|><|plugin|>",
    head='\n{"name": "{name}", "parameters": ',
    notation=JSON,
    foot=("}",),
    end="<|action_end|>",
    wraps="each",
    between=("", "\n"),
    # The parsers split a text at the tokens before they read the JSON.
    avoid=("<|action_start|>",),
    tokens=("<|action_start|>", "<|plugin|>", "<|action_end|>"),
)

APERTUS = replace(
    json_list("apertus", "Apertus", start="<|tools_prefix|>", end="<|tools_suffix|>"),
    head='{"{name}": ',
    tokens=("<|tools_prefix|>", "<|tools_suffix|>"),
    result=Delimiters("[", "]"),
)

PHI4_MINI = ToolFormat(
    name="phi4_mini",
    models="Phi-4-mini",
    start="functools[",
    head='{"name": "{name}", "arguments": ',
    notation=JSON,
    foot=("}",),
    wraps="all",
    between=(", ",),
    end="]",
)

XLAM = ToolFormat(
    name="xlam",
    models="xLAM 2",
    start='[{"name": "',
    head='{name}", "arguments": ',
    notation=JSON,
    foot=("}",),
    wraps="all",
    between=(', {"name": "',),
    end="]",
    is_delimited=False,
)

GIGACHAT3 = ToolFormat(
    name="gigachat3",
    models="GigaChat 3",
    # The calling role is the next one after the assistant's text.
    start="<|message_sep|>\n\nfunction call<|role_sep|>\n",
    head='{"name": "{name}", "arguments": ',
    notation=JSON,
    foot=("}",),
    wraps="each",
    # The chat templates write the first call of a turn alone.
    parallel=False,
)

GIGACHAT3_1 = replace(
    GIGACHAT3,
    name="gigachat3_1",
    models="GigaChat 3.1",
    start="<|function_call|>",
    tokens=("<|function_call|>",),
)

MARKED_JSON_FAMILIES = (ERNIE, INTERNLM, APERTUS, PHI4_MINI, XLAM, GIGACHAT3, GIGACHAT3_1)
