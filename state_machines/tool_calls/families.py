"""The table of tool-call formats of model families, by name.

Here are the families that write each argument as a tag, or calls as code. Their rows are those of
:mod:`state_machines.tool_calls.json_families`, which has the families that write JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType
from typing import Any

from state_machines.argument_notations import (
    JsonNotation,
    Notation,
    TaggedNotation,
    tag_styles,
)
from state_machines.argument_notations.cofl import COFL
from state_machines.argument_notations.gemma import FUNCTION_GEMMA, GEMMA4
from state_machines.argument_notations.literals import OLMO, PYTHONIC, PYTHONIC_JSON, compact_json
from state_machines.argument_notations.nested import MINIMAX_M3_XML
from state_machines.errors import CompositionError
from state_machines.tool_calls.call import CallIds
from state_machines.tool_calls.json_families import (
    COHERE_TEXT,
    JSON_FAMILIES,
    LONGCAT_JSON,
    around,
    each,
)
from state_machines.tool_calls.tool_format import Delimiters, ToolFormat

QWEN3_CODER = each(
    "qwen3_coder",
    "Qwen3-Coder, Qwen3.5, Step 3.5",
    *("<tool_call>", "\n<function={name}>\n", "</function>\n", "</tool_call>"),
    notation=tag_styles.QWEN_CODER,
    between=("\n", ""),
    parser="qwen3_coder",
)

GLM4_5 = each(
    "glm4_5",
    "GLM 4.5 and 4.6",
    *("<tool_call>", "{name}\n", "", "</tool_call>"),
    notation=tag_styles.GLM,
    between=("\n", ""),
    parser="glm47",
)

GLM4_7 = replace(
    GLM4_5,
    name="glm4_7",
    models="GLM 4.7 and 5, Laguna",
    head="{name}",
    notation=tag_styles.GLM_COMPACT,
    between=("", "\n"),
)

LONGCAT_TAGS = each(
    "longcat",
    "LongCat Flash Thinking",
    *("<longcat_tool_call>", "{name}\n", "", "</longcat_tool_call>"),
    notation=tag_styles.LONGCAT,
    between=("\n", ""),
    without_arguments=LONGCAT_JSON,
    parser="longcat",
)

MINIMAX_M2 = around(
    "minimax_m2",
    "MiniMax M2",
    *("<minimax:tool_call>", "\n", '<invoke name="{name}">\n', "</invoke>\n"),
    *("", "", "</minimax:tool_call>"),
    notation=tag_styles.MINIMAX,
    parser="minimax_m2",
)

MINIMAX_M3 = around(
    "minimax_m3",
    "MiniMax M3",
    *("]<]minimax[>[<tool_call>", "\n", ']<]minimax[>[<invoke name="{name}">'),
    *("]<]minimax[>[</invoke>\n", "", "", "]<]minimax[>[</tool_call>"),
    notation=MINIMAX_M3_XML,
    tokens=("]<]minimax[>[",),
    reasoning=Delimiters("<mm:think>", "</mm:think>"),
    result=Delimiters("<response>", "</response>"),
)

MINICPM5 = each(
    "minicpm5",
    "MiniCPM5",
    *('<function name="', '{name}">', "", "</function>"),
    notation=tag_styles.MINICPM,
    is_delimited=False,
    between=("\n", ""),
    parser="minicpm5",
)

MUSE_SPARK = around(
    "muse_spark",
    "Muse Spark",
    *("<atem:function_calls>", "\n", '<atem:invoke name="{name}">\n', "</atem:invoke>\n"),
    *("", "", "</atem:function_calls>"),
    notation=tag_styles.ATEM,
    parser="muse_spark",
)

KIMI_K3 = around(
    "kimi_k3",
    "Kimi K3",
    *("<|open|>tools<|sep|>", ""),
    # Parsers of vLLM and SGLang read no arguments in the JSON block that the models also know.
    '<|open|>call tool="{name}" index="{id}"<|sep|>',
    *("<|close|>call<|sep|>", "", "", "<|close|>tools<|sep|>"),
    notation=tag_styles.XTML,
    tokens=("<|open|>", "<|close|>", "<|sep|>"),
    ids=CallIds(pattern="[1-9][0-9]{0,3}", template=""),
    reasoning=Delimiters("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    answer=Delimiters("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
    preamble=Delimiters("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
    finish="<|close|>message<|sep|>",
    parser="kimi_k3",
)


def _dsml(
    name: str,
    models: str,
    notation: Notation,
    section: str,
    mark: str = "｜DSML｜",
    space: str = "",
) -> ToolFormat:
    """Return a format whose tags begin with a mark."""
    return around(
        name,
        models,
        *(f"<{mark}{section}>", "\n", f'<{mark}{space}invoke name="{{name}}">\n'),
        *(f"\n</{mark}{space}invoke>", "\n", "\n", f"</{mark}{section}>"),
        notation=notation,
        tokens=(mark,),
    )


DEEPSEEK_V3_2 = _dsml("deepseek_v3_2", "DeepSeek V3.2", tag_styles.DSML, "function_calls")

DEEPSEEK_V4 = _dsml("deepseek_v4", "DeepSeek V4", tag_styles.DSML_V4, "tool_calls")

DEEPSEEK_V4_1 = _dsml("deepseek_v4_1", "DeepSeek V4.1", tag_styles.DSML_V4_1, " calls", space=" ")

GIGACHAT3_5 = replace(
    _dsml("gigachat3_5", "GigaChat 3.5", tag_styles.GCML, "tool_calls", mark="｜GCML｜"), tokens=()
)

_SEED_CUSTOM = each(
    "seed_oss_custom",
    "Seed-OSS",
    *("<seed:tool_call>", "\n<function={name}>\n", "</function>\n", "</seed:tool_call>"),
    notation=replace(tag_styles.SEED, wraps_lines=False),
    between=("\n", ""),
    tokens=("<seed:tool_call>", "</seed:tool_call>"),
)

SEED_OSS = replace(
    _SEED_CUSTOM,
    name="seed_oss",
    notation=tag_styles.SEED,
    # No parser of the family reads the input of a custom tool.
    custom=_SEED_CUSTOM,
    reasoning=Delimiters("<seed:think>", "</seed:think>"),
)

COHERE_COFL = replace(
    COHERE_TEXT,
    name="cohere_cofl",
    models="Command 5 and others with <cofl:tool_calls>",
    start="<cofl:tool_calls>",
    opening=("",),
    head='<cofl:tool_call id="{id}" name="{name}">',
    notation=COFL,
    foot=("</cofl:tool_call>",),
    between=("",),
    closing="",
    end="</cofl:tool_calls>",
    tokens=(COHERE_TEXT.answer.begin, COHERE_TEXT.answer.end),
)

STEP3 = around(
    "step3",
    "Step 3",
    *("<｜tool_calls_begin｜>", "\n"),
    '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">\n',
    *("</steptml:invoke><｜tool_call_end｜>", "\n", "\n", "<｜tool_calls_end｜>"),
    notation=tag_styles.STEPTML,
    tokens=(
        *("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"),
        *("<｜tool_call_begin｜>", "<｜tool_call_end｜>", "<｜tool_sep｜>"),
    ),
)


@cache
def hunyuan_tags(version: int, suffix: str) -> ToolFormat:
    """Return the format of Hunyuan 3 or 4.

    Args:
        version: 3 or 4.
        suffix: The text before ``>`` in the tokenizer's tags: empty, or such as ``:opensource``.
    """
    gap, separator = ("\n", f"<tool_sep{suffix}>") if version == 3 else ("", "")
    tags = ("tool_calls", "tool_call", "arg_key", "arg_value")
    return around(
        f"hunyuan{version}",
        f"Hunyuan {version} (Hy{version})",
        *(f"<tool_calls{suffix}>", gap, f"<tool_call{suffix}>{{name}}{separator}{gap}"),
        *(f"</tool_call{suffix}>", gap, gap, f"</tool_calls{suffix}>"),
        notation=tag_styles.hunyuan_pairs(version, suffix),
        tokens=(
            *(f"<{slash}{tag}{suffix}>" for tag in tags for slash in ("", "/")),
            *([separator] if separator else []),
        ),
        reasoning=Delimiters(f"<think{suffix}>", f"</think{suffix}>") if suffix else None,
    )


# Calls as code: Python's calls, and Gemma's ``call:NAME{…}``.

_PYTHON: dict[str, Any] = {
    "notation": PYTHONIC,
    "names": r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*",
    "python_names": True,
}

LFM2 = around(
    "lfm2",
    "LFM2, LFM2.5",
    *("<|tool_call_start|>", "[", "{name}(", ")", ", ", "]", "<|tool_call_end|>"),
    tokens=("<|tool_call_start|>", "<|tool_call_end|>"),
    parser="pythonic",
    **{**_PYTHON, "notation": PYTHONIC_JSON},
)

LLAMA4 = around(
    "llama4",
    "Llama 4",
    *("<|python_start|>", "[", "{name}(", ")", ", ", "]", "<|python_end|>"),
    tokens=("<|python_start|>", "<|python_end|>"),
    **_PYTHON,
)

OLMO3 = around(
    "olmo3",
    "Olmo 3",
    *("<function_calls>", "", "{name}(", ")", "\n", "", "</function_calls>"),
    # The parser searches for the end of the calls and splits them into lines first.
    avoid=("</function_calls>", "\x85", "\u2028", "\u2029"),
    **{**_PYTHON, "notation": OLMO, "names": r"[A-Za-z][A-Za-z0-9_]*"},
)

GEMMA3 = around(
    "gemma3",
    "Gemma 3, 3n and others that are asked for ```tool_code",
    *("```tool_code", "\n", "{name}(", ")", "\n", "\n", "```"),
    interleaved=True,
    result=Delimiters("```tool_output\n", "\n```"),
    described_as="python",
    **_PYTHON,
)

GEMMA_4 = each(
    "gemma4",
    "Gemma 4",
    *("<|tool_call>", "call:{name}", "", "<tool_call|>"),
    notation=GEMMA4,
    names=r"[A-Za-z0-9_-]+",
    tokens=("<|tool_call>", "<tool_call|>", '<|"|>'),
    reasoning=Delimiters("<|channel>thought\n", "<channel|>"),
    parser="gemma4",
)

FUNCTIONGEMMA = each(
    "function_gemma",
    "FunctionGemma",
    *("<start_function_call>", "call:{name}", "", "<end_function_call>"),
    notation=FUNCTION_GEMMA,
    names=r"[A-Za-z0-9_]+",
    tokens=("<start_function_call>", "<end_function_call>", "<escape>"),
    parser="function_gemma",
)

_OTHER_FAMILIES = (
    *(QWEN3_CODER, GLM4_5, GLM4_7, LONGCAT_TAGS, MINIMAX_M2, MINICPM5, MUSE_SPARK, KIMI_K3),
    *(DEEPSEEK_V3_2, DEEPSEEK_V4, DEEPSEEK_V4_1, SEED_OSS, STEP3, GIGACHAT3_5, MINIMAX_M3),
    *(COHERE_COFL, hunyuan_tags(3, ""), hunyuan_tags(4, "")),
    *(LFM2, LLAMA4, OLMO3, GEMMA3, GEMMA_4, FUNCTIONGEMMA),
)

FORMATS: Mapping[str, ToolFormat] = MappingProxyType(
    {entry.name: entry for entry in (*JSON_FAMILIES, *_OTHER_FAMILIES)}
)
"""All formats by name."""


def format_named(name: str) -> ToolFormat:
    """Return the format of a name; case is ignored, and ``-`` equals ``_``.

    Raises:
        CompositionError: There is no such format. The hint has similar names.

    >>> format_named("hermes").start
    '<tool_call>'
    """
    known = FORMATS.get(name.lower().replace("-", "_"))
    if known is None:
        near = get_close_matches(name.lower(), FORMATS, n=3, cutoff=0.5)
        raise CompositionError(
            f"there is no tool format {name!r}",
            part=name,
            hint=f"Perhaps {', '.join(near)}?" if near else f"Known are {', '.join(FORMATS)}",
        )
    return known


def in_compact_json(tool_format: ToolFormat) -> ToolFormat:
    """Return a format with compact JSON in the arguments and in the text around them.

    Without it, a format writes the text around arguments as its model family does, and arguments in
    the family's layout or compact.

    Args:
        tool_format: A format that writes arguments as JSON.

    Raises:
        CompositionError: The format has another notation of arguments.

    >>> in_compact_json(format_named("hermes")).head
    '\\n{"name":"{name}","arguments":'
    """
    f = tool_format
    if not isinstance(f.notation, JsonNotation):
        raise CompositionError(
            f"the format {f.name!r} does not write its arguments as JSON",
            part=f.name,
            hint="Only formats with JSON have a compact layout",
        )
    return replace(
        f,
        start=compact_json(f.start),
        opening=tuple(map(compact_json, f.opening)),
        head=compact_json(f.head),
        foot=tuple(map(compact_json, f.foot)),
        between=tuple(map(compact_json, f.between)),
        notation=replace(f.notation, whitespace="compact"),
    )


def with_trimmed_strings(tool_format: ToolFormat) -> ToolFormat:
    """Return a format for a parser that strips white space from strings, such as mlx-lm's.

    A format with raw strings between tags writes them as they are. Its strings then have no white
    space at their ends, so that a parser that strips them reads the same values.

    Args:
        tool_format: A format that writes arguments in tags.

    Raises:
        CompositionError: The format has another notation of arguments.

    >>> with_trimmed_strings(format_named("glm4_7")).notation.name
    'glm-compact-trimmed'
    """
    f = tool_format
    if not isinstance(f.notation, TaggedNotation):
        raise CompositionError(
            f"the format {f.name!r} does not write its arguments in tags",
            part=f.name,
            hint="Only formats with raw strings in tags have parsers that strip them",
        )
    return replace(f, notation=f.notation.trimmed)
