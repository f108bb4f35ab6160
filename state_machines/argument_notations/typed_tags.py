"""Arguments as tags that say the type of the value."""

from __future__ import annotations

from state_machines.argument_notations.tagged import TaggedNotation

_NOT_STRINGS = ("null", "boolean", "number", "array", "object")


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
