"""The families that write arguments as tags."""

from __future__ import annotations

from state_machines.tool_calls.notations.tagged import TaggedNotation

__all__ = ["DSML", "GLM", "GLM_COMPACT", "LONGCAT", "MINIMAX", "QWEN_CODER"]

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

_DSML = "｜DSML｜"

DSML = TaggedNotation(
    "dsml",
    before_name=f'<{_DSML}parameter name="',
    after_name='" string="',
    after_value=f"</{_DSML}parameter>",
    closing=f"</{_DSML}parameter>",
    avoid=(f"</{_DSML}invoke>", f"</{_DSML}function_calls>"),
    names=r'^[^<>"]+$',
    between="\n",
    markers=(_DSML,),
    says_string=True,
)
"""DeepSeek V3.2."""
