"""Formats whose calls are compact JSON throughout."""

from __future__ import annotations

from dataclasses import replace

from state_machines.argument_notations import JsonNotation, compact_json
from state_machines.errors import CompositionError
from state_machines.tool_calls.tool_format import ToolFormat


def in_compact_json(tool_format: ToolFormat) -> ToolFormat:
    """Return a format with compact JSON in the arguments and in the text around them.

    Without it, a format writes the text around arguments as its model family does, and arguments in
    the family's layout or compact.

    Args:
        tool_format: A format that writes arguments as JSON.

    Raises:
        CompositionError: The format has another notation of arguments.

    >>> from state_machines.tool_calls import format_named
    >>> in_compact_json(format_named("hermes")).head
    '\\n{"name":"{name}","arguments":'
    """
    f = tool_format
    if not isinstance(f.notation, JsonNotation):
        raise CompositionError(
            f"the format {f.name!r} does not write its arguments as JSON",
            part=f.name,
            hint="Only formats with JSON have a compact layout",
        )
    return replace(
        f,
        start=compact_json(f.start),
        opening=tuple(map(compact_json, f.opening)),
        head=compact_json(f.head),
        foot=tuple(map(compact_json, f.foot)),
        between=tuple(map(compact_json, f.between)),
        notation=replace(f.notation, whitespace="compact"),
    )
