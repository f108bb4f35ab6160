"""The table of tool-call formats of model families, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from types import MappingProxyType

from state_machines.argument_notations import JsonNotation
from state_machines.argument_notations.json_notation import compact_json
from state_machines.errors import CompositionError
from state_machines.tool_calls.json_families import JSON_FAMILIES
from state_machines.tool_calls.tagged_families import TAGGED_FAMILIES
from state_machines.tool_calls.tool_format import ToolFormat

FORMATS: Mapping[str, ToolFormat] = MappingProxyType(
    {entry.name: entry for entry in (*JSON_FAMILIES, *TAGGED_FAMILIES)}
)
"""All formats by name."""


def format_named(name: str) -> ToolFormat:
    """Return the format of a name; case is ignored, and ``-`` equals ``_``.

    Raises:
        CompositionError: There is no such format. The hint has similar names.

    >>> format_named("hermes").start
    '<tool_call>'
    """
    known = FORMATS.get(name.lower().replace("-", "_"))
    if known is None:
        near = get_close_matches(name.lower(), FORMATS, n=3, cutoff=0.5)
        raise CompositionError(
            f"there is no tool format {name!r}",
            part=name,
            hint=f"Perhaps {', '.join(near)}?" if near else f"Known are {', '.join(FORMATS)}",
        )
    return known


def in_compact_json(tool_format: ToolFormat) -> ToolFormat:
    """Return a format with compact JSON in the arguments and in the text around them.

    Without it, a format writes the text around arguments as its model family does, and arguments in
    the family's layout or compact.

    Args:
        tool_format: A format that writes arguments as JSON.

    Raises:
        CompositionError: The format has another notation of arguments.

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
