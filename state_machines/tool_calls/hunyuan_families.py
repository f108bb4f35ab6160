"""Families of Tencent's Hunyuan."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from state_machines.argument_notations import hunyuan_pairs
from state_machines.tool_calls.json_families import json_list
from state_machines.tool_calls.tool_format import Delimiters, ToolFormat

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
        notation=hunyuan_pairs(version, suffix),
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
