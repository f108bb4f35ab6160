"""The tags in which model families write arguments: one :class:`TaggedNotation` for each."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from state_machines.argument_notations.tagged import TaggedNotation

_SPACE = r"\s\x1c-\x1f\x85"
_TRIMMED_NAMES = rf"^([^<>{_SPACE}]([^<>]*[^<>{_SPACE}])?)?$"
_NOT_STRINGS = ("null", "boolean", "number", "array", "object")

# The name is the text of the opening tag.

QWEN_CODER = TaggedNotation(
    "qwen-coder",
    before_name="<parameter=",
    after_name=">\n",
    after_value="\n</parameter>\n",
    closing="</parameter>",
    avoid=("</tool_call>",),
    names=rf"^[^<>{_SPACE}]+$",
    reads_null=True,
    unlisted_are_strings=True,
    python_literals=True,
)
"""Qwen3-Coder and Qwen3.5."""

SEED = replace(
    QWEN_CODER,
    name="seed",
    after_name=">",
    after_value="</parameter>\n",
    # Another parameter ends a value for vLLM's parser, too.
    avoid=("<parameter=", "</function>", "</seed:tool_call>"),
    wraps_lines=True,
)
"""Seed-OSS."""

MIMO = replace(
    QWEN_CODER,
    name="mimo",
    after_name=">",
    after_value="</parameter>\n",
    # Another parameter ends a value for vLLM's parser, too.
    avoid=("<parameter=", "</function>", "</tool_call>"),
    python_literals=False,
)
"""MiMo V2."""

# The name is an attribute of the tag.


def _by_attribute(
    name: str, tag: str, *avoid: str, gap: str = "\n", names: str = r'^[^<>"]+$', **options: Any
) -> TaggedNotation:
    return TaggedNotation(
        name,
        before_name=f'<{tag} name="',
        after_name='">',
        after_value=f"</{tag}>{gap}",
        closing=f"</{tag}>",
        avoid=avoid,
        names=names,
        **options,
    )


STEPTML = _by_attribute(
    "steptml", "steptml:parameter", "</steptml:invoke>", unlisted_are_strings=True
)
"""Step 3."""

_MINIMAX: dict[str, Any] = {
    "names": r'^[^<>"]*$',
    "reads_null": True,
    "unlisted_are_strings": True,
    "raw_unions": True,
}

MINIMAX = _by_attribute("minimax", "parameter", "</invoke>", "</minimax:tool_call>", **_MINIMAX)
"""MiniMax M2."""

DOTS = _by_attribute("dots", "parameter", "</invoke>", "</dots_function_call>", **_MINIMAX)
"""dots.llm."""

# A value that looks like a CDATA section would be unwrapped.
MINICPM = _by_attribute("minicpm", "param", "</function>", "<![CDATA[", gap="", **_MINIMAX)
"""MiniCPM5."""

ATEM = _by_attribute(
    "atem",
    "atem:parameter",
    *("</atem:invoke>", "</atem:function_calls>"),
    guesses=True,
    literals="json",
    knows_types=False,
)
"""Muse Spark."""

# One tag for the name, one for the value.


def _by_pairs(
    name: str, key: str, value: str, *avoid: str, gap: str = "", **options: Any
) -> TaggedNotation:
    return TaggedNotation(
        name,
        before_name=f"<{key}>",
        after_name=f"</{key}>{gap}<{value}>",
        after_value=f"</{value}>{gap}",
        closing=f"</{value}>",
        avoid=avoid,
        names=_TRIMMED_NAMES,
        markers=(f"<{key}>", f"</{key}>", f"<{value}>", f"</{value}>"),
        guesses=True,
        **options,
    )


GLM = _by_pairs("glm", "arg_key", "arg_value", "</tool_call>", gap="\n")
"""GLM 4.5 and 4.6: a line each for name and value."""

GLM_COMPACT = _by_pairs("glm-compact", "arg_key", "arg_value", "</tool_call>")
"""GLM 4.7 and 5: no white space between the tags."""

LONGCAT = _by_pairs(
    "longcat",
    *("longcat_arg_key", "longcat_arg_value", "</longcat_tool_call>"),
    gap="\n",
)
"""LongCat Flash."""

IQUEST = _by_pairs("iquest", "arg_key", "arg_value", "</iquest_tool_call>")
"""IQuest Q1."""

_STRINGS: dict[str, Any] = {"guesses": False, "reads_null": True, "unlisted_are_strings": True}

SPARK = replace(GLM_COMPACT, name="spark", **_STRINGS)
"""Spark 2.5."""

_IFM_ENDS = ("</ifm|tool_call>", "</ifm|tool_calls>", "<ifm|arg_key>", "<ifm|arg_type>")

IFM = replace(
    _by_pairs("ifm", "ifm|arg_key", "ifm|arg_value", *_IFM_ENDS, gap="\n"),
    **{**_STRINGS, "reads_null": False, "reads_nullable": True},
)
"""K2 Horizon."""

_IFM_VALUE = "</ifm|arg_type>\n<ifm|arg_value>"

IFM_TYPED = replace(
    IFM,
    name="ifm-typed",
    after_name="</ifm|arg_key>\n<ifm|arg_type>",
    markers=(*IFM.markers, "<ifm|arg_type>", "</ifm|arg_type>"),
    kinds={kind: kind + _IFM_VALUE for kind in ("string", *_NOT_STRINGS)},
)
"""K2 Horizon, with a tag for the type of each value."""

_SOLAR = ("<|tool_arg:start|>", "<|tool_arg:value|>", "<|tool_arg:end|>")

SOLAR = TaggedNotation(
    "solar",
    before_name=_SOLAR[0],
    after_name=_SOLAR[1],
    after_value=f"{_SOLAR[2]}\n",
    closing=_SOLAR[2],
    avoid=(_SOLAR[0], "<|tool_call:start|>", "<|tool_call:end|>"),
    names=_TRIMMED_NAMES,
    markers=_SOLAR,
    reads_nullable=True,
    unlisted_are_strings=True,
)
"""Solar Open 2."""


@cache
def hunyuan_pairs(version: int, suffix: str) -> TaggedNotation:
    """Return the notation of Hunyuan 3 or 4.

    A value of a property that is not listed, or admits strings alone, is a raw string, white space
    included.

    Args:
        version: 3 writes each tag on a separate line; 4 writes no white space between tags.
        suffix: The text before ``>`` in the tokenizer's tags: empty, or such as ``:opensource``.
    """
    return _by_pairs(
        f"hunyuan{version}",
        f"arg_key{suffix}",
        f"arg_value{suffix}",
        *(f"</tool_call{suffix}>", f"</tool_calls{suffix}>"),
        gap="\n" if version == 3 else "",
        reads_nullable=True,
        unlisted_are_strings=True,
    )


# The tag says the type of the value.


def _dsml(name: str, section: str, mark: str = "｜DSML｜", space: str = "") -> TaggedNotation:
    begin = f"<{mark}{space}parameter name="
    end = f"</{mark}{space}parameter>"
    return TaggedNotation(
        name,
        before_name=f'{begin}"',
        after_name='" string="',
        after_value=end,
        closing=end,
        # Another parameter ends a value for vLLM's parser, too.
        avoid=(f"</{mark}{space}invoke>", f"</{mark}{section}>", begin),
        names=r'^[^<>"]+$',
        between="\n",
        markers=(mark,),
        kinds={"string": 'true">', **dict.fromkeys(_NOT_STRINGS, 'false">')},
    )


DSML = _dsml("dsml", "function_calls")
"""DeepSeek V3.2."""

DSML_V4 = _dsml("dsml-v4", "tool_calls")
"""DeepSeek V4."""

DSML_V4_1 = _dsml("dsml-v4.1", " calls", space=" ")
"""DeepSeek V4.1."""

GCML = _dsml("gcml", "tool_calls", mark="｜GCML｜")
"""GigaChat 3.5."""

_XTML = ("<|open|>", "<|close|>", "<|sep|>")

XTML = TaggedNotation(
    "xtml",
    before_name='<|open|>argument key="',
    after_name='" type="',
    after_value="<|close|>argument<|sep|>",
    closing="<|close|>",
    avoid=_XTML,
    names=r'^[^<>"&]+$',
    markers=_XTML,
    kinds={kind: f'{kind}"<|sep|>' for kind in ("string", *_NOT_STRINGS)},
)
"""Kimi K3."""
