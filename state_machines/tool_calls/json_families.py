"""Families that write arguments as a JSON object.

A row gives the name, the models, and the texts in the order in which calls have them; other fields
are those of :class:`~state_machines.tool_calls.tool_format.ToolFormat`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

from state_machines.argument_notations.raw_text import RAW_INPUT
from state_machines.tool_calls.call import CallIds
from state_machines.tool_calls.tool_format import Delimiters, ToolFormat

Texts: TypeAlias = str | tuple[str, ...]
"""A text, or alternative texts."""

_ARGUMENTS = '{"name": "{name}", "arguments": '
_PARAMETERS = '{"name": "{name}", "parameters": '
_NUMBERS = "0|[1-9][0-9]{0,3}"


def each(
    name: str, models: str, start: str, head: str, foot: str, end: str = "", **fields: Any
) -> ToolFormat:
    """Return a format with delimiters around each call."""
    return ToolFormat(
        name=name, models=models, start=start, head=head, foot=(foot,), end=end, **fields
    )


def around(
    name: str,
    models: str,
    start: str,
    opening: Texts,
    head: str,
    foot: Texts,
    between: Texts,
    closing: str,
    end: str,
    **fields: Any,
) -> ToolFormat:
    """Return a format with delimiters around all calls."""
    texts = {"opening": opening, "foot": foot, "between": between}
    for field, text in texts.items():
        fields[field] = (text,) if isinstance(text, str) else text
    return ToolFormat(
        name=name,
        models=models,
        start=start,
        head=head,
        closing=closing,
        end=end,
        wraps="all",
        **fields,
    )


def _list(
    name: str,
    models: str,
    start: str,
    end: str = "",
    opening: Texts = "[",
    foot: Texts = "}",
    **fields: Any,
) -> ToolFormat:
    """Return a format whose calls are a JSON list."""
    return around(name, models, start, opening, _ARGUMENTS, foot, ", ", "]", end, **fields)


_HERMES = ("\n" + _ARGUMENTS, "}\n")

HERMES = each(
    "hermes",
    "Hermes 2 and 3, Qwen2.5, Qwen3, and others with <tool_call>",
    *("<tool_call>", *_HERMES, "</tool_call>"),
    between=("\n", ""),
    parser="json_tools",
)

LONGCAT_JSON = each(
    "longcat_json",
    "LongCat Flash Chat",
    *("<longcat_tool_call>", *_HERMES, "</longcat_tool_call>"),
    between=("\n", ""),
    parser="longcat",
)

# The chat templates refuse a turn with two calls.
LLAMA3 = each(
    "llama3",
    "Llama 3.1, 3.2 and 3.3",
    *('{"name": "', '{name}", "parameters": ', "}"),
    is_delimited=False,
    parallel=False,
)

LLAMA3_PYTHON_TAG = each(
    "llama3_python_tag",
    "Llama 3.1, 3.2 and 3.3 if <|python_tag|> should begin a call",
    *("<|python_tag|>", _PARAMETERS, "}"),
    parallel=False,
    tokens=("<|python_tag|>",),
)

MISTRAL = _list(
    "mistral",
    "Mistral up to its seventh tokenizer: 7B v0.3, Nemo, Small 3, Mixtral 8x22B",
    "[TOOL_CALLS]",
    opening=("[", " ["),
    foot=("}", ', "id": "{id}"}'),
    tokens=("[TOOL_CALLS]",),
    ids=CallIds(pattern="[A-Za-z0-9]{9}", length=9),
    parser="mistral",
)

MISTRAL_ARGS = each(
    "mistral_args",
    "Mistral since its eleventh tokenizer: Small 3.2, Magistral, Ministral 3, Devstral",
    *("[TOOL_CALLS]", "{name}[ARGS]", ""),
    names=r"[A-Za-z0-9_-]+",
    tokens=("[TOOL_CALLS]", "[ARGS]"),
    ids=CallIds(length=9),
    reasoning=Delimiters("[THINK]", "[/THINK]"),
    parser="mistral",
)

_KIMI_SECTION = ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>")
_KIMI_CALL = ("<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>")

KIMI_K2 = around(
    "kimi_k2",
    "Kimi K2",
    *(_KIMI_SECTION[0], ""),
    f"{_KIMI_CALL[0]}functions.{{name}}:{{id}}{_KIMI_CALL[1]}",
    *(_KIMI_CALL[2], "", "", _KIMI_SECTION[1]),
    # The parser searches for the end of a call before it reads the JSON.
    avoid=(_KIMI_CALL[2],),
    names=r"[A-Za-z0-9_.-]+",
    tokens=(*_KIMI_SECTION, *_KIMI_CALL),
    # Calls are numbered throughout a conversation.
    ids=CallIds(pattern=_NUMBERS, template="functions.{name}:{id}"),
    parser="kimi_k2",
)

_DEEPSEEK_SECTION = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
_DEEPSEEK_CALL = ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>")
_DEEPSEEK: dict[str, Any] = {
    "avoid": (_DEEPSEEK_CALL[1],),
    "tokens": (*_DEEPSEEK_SECTION, *_DEEPSEEK_CALL),
}

DEEPSEEK_R1 = around(
    "deepseek_r1",
    "DeepSeek R1 and V3",
    *(_DEEPSEEK_SECTION[0], ""),
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n",
    "\n```<｜tool▁call▁end｜>",
    ("\n", ""),
    *("", _DEEPSEEK_SECTION[1]),
    result=Delimiters(
        "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>",
        "<｜tool▁output▁end｜><｜tool▁outputs▁end｜>",
    ),
    **_DEEPSEEK,
)

DEEPSEEK_V3_1 = around(
    "deepseek_v3_1",
    "DeepSeek V3.1",
    *(_DEEPSEEK_SECTION[0], "", "<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>"),
    *(_DEEPSEEK_CALL[1], "", "", _DEEPSEEK_SECTION[1]),
    **_DEEPSEEK,
)

# The recipient stands in the header of the role, after <|start|>assistant. The end of a call is an
# end token of these models, so an answer has one call.
_GPT_OSS_HEADER = each(
    "gpt_oss_header",
    "gpt-oss (harmony channels)",
    " to=functions.",
    *("{name}<|channel|>commentary json<|message|>", "", "<|call|>"),
    is_delimited=False,
    parallel=False,
    tokens=(
        *("<|start|>", "<|channel|>", "<|constrain|>"),
        *("<|message|>", "<|end|>", "<|call|>"),
    ),
)

GPT_OSS = replace(
    _GPT_OSS_HEADER,
    name="gpt_oss",
    start="<|channel|>commentary to=functions.",
    head="{name} <|constrain|>json<|message|>",
    custom=replace(
        _GPT_OSS_HEADER,
        name="gpt_oss_custom",
        start="<|channel|>commentary to=functions.",
        # The content type of the model's own tool with raw input, python.
        head="{name} code<|message|>",
        notation=RAW_INPUT,
    ),
    also=(
        _GPT_OSS_HEADER,
        replace(_GPT_OSS_HEADER, head="{name}<|channel|>commentary <|constrain|>json<|message|>"),
    ),
    reasoning=Delimiters("<|channel|>analysis<|message|>", "<|end|>"),
    answer=Delimiters("<|channel|>final<|message|>", "<|return|>"),
    preamble=Delimiters("<|channel|>commentary<|message|>", "<|end|>"),
    joint="<|start|>assistant",
)

_GRANITE = _list("granite", "Granite 3", "<|tool_call|>", opening=("[", " ["))

# Granite 3.1 also writes the marker in ordinary tokens.
GRANITE = replace(
    _GRANITE, tokens=("<|tool_call|>",), also=(replace(_GRANITE, start="<tool_call>"),)
)

_COHERE_ACTION = ("<|START_ACTION|>", "<|END_ACTION|>")
_COHERE_RESPONSE = ("<|START_RESPONSE|>", "<|END_RESPONSE|>")
_COHERE_TEXT = ("<|START_TEXT|>", "<|END_TEXT|>")

COHERE = around(
    "cohere",
    "Command R7B, Command A",
    *(_COHERE_ACTION[0], "[\n    "),
    '{"tool_call_id": "{id}", "tool_name": "{name}", "parameters": ',
    *("}", ",\n    ", "\n]", _COHERE_ACTION[1]),
    tokens=(*_COHERE_ACTION, *_COHERE_RESPONSE),
    # Calls are numbered in each answer, or throughout a conversation.
    ids=CallIds(pattern=_NUMBERS, template=""),
    reasoning=Delimiters("<|START_THINKING|>", "<|END_THINKING|>"),
    answer=Delimiters(*_COHERE_RESPONSE),
)

COHERE_TEXT = replace(
    COHERE,
    name="cohere_text",
    models="Command A+ and others with <|START_TEXT|>",
    tokens=(*_COHERE_ACTION, *_COHERE_TEXT),
    answer=Delimiters(*_COHERE_TEXT),
)

JSON_FENCE = _list(
    "json_fence",
    "any model, on request",
    *("```tool\n", "\n```"),
    result=Delimiters("```tool_output\n", "\n```"),
)

ERNIE = replace(HERMES, name="ernie", models="ERNIE 4.5 and X1.1, if they reason")

INTERNLM = each(
    "internlm",
    "InternLM 2, 2.5 and 3, Intern-S1",
    *("<|action_start|><|plugin|>", "\n" + _PARAMETERS, "}", "<|action_end|>"),
    between=("", "\n"),
    # The parsers split a text at the tokens before they read the JSON.
    avoid=("<|action_start|>",),
    tokens=("<|action_start|>", "<|plugin|>", "<|action_end|>"),
)

APERTUS = around(
    "apertus",
    "Apertus",
    *("<|tools_prefix|>", "[", '{"{name}": ', "}", ", ", "]", "<|tools_suffix|>"),
    tokens=("<|tools_prefix|>", "<|tools_suffix|>"),
    result=Delimiters("[", "]"),
)

PHI4_MINI = around("phi4_mini", "Phi-4-mini", "functools[", "", _ARGUMENTS, "}", ", ", "", "]")

XLAM = around(
    "xlam",
    "xLAM 2",
    *('[{"name": "', "", '{name}", "arguments": ', "}", ', {"name": "', "", "]"),
    is_delimited=False,
)

# The calling role is the next one after the assistant's text. The chat templates write the first
# call of a turn alone.
GIGACHAT3 = each(
    "gigachat3",
    "GigaChat 3",
    *("<|message_sep|>\n\nfunction call<|role_sep|>\n", _ARGUMENTS, "}"),
    parallel=False,
)

GIGACHAT3_1 = replace(
    GIGACHAT3,
    name="gigachat3_1",
    models="GigaChat 3.1",
    start="<|function_call|>",
    tokens=("<|function_call|>",),
)

HUNYUAN = _list(
    "hunyuan",
    "Hunyuan A13B and 7B",
    *("<tool_calls>", "</tool_calls>"),
    result=Delimiters("<tool_response>", "</tool_response>"),
)

JSON_FAMILIES = (
    *(HERMES, LLAMA3, LLAMA3_PYTHON_TAG, MISTRAL, MISTRAL_ARGS, KIMI_K2, LONGCAT_JSON),
    *(DEEPSEEK_R1, DEEPSEEK_V3_1, GPT_OSS, GRANITE, COHERE, COHERE_TEXT, JSON_FENCE),
    *(ERNIE, INTERNLM, APERTUS, PHI4_MINI, XLAM, GIGACHAT3, GIGACHAT3_1, HUNYUAN),
)
