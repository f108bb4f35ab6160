"""Families that write each argument as a tag."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from state_machines.argument_notations import Notation, tag_styles
from state_machines.argument_notations.cofl import COFL
from state_machines.argument_notations.nested import MINIMAX_M3_XML
from state_machines.tool_calls.call import CallIds
from state_machines.tool_calls.json_families import COHERE_TEXT, LONGCAT_JSON, json_list
from state_machines.tool_calls.tool_format import Delimiters, ToolFormat

QWEN3_CODER = ToolFormat(
    name="qwen3_coder",
    models="Qwen3-Coder, Qwen3.5, Step 3.5",
    start="<tool_call>",
    head="\n<function={name}>\n",
    notation=tag_styles.QWEN_CODER,
    foot=("</function>\n",),
    end="</tool_call>",
    between=("\n", ""),
    parser="qwen3_coder",
)

GLM4_5 = ToolFormat(
    name="glm4_5",
    models="GLM 4.5 and 4.6",
    start="<tool_call>",
    head="{name}\n",
    notation=tag_styles.GLM,
    end="</tool_call>",
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

LONGCAT_TAGS = ToolFormat(
    name="longcat",
    models="LongCat Flash Thinking",
    start="<longcat_tool_call>",
    head="{name}\n",
    notation=tag_styles.LONGCAT,
    end="</longcat_tool_call>",
    between=("\n", ""),
    without_arguments=LONGCAT_JSON,
    parser="longcat",
)

MINIMAX_M2 = ToolFormat(
    name="minimax_m2",
    models="MiniMax M2",
    start="<minimax:tool_call>",
    opening=("\n",),
    head='<invoke name="{name}">\n',
    notation=tag_styles.MINIMAX,
    foot=("</invoke>\n",),
    end="</minimax:tool_call>",
    wraps="all",
    parser="minimax_m2",
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
    return ToolFormat(
        name=name,
        models=models,
        start=f"<{mark}{section}>",
        opening=("\n",),
        head=f'<{mark}{space}invoke name="{{name}}">\n',
        notation=notation,
        foot=(f"\n</{mark}{space}invoke>",),
        wraps="all",
        between=("\n",),
        closing="\n",
        end=f"</{mark}{section}>",
        tokens=(mark,),
    )


DEEPSEEK_V3_2 = _dsml("deepseek_v3_2", "DeepSeek V3.2", tag_styles.DSML, "function_calls")

DEEPSEEK_V4 = _dsml("deepseek_v4", "DeepSeek V4", tag_styles.DSML_V4, "tool_calls")

DEEPSEEK_V4_1 = _dsml("deepseek_v4_1", "DeepSeek V4.1", tag_styles.DSML_V4_1, " calls", space=" ")

GIGACHAT3_5 = replace(
    _dsml("gigachat3_5", "GigaChat 3.5", tag_styles.GCML, "tool_calls", mark="｜GCML｜"), tokens=()
)

_SEED_CUSTOM = ToolFormat(
    name="seed_oss_custom",
    models="Seed-OSS",
    start="<seed:tool_call>",
    head="\n<function={name}>\n",
    notation=replace(tag_styles.SEED, wraps_lines=False),
    foot=("</function>\n",),
    end="</seed:tool_call>",
    between=("\n", ""),
    tokens=("<seed:tool_call>", "</seed:tool_call>"),
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
    tokens=("<|START_TEXT|>", "<|END_TEXT|>"),
)

SEED_OSS = replace(
    _SEED_CUSTOM,
    name="seed_oss",
    notation=tag_styles.SEED,
    # No parser of the family reads the input of a custom tool.
    custom=_SEED_CUSTOM,
    reasoning=Delimiters("<seed:think>", "</seed:think>"),
)

STEP3 = ToolFormat(
    name="step3",
    models="Step 3",
    start="<｜tool_calls_begin｜>",
    opening=("\n",),
    head=('<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">\n'),
    notation=tag_styles.STEPTML,
    foot=("</steptml:invoke><｜tool_call_end｜>",),
    wraps="all",
    between=("\n",),
    closing="\n",
    end="<｜tool_calls_end｜>",
    tokens=(
        *("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"),
        *("<｜tool_call_begin｜>", "<｜tool_call_end｜>", "<｜tool_sep｜>"),
    ),
)

MINIMAX_M3 = ToolFormat(
    name="minimax_m3",
    models="MiniMax M3",
    start="]<]minimax[>[<tool_call>",
    opening=("\n",),
    head=']<]minimax[>[<invoke name="{name}">',
    notation=MINIMAX_M3_XML,
    foot=("]<]minimax[>[</invoke>\n",),
    end="]<]minimax[>[</tool_call>",
    wraps="all",
    tokens=("]<]minimax[>[",),
    reasoning=Delimiters("<mm:think>", "</mm:think>"),
    result=Delimiters("<response>", "</response>"),
)

MINICPM5 = ToolFormat(
    name="minicpm5",
    models="MiniCPM5",
    start='<function name="',
    head='{name}">',
    notation=tag_styles.MINICPM,
    end="</function>",
    is_delimited=False,
    between=("\n", ""),
    parser="minicpm5",
)

MUSE_SPARK = ToolFormat(
    name="muse_spark",
    models="Muse Spark",
    start="<atem:function_calls>",
    opening=("\n",),
    head='<atem:invoke name="{name}">\n',
    notation=tag_styles.ATEM,
    foot=("</atem:invoke>\n",),
    end="</atem:function_calls>",
    wraps="all",
    parser="muse_spark",
)

KIMI_K3 = ToolFormat(
    name="kimi_k3",
    models="Kimi K3",
    start="<|open|>tools<|sep|>",
    # Parsers of vLLM and SGLang read no arguments in the JSON block that the models also know.
    head='<|open|>call tool="{name}" index="{id}"<|sep|>',
    notation=tag_styles.XTML,
    foot=("<|close|>call<|sep|>",),
    end="<|close|>tools<|sep|>",
    wraps="all",
    tokens=("<|open|>", "<|close|>", "<|sep|>"),
    ids=CallIds(pattern="[1-9][0-9]{0,3}", template=""),
    reasoning=Delimiters("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    answer=Delimiters("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
    preamble=Delimiters("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
    finish="<|close|>message<|sep|>",
    parser="kimi_k3",
)

TAGGED_FAMILIES = (
    *(QWEN3_CODER, GLM4_5, GLM4_7, LONGCAT_TAGS, MINIMAX_M2, MINICPM5, MUSE_SPARK, KIMI_K3),
    *(DEEPSEEK_V3_2, DEEPSEEK_V4, DEEPSEEK_V4_1, SEED_OSS, STEP3, GIGACHAT3_5, MINIMAX_M3),
    COHERE_COFL,
)

# Tencent's Hunyuan.

HUNYUAN = replace(
    json_list("hunyuan", "Hunyuan A13B and 7B", start="<tool_calls>", end="</tool_calls>"),
    result=Delimiters("<tool_response>", "</tool_response>"),
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
    return ToolFormat(
        name=f"hunyuan{version}",
        models=f"Hunyuan {version} (Hy{version})",
        start=f"<tool_calls{suffix}>",
        opening=(gap,),
        head=f"<tool_call{suffix}>{{name}}{separator}{gap}",
        notation=tag_styles.hunyuan_pairs(version, suffix),
        foot=(f"</tool_call{suffix}>",),
        wraps="all",
        between=(gap,),
        closing=gap,
        end=f"</tool_calls{suffix}>",
        names=r"[A-Za-z0-9_.:/-]+",
        tokens=(
            *(f"<{slash}{tag}{suffix}>" for tag in tags for slash in ("", "/")),
            *([separator] if separator else []),
        ),
        reasoning=Delimiters(f"<think{suffix}>", f"</think{suffix}>") if suffix else None,
    )


HUNYUAN_3 = hunyuan_tags(3, "")

HUNYUAN_4 = hunyuan_tags(4, "")

HUNYUAN_FAMILIES = (HUNYUAN, HUNYUAN_3, HUNYUAN_4)
