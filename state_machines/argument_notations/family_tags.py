"""Arguments as tags in the notations of model families."""

from __future__ import annotations

from dataclasses import replace

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


def _by_attribute(name: str, tag: str, avoid: tuple[str, ...], gap: str = "\n") -> TaggedNotation:
    """Return a notation with names in an attribute of the tag."""
    return TaggedNotation(
        name,
        before_name=f'<{tag} name="',
        after_name='">',
        after_value=f"</{tag}>{gap}",
        closing=f"</{tag}>",
        avoid=avoid,
        names=r'^[^<>"]+$',
        trims=True,
    )


STEPTML = replace(
    _by_attribute("steptml", "steptml:parameter", ("</steptml:invoke>",)),
    unlisted_are_strings=True,
)
"""Step 3."""

MINIMAX = replace(
    _by_attribute("minimax", "parameter", ("</invoke>", "</minimax:tool_call>")),
    names=r'^[^<>"]*$',
    reads_null=True,
    unlisted_are_strings=True,
    raw_unions=True,
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

MINICPM = replace(
    # A value that looks like a CDATA section would be unwrapped.
    _by_attribute("minicpm", "param", ("</function>", "<![CDATA["), gap=""),
    names=r'^[^<>"]*$',
    reads_null=True,
    unlisted_are_strings=True,
    raw_unions=True,
)
"""MiniCPM5."""

ATEM = replace(
    _by_attribute("atem", "atem:parameter", ("</atem:invoke>", "</atem:function_calls>")),
    guesses=True,
    literals="json",
    knows_types=False,
)
"""Muse Spark."""
