"""Families that write each call's arguments as a JSON object.

A row is a :class:`~state_machines.tool_calls.tool_format.ToolFormat`. Below it stands the call of
``get_weather`` with ``{"city": "Oslo"}`` that it writes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from state_machines.argument_notations.raw_text import RAW_INPUT
from state_machines.tool_calls.call import CallIds
from state_machines.tool_calls.json_list_families import ARGUMENTS, NUMBERS, section
from state_machines.tool_calls.tool_format import Delimiters, Sign, ToolFormat

_PARAMETERS = '{"name": "{name}", "parameters": '

HERMES = ToolFormat(
    name="hermes",
    models="Hermes 2 and 3, Qwen2.5, Qwen3, and others with <tool_call>",
    start="<tool_call>",
    head="\n" + ARGUMENTS,
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
    ids=CallIds(pattern=NUMBERS, template="functions.{name}:{id}"),  # Through a conversation.
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

# The calling role is the next one after the assistant's text. The chat templates write the first
# call of a turn alone.
GIGACHAT3 = ToolFormat(
    name="gigachat3",
    models="GigaChat 3",
    start="<|message_sep|>\n\nfunction call<|role_sep|>\n",
    head=ARGUMENTS,
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

GRANITE_20B = ToolFormat(
    name="granite_20b",
    models="Granite 20B function calling",
    start="<function_call>",
    head=" " + ARGUMENTS,
    foot=("}",),
    avoid=("<function_call>",),  # Its parser splits a text at the marker first.
    signs=(Sign(texts=("<function_call> ",)),),
)
"""<function_call> {"name": "get_weather", "arguments": {"city": "Oslo"}}"""

MINIMAX_M1 = ToolFormat(
    name="minimax_m1",
    models="MiniMax M1",
    **section(start="<tool_calls>", opening="\n", end="</tool_calls>"),
    head=ARGUMENTS,
    foot=("}\n",),
    signs=(Sign(texts=("<tool_calls>", "<end_of_sentence>")),),
)
"""<tool_calls>
{"name": "get_weather", "arguments": {"city": "Oslo"}}
</tool_calls>"""

_PLAMO_NAME = "<|plamo:begin_tool_name:plamo|>{name}<|plamo:end_tool_name:plamo|>"

_PLAMO_JSON = "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>"

_PLAMO_END = "<|plamo:end_tool_arguments:plamo|>"

_PLAMO_SECTION = ("<|plamo:begin_tool_requests:plamo|>", "<|plamo:end_tool_requests:plamo|>")

PLAMO3 = ToolFormat(
    name="plamo3",
    models="PLaMo 3",
    **section(start=_PLAMO_SECTION[0], end=_PLAMO_SECTION[1]),
    head=f"<|plamo:begin_tool_request:plamo|>{_PLAMO_NAME}{_PLAMO_JSON}",
    foot=(f"{_PLAMO_END}<|plamo:end_tool_request:plamo|>",),
    avoid=(_PLAMO_END,),
    reasoning=Delimiters("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
    signs=(Sign(texts=("begin_tool_requests", "plamo")),),
)
"""<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|>\
<|plamo:begin_tool_name:plamo|>get_weather<|plamo:end_tool_name:plamo|>\
<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>{"city": "Oslo"}\
<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>\
<|plamo:end_tool_requests:plamo|>"""

K2_HORIZON_JSON = ToolFormat(
    name="k2_horizon_json",
    models="K2 Horizon that is asked for JSON: on request",
    **section(start="<ifm|tool_calls>", opening="\n", end="</ifm|tool_calls>"),
    head="<ifm|tool_call>" + ARGUMENTS,
    foot=("}</ifm|tool_call>\n",),
    avoid=("</ifm|tool_call>",),
    reasoning=Delimiters("<ifm|think>", "</ifm|think>"),
)
"""<ifm|tool_calls>
<ifm|tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</ifm|tool_call>
</ifm|tool_calls>"""

JSON_FAMILIES = (
    *(ERNIE, HERMES, LONGCAT_JSON, KIMI_K2, GIGACHAT3_1, GIGACHAT3, INTERNLM, DEEPSEEK_R1),
    *(DEEPSEEK_V3_1, GPT_OSS, GRANITE_20B, MINIMAX_M1, PLAMO3, K2_HORIZON_JSON, MISTRAL_ARGS),
)
"""A tokenizer that has signs of several rows is one of the first of them."""
