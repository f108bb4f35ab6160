"""Families that write arguments as a JSON object."""

from __future__ import annotations

from dataclasses import replace

from state_machines.argument_notations.raw_text import RAW_INPUT
from state_machines.tool_calls.call import CallIds
from state_machines.tool_calls.tool_format import Delimiters, ToolFormat

HERMES = ToolFormat(
    name="hermes",
    models="Hermes 2 and 3, Qwen2.5, Qwen3, and others with <tool_call>",
    start="<tool_call>",
    head='\n{"name": "{name}", "arguments": ',
    foot=("}\n",),
    end="</tool_call>",
    between=("\n", ""),
    parser="json_tools",
)

LLAMA3 = ToolFormat(
    name="llama3",
    models="Llama 3.1, 3.2 and 3.3",
    start='{"name": "',
    head='{name}", "parameters": ',
    foot=("}",),
    is_delimited=False,
    # The chat templates refuse a turn with two calls.
    parallel=False,
)

LLAMA3_PYTHON_TAG = ToolFormat(
    name="llama3_python_tag",
    models="Llama 3.1, 3.2 and 3.3 if <|python_tag|> should begin a call",
    start="<|python_tag|>",
    head='{"name": "{name}", "parameters": ',
    foot=("}",),
    parallel=False,
    tokens=("<|python_tag|>",),
)


def json_list(name: str, models: str, start: str, end: str = "") -> ToolFormat:
    """Return a format whose calls are a JSON list."""
    return ToolFormat(
        name=name,
        models=models,
        start=start,
        opening=("[",),
        head='{"name": "{name}", "arguments": ',
        foot=("}",),
        wraps="all",
        between=(", ",),
        closing="]",
        end=end,
    )


MISTRAL = replace(
    json_list(
        "mistral",
        "Mistral up to its seventh tokenizer: 7B v0.3, Nemo, Small 3, Mixtral 8x22B",
        start="[TOOL_CALLS]",
    ),
    opening=("[", " ["),
    foot=("}", ', "id": "{id}"}'),
    tokens=("[TOOL_CALLS]",),
    ids=CallIds(pattern="[A-Za-z0-9]{9}", length=9),
    parser="mistral",
)

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
)

KIMI_K2 = ToolFormat(
    name="kimi_k2",
    models="Kimi K2",
    start="<|tool_calls_section_begin|>",
    head="<|tool_call_begin|>functions.{name}:{id}<|tool_call_argument_begin|>",
    foot=("<|tool_call_end|>",),
    wraps="all",
    end="<|tool_calls_section_end|>",
    # The parser searches for the end of a call before it reads the JSON.
    avoid=("<|tool_call_end|>",),
    names=r"[A-Za-z0-9_.-]+",
    tokens=(
        *("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        *("<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"),
    ),
    # Calls are numbered throughout a conversation.
    ids=CallIds(pattern="0|[1-9][0-9]{0,3}", template="functions.{name}:{id}"),
    parser="kimi_k2",
)

LONGCAT_JSON = replace(
    HERMES,
    name="longcat_json",
    models="LongCat Flash Chat",
    start="<longcat_tool_call>",
    end="</longcat_tool_call>",
    parser="longcat",
)

_DEEPSEEK_TOKENS = (
    *("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    *("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"),
)

DEEPSEEK_R1 = ToolFormat(
    name="deepseek_r1",
    models="DeepSeek R1 and V3",
    start="<｜tool▁calls▁begin｜>",
    head="<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n",
    foot=("\n```<｜tool▁call▁end｜>",),
    wraps="all",
    between=("\n", ""),
    end="<｜tool▁calls▁end｜>",
    avoid=("<｜tool▁call▁end｜>",),
    tokens=_DEEPSEEK_TOKENS,
    result=Delimiters(
        "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>",
        "<｜tool▁output▁end｜><｜tool▁outputs▁end｜>",
    ),
)

DEEPSEEK_V3_1 = ToolFormat(
    name="deepseek_v3_1",
    models="DeepSeek V3.1",
    start="<｜tool▁calls▁begin｜>",
    head="<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>",
    foot=("<｜tool▁call▁end｜>",),
    wraps="all",
    end="<｜tool▁calls▁end｜>",
    avoid=("<｜tool▁call▁end｜>",),
    tokens=_DEEPSEEK_TOKENS,
)

_HARMONY_TOKENS = (
    *("<|start|>", "<|channel|>", "<|constrain|>"),
    *("<|message|>", "<|end|>", "<|call|>"),
)

_GPT_OSS_HEADER = ToolFormat(
    name="gpt_oss_header",
    models="gpt-oss (harmony channels)",
    # The recipient stands in the header of the role, after <|start|>assistant.
    start=" to=functions.",
    head="{name}<|channel|>commentary json<|message|>",
    # An end token of these models, so an answer has one call.
    end="<|call|>",
    is_delimited=False,
    parallel=False,
    tokens=_HARMONY_TOKENS,
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

_GRANITE = replace(json_list("granite", "Granite 3", "<|tool_call|>"), opening=("[", " ["))

# Granite 3.1 also writes the marker in ordinary tokens.
GRANITE = replace(
    _GRANITE, tokens=("<|tool_call|>",), also=(replace(_GRANITE, start="<tool_call>"),)
)

COHERE = ToolFormat(
    name="cohere",
    models="Command R7B, Command A",
    start="<|START_ACTION|>",
    opening=("[\n    ",),
    head='{"tool_call_id": "{id}", "tool_name": "{name}", "parameters": ',
    foot=("}",),
    wraps="all",
    between=(",\n    ",),
    closing="\n]",
    end="<|END_ACTION|>",
    tokens=("<|START_ACTION|>", "<|END_ACTION|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    # Calls are numbered in each answer, or throughout a conversation.
    ids=CallIds(pattern="0|[1-9][0-9]{0,3}", template=""),
    reasoning=Delimiters("<|START_THINKING|>", "<|END_THINKING|>"),
    answer=Delimiters("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
)

COHERE_TEXT = replace(
    COHERE,
    name="cohere_text",
    models="Command A+ and others with <|START_TEXT|>",
    tokens=("<|START_ACTION|>", "<|END_ACTION|>", "<|START_TEXT|>", "<|END_TEXT|>"),
    answer=Delimiters("<|START_TEXT|>", "<|END_TEXT|>"),
)

JSON_FENCE = replace(
    json_list("json_fence", "any model, on request", start="```tool\n", end="\n```"),
    result=Delimiters("```tool_output\n", "\n```"),
)

ERNIE = replace(HERMES, name="ernie", models="ERNIE 4.5 and X1.1, if they reason")

INTERNLM = ToolFormat(
    name="internlm",
    models="InternLM 2, 2.5 and 3, Intern-S1",
    start="<|action_start|><|plugin|>",
    head='\n{"name": "{name}", "parameters": ',
    foot=("}",),
    end="<|action_end|>",
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
    foot=("}",),
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

JSON_FAMILIES = (
    *(HERMES, LLAMA3, LLAMA3_PYTHON_TAG, MISTRAL, MISTRAL_ARGS, KIMI_K2, LONGCAT_JSON),
    *(DEEPSEEK_R1, DEEPSEEK_V3_1, GPT_OSS, GRANITE, COHERE, COHERE_TEXT, JSON_FENCE),
    *(ERNIE, INTERNLM, APERTUS, PHI4_MINI, XLAM, GIGACHAT3, GIGACHAT3_1),
)
