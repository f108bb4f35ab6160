"""Families that write each argument as a tag."""

from __future__ import annotations

from state_machines.tool_calls.call_ids import CallIds
from state_machines.tool_calls.json_families import LONGCAT_JSON
from state_machines.tool_calls.notations import (
    ATEM,
    DSML,
    GLM,
    GLM_COMPACT,
    JSON,
    LONGCAT,
    MINICPM,
    MINIMAX,
    QWEN_CODER,
)
from state_machines.tool_calls.tool_format import Delimiters, ToolFormat

QWEN3_CODER = ToolFormat(
    name="qwen3_coder",
    models="Qwen3-Coder, Qwen3.5",
    start="<tool_call>",
    head="\n<function={name}>\n",
    notation=QWEN_CODER,
    foot=("</function>\n",),
    end="</tool_call>",
    wraps="each",
    between=("\n", ""),
    parser="qwen3_coder",
)

GLM4_5 = ToolFormat(
    name="glm4_5",
    models="GLM 4.5 and 4.6",
    start="<tool_call>",
    head="{name}\n",
    notation=GLM,
    end="</tool_call>",
    wraps="each",
    between=("\n", ""),
    parser="glm47",
)

GLM4_7 = ToolFormat(
    name="glm4_7",
    models="GLM 4.7 and 5, Laguna",
    start="<tool_call>",
    head="{name}",
    notation=GLM_COMPACT,
    end="</tool_call>",
    wraps="each",
    between=("", "\n"),
    parser="glm47",
)

LONGCAT_TAGS = ToolFormat(
    name="longcat",
    models="LongCat Flash Thinking",
    start="<longcat_tool_call>",
    head="{name}\n",
    notation=LONGCAT,
    end="</longcat_tool_call>",
    wraps="each",
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
    notation=MINIMAX,
    foot=("</invoke>\n",),
    end="</minimax:tool_call>",
    wraps="all",
    parser="minimax_m2",
)

DEEPSEEK_V3_2 = ToolFormat(
    name="deepseek_v3_2",
    models="DeepSeek V3.2",
    start="<｜DSML｜function_calls>",
    opening=("\n",),
    head='<｜DSML｜invoke name="{name}">\n',
    notation=DSML,
    foot=("\n</｜DSML｜invoke>",),
    wraps="all",
    between=("\n",),
    closing="\n",
    end="</｜DSML｜function_calls>",
    tokens=("｜DSML｜",),
)

MINICPM5 = ToolFormat(
    name="minicpm5",
    models="MiniCPM5",
    start='<function name="',
    head='{name}">',
    notation=MINICPM,
    end="</function>",
    is_delimited=False,
    wraps="each",
    between=("\n", ""),
    parser="minicpm5",
)

MUSE_SPARK = ToolFormat(
    name="muse_spark",
    models="Muse Spark",
    start="<atem:function_calls>",
    opening=("\n",),
    head='<atem:invoke name="{name}">\n',
    notation=ATEM,
    foot=("</atem:invoke>\n",),
    end="</atem:function_calls>",
    wraps="all",
    parser="muse_spark",
)

KIMI_K3 = ToolFormat(
    name="kimi_k3",
    models="Kimi K3",
    start="<|open|>tools<|sep|>",
    # One JSON block for each call. The models also know a tag for each argument.
    head='<|open|>call tool="{name}" index="{id}"<|sep|><|open|>json type="object"<|sep|>',
    notation=JSON,
    foot=("<|close|>json<|sep|><|close|>call<|sep|>",),
    end="<|close|>tools<|sep|>",
    wraps="all",
    avoid=("<|open|>", "<|close|>", "<|sep|>"),
    tokens=("<|open|>", "<|close|>", "<|sep|>"),
    ids=CallIds(pattern="[1-9][0-9]{0,3}", template=""),
    reasoning=Delimiters("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    answer=Delimiters("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
    preamble=Delimiters("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
    finish="<|close|>message<|sep|>",
    parser="kimi_k3",
)

TAGGED_FAMILIES = (
    *(QWEN3_CODER, GLM4_5, GLM4_7, LONGCAT_TAGS, MINIMAX_M2, DEEPSEEK_V3_2, MINICPM5),
    *(MUSE_SPARK, KIMI_K3),
)
