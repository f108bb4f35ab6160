"""Families that write each argument as a tag.

Below each row stands the call of ``get_weather`` with ``{"city": "Oslo"}`` that it writes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from state_machines.argument_notations import tag_styles
from state_machines.argument_notations.cofl import COFL
from state_machines.argument_notations.nested import MINIMAX_M3_XML
from state_machines.tool_calls.call import CallIds
from state_machines.tool_calls.json_list_families import COHERE_TEXT, section
from state_machines.tool_calls.tool_format import Delimiters, Sign, ToolFormat

QWEN3_CODER = ToolFormat(
    name="qwen3_coder",
    models="Qwen3-Coder, Qwen3.5, Step 3.5",
    start="<tool_call>",
    head="\n<function={name}>\n",
    foot=("</function>\n",),
    end="</tool_call>",
    notation=tag_styles.QWEN_CODER,
    between=("\n", ""),
    parser="qwen3_coder",
)
"""<tool_call>
<function=get_weather>
<parameter=city>
Oslo
</parameter>
</function>
</tool_call>"""

MINIMAX_M2 = ToolFormat(
    name="minimax_m2",
    models="MiniMax M2",
    **section(start="<minimax:tool_call>", opening="\n", end="</minimax:tool_call>"),
    head='<invoke name="{name}">\n',
    foot=("</invoke>\n",),
    notation=tag_styles.MINIMAX,
    parser="minimax_m2",
)
"""<minimax:tool_call>
<invoke name="get_weather">
<parameter name="city">Oslo</parameter>
</invoke>
</minimax:tool_call>"""

_M3 = "]<]minimax[>["

MINIMAX_M3 = ToolFormat(
    name="minimax_m3",
    models="MiniMax M3",
    **section(start=f"{_M3}<tool_call>", opening="\n", end=f"{_M3}</tool_call>"),
    head=f'{_M3}<invoke name="{{name}}">',
    foot=(f"{_M3}</invoke>\n",),
    notation=MINIMAX_M3_XML,
    tokens=(_M3,),
    reasoning=Delimiters("<mm:think>", "</mm:think>"),
    result=Delimiters("<response>", "</response>"),
    signs=(Sign(tokens=(_M3,), parser="json_tools"),),
)
"""]<]minimax[>[<tool_call>
]<]minimax[>[<invoke name="get_weather">]<]minimax[>[<city>Oslo]<]minimax[>[</city>\
]<]minimax[>[</invoke>
]<]minimax[>[</tool_call>"""

MINICPM5 = ToolFormat(
    name="minicpm5",
    models="MiniCPM5",
    start='<function name="',
    head='{name}">',
    end="</function>",
    notation=tag_styles.MINICPM,
    is_delimited=False,
    between=("\n", ""),
    parser="minicpm5",
)
"""<function name="get_weather"><param name="city">Oslo</param></function>"""

MUSE_SPARK = ToolFormat(
    name="muse_spark",
    models="Muse Spark",
    **section(start="<atem:function_calls>", opening="\n", end="</atem:function_calls>"),
    head='<atem:invoke name="{name}">\n',
    foot=("</atem:invoke>\n",),
    notation=tag_styles.ATEM,
    parser="muse_spark",
)
"""<atem:function_calls>
<atem:invoke name="get_weather">
<atem:parameter name="city">Oslo</atem:parameter>
</atem:invoke>
</atem:function_calls>"""

_KIMI_K3_RESPONSE = Delimiters("<|open|>response<|sep|>", "<|close|>response<|sep|>")

_KIMI_K3_BLOCKS: dict[str, Any] = {
    "reasoning": Delimiters("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    "answer": _KIMI_K3_RESPONSE,
    "preamble": _KIMI_K3_RESPONSE,
    "finish": "<|close|>message<|sep|>",
}

# Parsers of vLLM and SGLang read no arguments in the JSON block that the models also know.
KIMI_K3 = ToolFormat(
    name="kimi_k3",
    models="Kimi K3",
    **section(start="<|open|>tools<|sep|>", end="<|close|>tools<|sep|>"),
    head='<|open|>call tool="{name}" index="{id}"<|sep|>',
    foot=("<|close|>call<|sep|>",),
    notation=tag_styles.XTML,
    tokens=("<|open|>", "<|close|>", "<|sep|>"),
    ids=CallIds(pattern="[1-9][0-9]{0,3}", template=""),
    **_KIMI_K3_BLOCKS,
    parser="kimi_k3",
)
"""<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|>\
<|open|>argument key="city" type="string"<|sep|>Oslo<|close|>argument<|sep|>\
<|close|>call<|sep|><|close|>tools<|sep|>"""


def _dsml(section_name: str, mark: str = "｜DSML｜", space: str = "") -> dict[str, Any]:
    """Return the texts of a format whose tags begin with a mark."""
    return {
        **section(
            start=f"<{mark}{section_name}>",
            opening="\n",
            closing="\n",
            end=f"</{mark}{section_name}>",
        ),
        "head": f'<{mark}{space}invoke name="{{name}}">\n',
        "foot": (f"\n</{mark}{space}invoke>",),
        "between": ("\n",),
    }


DEEPSEEK_V3_2 = ToolFormat(
    name="deepseek_v3_2",
    models="DeepSeek V3.2",
    **_dsml("function_calls"),
    notation=tag_styles.DSML,
    tokens=("｜DSML｜",),
    signs=(Sign(tokens=("｜DSML｜",)),),
)
"""<｜DSML｜function_calls>
<｜DSML｜invoke name="get_weather">
<｜DSML｜parameter name="city" string="true">Oslo</｜DSML｜parameter>
</｜DSML｜invoke>
</｜DSML｜function_calls>"""

DEEPSEEK_V4 = ToolFormat(
    name="deepseek_v4",
    models="DeepSeek V4",
    **_dsml("tool_calls"),
    notation=tag_styles.DSML_V4,
    tokens=("｜DSML｜",),
    signs=(Sign(tokens=("｜DSML｜",), texts=("tool_calls>",)),),
)
"""<｜DSML｜tool_calls>
<｜DSML｜invoke name="get_weather">
<｜DSML｜parameter name="city" string="true">Oslo</｜DSML｜parameter>
</｜DSML｜invoke>
</｜DSML｜tool_calls>"""

DEEPSEEK_V4_1 = ToolFormat(
    name="deepseek_v4_1",
    models="DeepSeek V4.1",
    **_dsml(" calls", space=" "),
    notation=tag_styles.DSML_V4_1,
    tokens=("｜DSML｜",),
    signs=(Sign(tokens=("｜DSML｜",), texts=(" calls>",)),),
)
"""<｜DSML｜ calls>
<｜DSML｜ invoke name="get_weather">
<｜DSML｜ parameter name="city" string="true">Oslo</｜DSML｜ parameter>
</｜DSML｜ invoke>
</｜DSML｜ calls>"""

GIGACHAT3_5 = ToolFormat(
    name="gigachat3_5",
    models="GigaChat 3.5",
    **_dsml("tool_calls", mark="｜GCML｜"),
    notation=tag_styles.GCML,
    signs=(Sign(tokens=("｜GCML｜",)), Sign(texts=("<｜GCML｜",))),
)
"""<｜GCML｜tool_calls>
<｜GCML｜invoke name="get_weather">
<｜GCML｜parameter name="city" string="true">Oslo</｜GCML｜parameter>
</｜GCML｜invoke>
</｜GCML｜tool_calls>"""

_SEED_CUSTOM = replace(
    QWEN3_CODER,
    name="seed_oss_custom",
    models="Seed-OSS",
    start="<seed:tool_call>",
    end="</seed:tool_call>",
    notation=replace(tag_styles.SEED, wraps_lines=False),
    tokens=("<seed:tool_call>", "</seed:tool_call>"),
    parser=None,
)

SEED_OSS = replace(
    _SEED_CUSTOM,
    name="seed_oss",
    notation=tag_styles.SEED,
    custom=_SEED_CUSTOM,  # No parser of the family reads the input of a custom tool.
    reasoning=Delimiters("<seed:think>", "</seed:think>"),
    signs=(Sign(tokens=("<seed:tool_call>",)),),
)
"""<seed:tool_call>
<function=get_weather>
<parameter=city>Oslo</parameter>
</function>
</seed:tool_call>"""

COHERE_COFL = replace(
    COHERE_TEXT,
    name="cohere_cofl",
    models="Command 5 and others with <cofl:tool_calls>",
    **section(start="<cofl:tool_calls>", end="</cofl:tool_calls>"),
    head='<cofl:tool_call id="{id}" name="{name}">',
    notation=COFL,
    foot=("</cofl:tool_call>",),
    between=("",),
    tokens=(COHERE_TEXT.answer.begin, COHERE_TEXT.answer.end),
    signs=(Sign(texts=("<cofl:tool_calls>",)),),
)
"""<cofl:tool_calls><cofl:tool_call id="0" name="get_weather">\
<cofl:value name="city" type="raw">Oslo</cofl:value></cofl:tool_call></cofl:tool_calls>"""

_STEP3_SECTION = ("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>")

_STEP3_CALL = ("<｜tool_call_begin｜>", "<｜tool_call_end｜>", "<｜tool_sep｜>")

STEP3 = ToolFormat(
    name="step3",
    models="Step 3",
    **section(start=_STEP3_SECTION[0], opening="\n", closing="\n", end=_STEP3_SECTION[1]),
    head='<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">\n',
    foot=("</steptml:invoke><｜tool_call_end｜>",),
    between=("\n",),
    notation=tag_styles.STEPTML,
    tokens=(*_STEP3_SECTION, *_STEP3_CALL),
    signs=(Sign(tokens=("<｜tool_sep｜>", "<｜tool_calls_begin｜>")),),
)
"""<｜tool_calls_begin｜>
<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="get_weather">
<steptml:parameter name="city">Oslo</steptml:parameter>
</steptml:invoke><｜tool_call_end｜>
<｜tool_calls_end｜>"""

DOTS = ToolFormat(
    name="dots",
    models="dots.llm with <dots_function_call>",
    **section(start="<dots_function_call>", opening="\n", end="</dots_function_call>"),
    head='<invoke name="{name}">\n',
    foot=("</invoke>\n",),
    notation=tag_styles.DOTS,
    signs=(Sign(texts=("<dots_function_call>",)),),
)
"""<dots_function_call>
<invoke name="get_weather">
<parameter name="city">Oslo</parameter>
</invoke>
</dots_function_call>"""

MIMO = replace(
    QWEN3_CODER,
    name="mimo",
    models="MiMo V2: on request",
    notation=tag_styles.MIMO,
    parser=None,
    signs=(),
)
"""<tool_call>
<function=get_weather>
<parameter=city>Oslo</parameter>
</function>
</tool_call>"""

TAG_FAMILIES = (
    *(MINIMAX_M3, MINIMAX_M2, MINICPM5, MUSE_SPARK, DOTS, MIMO, QWEN3_CODER, KIMI_K3),
    *(DEEPSEEK_V4_1, DEEPSEEK_V4, DEEPSEEK_V3_2, STEP3, SEED_OSS, GIGACHAT3_5, COHERE_COFL),
)
"""A tokenizer that has signs of several rows is one of the first of them."""
