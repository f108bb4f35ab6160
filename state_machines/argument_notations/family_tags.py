"""Arguments as tags in the notations of model families."""

from __future__ import annotations

from state_machines.argument_notations.tagged import TaggedNotation

_SPACE = r"\s\x1c-\x1f\x85"

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
    python_words=True,
)
"""Qwen3-Coder and Qwen3.5."""

SEED = TaggedNotation(
    "seed",
    before_name="<parameter=",
    after_name=">",
    after_value="</parameter>\n",
    closing="</parameter>",
    # Another parameter ends a value for vLLM's parser, too.
    avoid=("<parameter=", "</function>", "</seed:tool_call>"),
    names=rf"^[^<>{_SPACE}]+$",
    reads_null=True,
    unlisted_are_strings=True,
    python_words=True,
    wraps_lines=True,
)
"""Seed-OSS."""

STEPTML = TaggedNotation(
    "steptml",
    before_name='<steptml:parameter name="',
    after_name='">',
    after_value="</steptml:parameter>\n",
    closing="</steptml:parameter>",
    avoid=("</steptml:invoke>",),
    names=r'^[^<>"]+$',
    trims=True,
    unlisted_are_strings=True,
)
"""Step 3."""

MINIMAX = TaggedNotation(
    "minimax",
    before_name='<parameter name="',
    after_name='">',
    after_value="</parameter>\n",
    closing="</parameter>",
    avoid=("</invoke>", "</minimax:tool_call>"),
    names=r'^[^<>"]*$',
    trims=True,
    reads_null=True,
    unlisted_are_strings=True,
)
"""MiniMax M2."""


def _by_pairs(name: str, prefix: str, call: str, gap: str) -> TaggedNotation:
    key, end_key = f"<{prefix}arg_key>", f"</{prefix}arg_key>"
    value, end_value = f"<{prefix}arg_value>", f"</{prefix}arg_value>"
    return TaggedNotation(
        name,
        before_name=key,
        after_name=f"{end_key}{gap}{value}",
        after_value=f"{end_value}{gap}",
        closing=end_value,
        avoid=(f"</{call}>",),
        names=rf"^([^<>{_SPACE}]([^<>]*[^<>{_SPACE}])?)?$",
        markers=(key, end_key, value, end_value),
        trims=True,
        guesses=True,
    )


GLM = _by_pairs("glm", "", "tool_call", "\n")
"""GLM 4.5 and 4.6: a line each for name and value."""

GLM_COMPACT = _by_pairs("glm-compact", "", "tool_call", "")
"""GLM 4.7 and 5: no white space between the tags."""

LONGCAT = _by_pairs("longcat", "longcat_", "longcat_tool_call", "\n")
"""LongCat Flash."""

MINICPM = TaggedNotation(
    "minicpm",
    before_name='<param name="',
    after_name='">',
    after_value="</param>",
    closing="</param>",
    # A value that looks like a CDATA section would be unwrapped.
    avoid=("</function>", "<![CDATA["),
    names=r'^[^<>"]*$',
    trims=True,
    reads_null=True,
    unlisted_are_strings=True,
)
"""MiniCPM5."""

ATEM = TaggedNotation(
    "atem",
    before_name='<atem:parameter name="',
    after_name='">',
    after_value="</atem:parameter>\n",
    closing="</atem:parameter>",
    avoid=("</atem:invoke>", "</atem:function_calls>"),
    names=r'^[^<>"]+$',
    trims=True,
    guesses=True,
    literals="json",
    knows_types=False,
)
"""Muse Spark."""
