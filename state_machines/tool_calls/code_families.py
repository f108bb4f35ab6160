"""Families that write calls as code: Python's calls, and Gemma's ``call:NAME{…}``."""

from __future__ import annotations

from dataclasses import replace

from state_machines.argument_notations.gemma import FUNCTION_GEMMA, GEMMA4
from state_machines.argument_notations.pythonic import OLMO, PYTHONIC, PYTHONIC_JSON
from state_machines.tool_calls.tool_format import Delimiters, ToolFormat

_PYTHON_NAME = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"

LFM2 = ToolFormat(
    name="lfm2",
    models="LFM2, LFM2.5",
    start="<|tool_call_start|>",
    opening=("[",),
    head="{name}(",
    notation=PYTHONIC_JSON,
    foot=(")",),
    wraps="all",
    between=(", ",),
    closing="]",
    end="<|tool_call_end|>",
    names=_PYTHON_NAME,
    python_names=True,
    tokens=("<|tool_call_start|>", "<|tool_call_end|>"),
    parser="pythonic",
)

LLAMA4 = replace(
    LFM2,
    name="llama4",
    models="Llama 4",
    start="<|python_start|>",
    notation=PYTHONIC,
    end="<|python_end|>",
    tokens=("<|python_start|>", "<|python_end|>"),
    parser=None,
)

OLMO3 = ToolFormat(
    name="olmo3",
    models="Olmo 3",
    start="<function_calls>",
    head="{name}(",
    notation=OLMO,
    foot=(")",),
    wraps="all",
    between=("\n",),
    end="</function_calls>",
    # The parser searches for the end of the calls and splits them into lines first.
    avoid=("</function_calls>", "\x85", "\u2028", "\u2029"),
    names=r"[A-Za-z][A-Za-z0-9_]*",
    python_names=True,
)

GEMMA3 = ToolFormat(
    name="gemma3",
    models="Gemma 3, 3n and others that are asked for ```tool_code",
    start="```tool_code",
    opening=("\n",),
    head="{name}(",
    notation=PYTHONIC,
    foot=(")",),
    wraps="all",
    between=("\n",),
    closing="\n",
    end="```",
    interleaved=True,
    result=Delimiters("```tool_output\n", "\n```"),
    described_as="python",
    names=_PYTHON_NAME,
    python_names=True,
)

GEMMA_4 = ToolFormat(
    name="gemma4",
    models="Gemma 4",
    start="<|tool_call>",
    head="call:{name}",
    notation=GEMMA4,
    end="<tool_call|>",
    names=r"[A-Za-z0-9_-]+",
    tokens=("<|tool_call>", "<tool_call|>", '<|"|>'),
    reasoning=Delimiters("<|channel>thought\n", "<channel|>"),
    parser="gemma4",
)

FUNCTIONGEMMA = ToolFormat(
    name="function_gemma",
    models="FunctionGemma",
    start="<start_function_call>",
    head="call:{name}",
    notation=FUNCTION_GEMMA,
    end="<end_function_call>",
    names=r"[A-Za-z0-9_]+",
    tokens=("<start_function_call>", "<end_function_call>", "<escape>"),
    parser="function_gemma",
)

CODE_FAMILIES = (LFM2, LLAMA4, OLMO3, GEMMA3, GEMMA_4, FUNCTIONGEMMA)
