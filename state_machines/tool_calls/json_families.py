"""Families that write arguments as a JSON object."""

from __future__ import annotations

from state_machines.tool_calls.call_ids import CallIds
from state_machines.tool_calls.notations import JSON
from state_machines.tool_calls.tool_format import Delimiters, ToolFormat

HERMES = ToolFormat(
    name="hermes",
    models="Hermes 2 and 3, Qwen2.5, Qwen3, and others with <tool_call>",
    start="<tool_call>",
    head='\n{"name": "{name}", "arguments": ',
    notation=JSON,
    foot=("}\n",),
    end="</tool_call>",
    wraps="each",
    between=("\n", ""),
    parser="json_tools",
)

LLAMA3 = ToolFormat(
    name="llama3",
    models="Llama 3.1, 3.2 and 3.3",
    start='{"name": "',
    head='{name}", "parameters": ',
    notation=JSON,
    foot=("}",),
    is_delimited=False,
    wraps="each",
    # The chat templates refuse a turn with two calls.
    parallel=False,
)

LLAMA3_PYTHON_TAG = ToolFormat(
    name="llama3_python_tag",
    models="Llama 3.1, 3.2 and 3.3 if <|python_tag|> should begin a call",
    start="<|python_tag|>",
    head='{"name": "{name}", "parameters": ',
    notation=JSON,
    foot=("}",),
    wraps="each",
    parallel=False,
    tokens=("<|python_tag|>",),
)

MISTRAL = ToolFormat(
    name="mistral",
    models="Mistral up to its seventh tokenizer: 7B v0.3, Nemo, Small 3, Mixtral 8x22B",
    start="[TOOL_CALLS]",
    opening=("[", " ["),
    head='{"name": "{name}", "arguments": ',
    notation=JSON,
    foot=("}", ', "id": "{id}"}'),
    wraps="all",
    between=(", ",),
    closing="]",
    tokens=("[TOOL_CALLS]",),
    ids=CallIds(pattern="[A-Za-z0-9]{9}", length=9),
    parser="mistral",
)

MISTRAL_ARGS = ToolFormat(
    name="mistral_args",
    models="Mistral since its eleventh tokenizer: Small 3.2, Magistral, Ministral 3, Devstral",
    start="[TOOL_CALLS]",
    head="{name}[ARGS]",
    notation=JSON,
    wraps="each",
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
    notation=JSON,
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

LONGCAT_JSON = ToolFormat(
    name="longcat_json",
    models="LongCat Flash Chat",
    start="<longcat_tool_call>",
    head='\n{"name": "{name}", "arguments": ',
    notation=JSON,
    foot=("}\n",),
    end="</longcat_tool_call>",
    wraps="each",
    between=("\n", ""),
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
    notation=JSON,
    foot=("\n```<｜tool▁call▁end｜>",),
    wraps="all",
    between=("\n", ""),
    end="<｜tool▁calls▁end｜>",
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
    notation=JSON,
    foot=("<｜tool▁call▁end｜>",),
    wraps="all",
    end="<｜tool▁calls▁end｜>",
    tokens=_DEEPSEEK_TOKENS,
)

GPT_OSS = ToolFormat(
    name="gpt_oss",
    models="gpt-oss (harmony channels)",
    start="<|channel|>commentary to=functions.",
    head="{name} <|constrain|>json<|message|>",
    notation=JSON,
    # An end token of these models, so an answer has one call.
    end="<|call|>",
    is_delimited=False,
    wraps="each",
    parallel=False,
    tokens=("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>"),
    reasoning=Delimiters("<|channel|>analysis<|message|>", "<|end|>"),
    answer=Delimiters("<|channel|>final<|message|>", "<|return|>"),
    preamble=Delimiters("<|channel|>commentary<|message|>", "<|end|>"),
    joint="<|start|>assistant",
)

JSON_FENCE = ToolFormat(
    name="json_fence",
    models="any model, on request",
    start="```tool\n",
    opening=("[",),
    head='{"name": "{name}", "arguments": ',
    notation=JSON,
    foot=("}",),
    wraps="all",
    between=(", ",),
    closing="]",
    end="\n```",
    result=Delimiters("```tool_output\n", "\n```"),
)

JSON_FAMILIES = (
    *(HERMES, LLAMA3, LLAMA3_PYTHON_TAG, MISTRAL, MISTRAL_ARGS, KIMI_K2, LONGCAT_JSON),
    *(DEEPSEEK_R1, DEEPSEEK_V3_1, GPT_OSS, JSON_FENCE),
)
