"""A call of one tool, as parts of an answer: its head with the name, its arguments, its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from state_machines.root.parts import Marker

__all__ = ["CALL", "CallEnd", "CallStart", "ToolSignature"]

CALL = "tool_call"
"""The identifier of everything that belongs to tool calls."""


@dataclass(frozen=True, eq=False)
class ToolSignature:
    """What a grammar needs to know of a tool: its name and the JSON Schema of its arguments."""

    name: str
    parameters: Mapping[str, Any] | bool


@dataclass(frozen=True, eq=False)
class CallStart(Marker):
    """The text up to a call's arguments, which spells the tool's name.

    Once it is written it is certain that ``tool`` is called, by the name ``call_id`` if the
    format writes such a thing.
    """

    _: KW_ONLY
    tool: ToolSignature
    call_id: str | None = None


@dataclass(frozen=True, eq=False)
class CallEnd(Marker):
    """The text from a call's arguments to its end."""
