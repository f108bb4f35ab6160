"""Families that write an argument as two tags: the first has the name, the second the value.

Below each row stands the call of ``get_weather`` with ``{"city": "Oslo"}`` that it writes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from state_machines.argument_notations import tag_styles
from state_machines.tool_calls.json_families import LONGCAT_JSON
from state_machines.tool_calls.json_list_families import section
from state_machines.tool_calls.tool_format import Delimiters, Sign, ToolFormat

GLM4_5 = ToolFormat(
    name="glm4_5",
    models="GLM 4.5 and 4.6",
    start="<tool_call>",
    head="{name}\n",
    end="</tool_call>",
    notation=tag_styles.GLM,
    between=("\n", ""),
    parser="glm47",
)
"""<tool_call>get_weather
<arg_key>city</arg_key>
<arg_value>Oslo</arg_value>
</tool_call>"""

GLM4_7 = replace(
    GLM4_5,
    name="glm4_7",
    models="GLM 4.7 and 5, Laguna",
    head="{name}",
    notation=tag_styles.GLM_COMPACT,
    between=("", "\n"),
    signs=(Sign(texts=("</arg_key><arg_value>",)),),
)
"""<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>"""

LONGCAT_TAGS = replace(
    GLM4_5,
    name="longcat",
    models="LongCat Flash Thinking",
    start="<longcat_tool_call>",
    end="</longcat_tool_call>",
    notation=tag_styles.LONGCAT,
    without_arguments=LONGCAT_JSON,
    parser="longcat",
    signs=(Sign(texts=("<longcat_arg_key>",)),),
)
"""<longcat_tool_call>get_weather
<longcat_arg_key>city</longcat_arg_key>
<longcat_arg_value>Oslo</longcat_arg_value>
</longcat_tool_call>"""


@cache
def hunyuan_tags(version: int, suffix: str) -> ToolFormat:
    """Return the format of Hunyuan 3 or 4.

    Args:
        version: 3 or 4.
        suffix: The text before ``>`` in the tokenizer's tags: empty, or such as ``:opensource``.
    """
    gap, separator = ("\n", f"<tool_sep{suffix}>") if version == 3 else ("", "")
    tags = ("tool_calls", "tool_call", "arg_key", "arg_value")
    tokens = tuple(f"<{slash}{tag}{suffix}>" for tag in tags for slash in ("", "/"))
    end = f"</tool_calls{suffix}>"
    return ToolFormat(
        name=f"hunyuan{version}",
        models=f"Hunyuan {version} (Hy{version})",
        **section(start=f"<tool_calls{suffix}>", opening=gap, closing=gap, end=end),
        head=f"<tool_call{suffix}>{{name}}{separator}{gap}",
        foot=(f"</tool_call{suffix}>",),
        between=(gap,),
        notation=tag_styles.hunyuan_pairs(version, suffix),
        tokens=(*tokens, separator) if separator else tokens,
        reasoning=Delimiters(f"<think{suffix}>", f"</think{suffix}>") if suffix else None,
    )


HUNYUAN3 = hunyuan_tags(3, "")
"""<tool_calls>
<tool_call>get_weather<tool_sep>
<arg_key>city</arg_key>
<arg_value>Oslo</arg_value>
</tool_call>
</tool_calls>"""

HUNYUAN4 = hunyuan_tags(4, "")
"""<tool_calls><tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>\
</tool_calls>"""

K2_HORIZON = ToolFormat(
    name="k2_horizon",
    models="K2 Horizon",
    **section(start="<ifm|tool_calls>", opening="\n", end="</ifm|tool_calls>"),
    head="<ifm|tool_call>{name}\n",
    foot=("</ifm|tool_call>\n",),
    notation=tag_styles.IFM,
    reasoning=Delimiters("<ifm|think>", "</ifm|think>"),
    signs=(Sign(texts=("<ifm|tool_calls>",)), Sign(tokens=("<ifm|tool_calls>",))),
)
"""<ifm|tool_calls>
<ifm|tool_call>get_weather
<ifm|arg_key>city</ifm|arg_key>
<ifm|arg_value>Oslo</ifm|arg_value>
</ifm|tool_call>
</ifm|tool_calls>"""

K2_HORIZON_TYPED = replace(
    K2_HORIZON,
    name="k2_horizon_typed",
    models="K2 Horizon that is asked for types: on request",
    notation=tag_styles.IFM_TYPED,
    signs=(),
)
"""<ifm|tool_calls>
<ifm|tool_call>get_weather
<ifm|arg_key>city</ifm|arg_key>
<ifm|arg_type>string</ifm|arg_type>
<ifm|arg_value>Oslo</ifm|arg_value>
</ifm|tool_call>
</ifm|tool_calls>"""

IQUEST_Q1 = replace(
    GLM4_7,
    name="iquest_q1",
    models="IQuest Q1",
    start="<iquest_tool_call>",
    end="</iquest_tool_call>",
    notation=tag_styles.IQUEST,
    parser=None,
    signs=(Sign(texts=("<iquest_tool_call>",), parser="glm47"),),
)
"""<iquest_tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></iquest_tool_call>"""

SPARK2_5 = replace(
    GLM4_7,
    name="spark2_5",
    models="Spark 2.5: on request",
    notation=tag_styles.SPARK,
    parser=None,
    signs=(),
)
"""<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>"""

SOLAR_OPEN2 = ToolFormat(
    name="solar_open2",
    models="Solar Open 2",
    start="<|tool_call:start|>",
    head="{name}\n",
    end="<|tool_call:end|>",
    between=("\n", ""),
    notation=tag_styles.SOLAR,
    tokens=("<|tool_call:start|>", "<|tool_call:end|>"),
    signs=(Sign(tokens=("<|tool_call:start|>", "<|tool_arg:value|>")),),
)
"""<|tool_call:start|>get_weather
<|tool_arg:start|>city<|tool_arg:value|>Oslo<|tool_arg:end|>
<|tool_call:end|>"""

PAIR_FAMILIES = (
    *(IQUEST_Q1, GLM4_7, GLM4_5, LONGCAT_TAGS, HUNYUAN3, HUNYUAN4, K2_HORIZON, K2_HORIZON_TYPED),
    *(SOLAR_OPEN2, SPARK2_5),
)
"""A tokenizer that has signs of several rows is one of the first of them."""
