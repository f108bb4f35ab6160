"""Families that write arguments as a JSON object.

A row is a :class:`~state_machines.tool_calls.tool_format.ToolFormat`. Below it stands the call of
``get_weather`` with ``{"city": "Oslo"}`` that it writes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from state_machines.argument_notations.raw_text import RAW_INPUT
from state_machines.tool_calls.call import CallIds
from state_machines.tool_calls.tool_format import Delimiters, Sign, ToolFormat

_ARGUMENTS = '{"name": "{name}", "arguments": '
_PARAMETERS = '{"name": "{name}", "parameters": '
_NUMBERS = "0|[1-9][0-9]{0,3}"


def section(*, start: str, opening: str = "", closing: str = "", end: str) -> dict[str, Any]:
    """Return the fields of a format whose calls stand together between two delimiters."""
    texts = {"start": start, "opening": (opening,), "closing": closing, "end": end}
    return {"wraps": "all", **texts}


def _json_list(*, start: str, end: str = "") -> dict[str, Any]:
    """Return the fields of a format whose calls are a JSON list."""
    texts = section(start=start, opening="[", closing="]", end=end)
    return {**texts, "head": _ARGUMENTS, "foot": ("}",), "between": (", ",)}


HERMES = ToolFormat(
    name="hermes",
    models="Hermes 2 and 3, Qwen2.5, Qwen3, and others with <tool_call>",
    start="<tool_call>",
    head="\n" + _ARGUMENTS,
    foot=("}\n",),
    end="</tool_call>",
    between=("\n", ""),
    parser="json_tools",
)
"""<tool_call>
{"name": "get_weather", "arguments": {"city": "Oslo"}}
</tool_call>"""

LONGCAT_JSON = replace(
    HERMES,
    name="longcat_json",
    models="LongCat Flash Chat",
    start="<longcat_tool_call>",
    end="</longcat_tool_call>",
    parser="longcat",
    signs=(Sign(texts=("<longcat_tool_call>",)),),
)
"""<longcat_tool_call>
{"name": "get_weather", "arguments": {"city": "Oslo"}}
</longcat_tool_call>"""

# The chat templates refuse a turn with two calls.
LLAMA3 = ToolFormat(
    name="llama3",
    models="Llama 3.1, 3.2 and 3.3",
    start='{"name": "',
    head='{name}", "parameters": ',
    foot=("}",),
    is_delimited=False,
    parallel=False,
    signs=(Sign(tokens=("<|start_header_id|>", "<|eot_id|>")),),
)
"""{"name": "get_weather", "parameters": {"city": "Oslo"}}"""

LLAMA3_PYTHON_TAG = ToolFormat(
    name="llama3_python_tag",
    models="Llama 3.1, 3.2 and 3.3 if <|python_tag|> should begin a call",
    start="<|python_tag|>",
    head=_PARAMETERS,
    foot=("}",),
    parallel=False,
    tokens=("<|python_tag|>",),
)
"""<|python_tag|>{"name": "get_weather", "parameters": {"city": "Oslo"}}"""

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

MISTRAL_ARGS = ToolFormat(
    name="mistral_args",
    models="Mistral since its eleventh tokenizer: Small 3.2, Magistral, Ministral 3, Devstral",
    start="[TOOL_CALLS]",
    head="{name}[ARGS]",
    names=r"[A-Za-z0-9_-]+",
    tokens=("[TOOL_CALLS]", "[ARGS]"),
    ids=CallIds(length=9),
    reasoning=Delimiters("[THINK]", "[/THINK]"),
    parser="mistral",
    signs=(Sign(tokens=("[TOOL_CALLS]", "[ARGS]")), Sign(texts=("[TOOL_CALLS]", "[ARGS]"))),
)
"""[TOOL_CALLS]get_weather[ARGS]{"city": "Oslo"}"""

_KIMI_SECTION = ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>")
_KIMI_CALL = ("<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>")

KIMI_K2 = ToolFormat(
    name="kimi_k2",
    models="Kimi K2",
    **section(start=_KIMI_SECTION[0], end=_KIMI_SECTION[1]),
    head="<|tool_call_begin|>functions.{name}:{id}<|tool_call_argument_begin|>",
    foot=("<|tool_call_end|>",),
    avoid=("<|tool_call_end|>",),  # Its parser searches for it before it reads the JSON.
    names=r"[A-Za-z0-9_.-]+",
    tokens=(*_KIMI_SECTION, *_KIMI_CALL),
    ids=CallIds(pattern=_NUMBERS, template="functions.{name}:{id}"),  # Through a conversation.
    parser="kimi_k2",
)
"""<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0\
<|tool_call_argument_begin|>{"city": "Oslo"}<|tool_call_end|><|tool_calls_section_end|>"""

_DEEPSEEK_SECTION = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
_DEEPSEEK_CALL = ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>")
_DEEPSEEK: dict[str, Any] = {
    **section(start=_DEEPSEEK_SECTION[0], end=_DEEPSEEK_SECTION[1]),
    "avoid": ("<｜tool▁call▁end｜>",),
    "tokens": (*_DEEPSEEK_SECTION, *_DEEPSEEK_CALL),
}
_DEEPSEEK_RESULT = Delimiters(
    "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>", "<｜tool▁output▁end｜><｜tool▁outputs▁end｜>"
)

DEEPSEEK_R1 = ToolFormat(
    name="deepseek_r1",
    models="DeepSeek R1 and V3",
    **_DEEPSEEK,
    head="<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n",
    foot=("\n```<｜tool▁call▁end｜>",),
    between=("\n", ""),
    result=_DEEPSEEK_RESULT,
    signs=(Sign(tokens=("<｜tool▁sep｜>",), texts=("```json",)),),
)
"""<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather
```json
{"city": "Oslo"}
```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"""

DEEPSEEK_V3_1 = ToolFormat(
    name="deepseek_v3_1",
    models="DeepSeek V3.1",
    **_DEEPSEEK,
    head="<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>",
    foot=("<｜tool▁call▁end｜>",),
    signs=(Sign(tokens=("<｜tool▁sep｜>",)),),
)
"""<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Oslo"}\
<｜tool▁call▁end｜><｜tool▁calls▁end｜>"""

