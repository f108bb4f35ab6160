"""The table of tool-call formats of model families, by name."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

from state_machines.errors import CompositionError
from state_machines.tool_calls.code_families import CODE_FAMILIES
from state_machines.tool_calls.hunyuan_families import HUNYUAN_FAMILIES
from state_machines.tool_calls.json_families import JSON_FAMILIES
from state_machines.tool_calls.marked_json_families import MARKED_JSON_FAMILIES
from state_machines.tool_calls.tagged_families import TAGGED_FAMILIES
from state_machines.tool_calls.tool_format import ToolFormat

FORMATS: Mapping[str, ToolFormat] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            *(*JSON_FAMILIES, *MARKED_JSON_FAMILIES, *TAGGED_FAMILIES),
            *(*HUNYUAN_FAMILIES, *CODE_FAMILIES),
        )
    }
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
