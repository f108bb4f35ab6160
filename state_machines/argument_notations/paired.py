"""Notations of families whose tags pair names with values, or name the type of a value.

They are instances of :class:`~state_machines.argument_notations.tagged.TaggedNotation`.
"""

from __future__ import annotations

from functools import cache

from state_machines.argument_notations.tagged import TaggedNotation

_SPACE = r"\s\x1c-\x1f\x85"


@cache
def hunyuan_pairs(version: int, suffix: str) -> TaggedNotation:
    """Return the notation of Hunyuan 3 or 4.

    A value of a property that is not listed, or admits strings alone, is a raw string, white space
    included.

    Args:
        version: 3 writes each tag on a line of its own; 4 writes no white space between tags.
        suffix: The text before ``>`` in the tokenizer's tags: empty, or such as ``:opensource``.
    """
    key, value = f"arg_key{suffix}>", f"arg_value{suffix}>"
    gap = "\n" if version == 3 else ""
    return TaggedNotation(
        f"hunyuan{version}",
        before_name=f"<{key}",
        after_name=f"</{key}{gap}<{value}",
        after_value=f"</{value}{gap}",
        closing=f"</{value}",
        avoid=(f"</tool_call{suffix}>", f"</tool_calls{suffix}>"),
        names=rf"^([^<>{_SPACE}]([^<>]*[^<>{_SPACE}])?)?$",
        markers=(f"<{key}", f"</{key}", f"<{value}", f"</{value}"),
        reads_nullable=True,
        unlisted_are_strings=True,
        guesses=True,
    )


HUNYUAN3 = hunyuan_pairs(3, "")
"""Hunyuan 3: a line each for name and value."""

HUNYUAN4 = hunyuan_pairs(4, "")
"""Hunyuan 4: no white space between the tags."""