_GPT_OSS_TOKENS = (
    "<|start|>",
    "<|channel|>",
    "<|constrain|>",
    "<|message|>",
    "<|end|>",
    "<|call|>",
)

# The end of a call is an end token of these models, so an answer has one call.
_GPT_OSS = ToolFormat(
    name="gpt_oss",
    models="gpt-oss (harmony channels)",
    start="<|channel|>commentary to=functions.",
    head="{name} <|constrain|>json<|message|>",
    end="<|call|>",
    is_delimited=False,
    parallel=False,
    tokens=_GPT_OSS_TOKENS,
)

# The recipient can stand in the header of the role, after <|start|>assistant.
_GPT_OSS_HEADERS = tuple(
    replace(
        _GPT_OSS,
        name="gpt_oss_header",
        start=" to=functions.",
        head=f"{{name}}<|channel|>commentary {kind}<|message|>",
    )
    for kind in ("json", "<|constrain|>json")
)

# The content type of the model's own tool with raw input, python.
_GPT_OSS_CUSTOM = replace(
    _GPT_OSS, name="gpt_oss_custom", head="{name} code<|message|>", notation=RAW_INPUT
)

GPT_OSS = replace(
    _GPT_OSS,
    custom=_GPT_OSS_CUSTOM,
    also=_GPT_OSS_HEADERS,
    reasoning=Delimiters("<|channel|>analysis<|message|>", "<|end|>"),
    answer=Delimiters("<|channel|>final<|message|>", "<|return|>"),
    preamble=Delimiters("<|channel|>commentary<|message|>", "<|end|>"),
    joint="<|start|>assistant",
    signs=(Sign(tokens=("<|channel|>", "<|constrain|>", "<|call|>")),),
)
"""<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Oslo"}\
<|call|>"""

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
    ids=CallIds(pattern=_NUMBERS, template=""),  # Through an answer, or a conversation.
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

ERNIE = replace(
    HERMES,
    name="ernie",
    models="ERNIE 4.5 and X1.1, if they reason",
    signs=(Sign(tokens=("<response>", "</response>")),),
)
"""<tool_call>
{"name": "get_weather", "arguments": {"city": "Oslo"}}
</tool_call>"""

INTERNLM = ToolFormat(
    name="internlm",
    models="InternLM 2, 2.5 and 3, Intern-S1",
    start="<|action_start|><|plugin|>",
    head="\n" + _PARAMETERS,
    foot=("}",),
    end="<|action_end|>",
    between=("", "\n"),
    avoid=("<|action_start|>",),  # The parsers split a text at the tokens first.
    tokens=("<|action_start|>", "<|plugin|>", "<|action_end|>"),
    signs=(Sign(tokens=("<|action_start|>", "<|action_end|>", "<|plugin|>")),),
)
"""<|action_start|><|plugin|>
{"name": "get_weather", "parameters": {"city": "Oslo"}}<|action_end|>"""

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
    head=_ARGUMENTS,
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

# The calling role is the next one after the assistant's text. The chat templates write the first
# call of a turn alone.
GIGACHAT3 = ToolFormat(
    name="gigachat3",
    models="GigaChat 3",
    start="<|message_sep|>\n\nfunction call<|role_sep|>\n",
    head=_ARGUMENTS,
    foot=("}",),
    parallel=False,
    signs=(Sign(tokens=("<|role_sep|>\n",)), Sign(texts=("function call", "<|role_sep|>"))),
)
"""<|message_sep|>

function call<|role_sep|>
{"name": "get_weather", "arguments": {"city": "Oslo"}}"""

GIGACHAT3_1 = replace(
    GIGACHAT3,
    name="gigachat3_1",
    models="GigaChat 3.1",
    start="<|function_call|>",
    tokens=("<|function_call|>",),
    signs=(Sign(tokens=("<|function_call|>", "<|role_sep|>\n")),),
)
"""<|function_call|>{"name": "get_weather", "arguments": {"city": "Oslo"}}"""

HUNYUAN = ToolFormat(
    name="hunyuan",
    models="Hunyuan A13B and 7B",
    **_json_list(start="<tool_calls>", end="</tool_calls>"),
    result=Delimiters("<tool_response>", "</tool_response>"),
    signs=(Sign(texts=("<tool_calls>[",)),),
)
"""<tool_calls>[{"name": "get_weather", "arguments": {"city": "Oslo"}}]</tool_calls>"""

JSON_FAMILIES = (
    *(ERNIE, HERMES, LONGCAT_JSON, KIMI_K2, GIGACHAT3_1, GIGACHAT3, HUNYUAN, APERTUS, INTERNLM),
    *(PHI4_MINI, XLAM, DEEPSEEK_R1, DEEPSEEK_V3_1, GRANITE, COHERE, COHERE_TEXT, GPT_OSS),
    *(LLAMA3, LLAMA3_PYTHON_TAG, MISTRAL_ARGS, MISTRAL, JSON_FENCE),
)
"""A tokenizer that has signs of several rows is one of the first of them."""
