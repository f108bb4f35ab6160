"""The root state machine: answers composed of text, reasoning, structured output, tool calls."""

from state_machines.root.attribution import Piece
from state_machines.root.machine import RootMatcher, RootStateMachine, StructuralTagPart
from state_machines.root.parts import (
    Choice,
    LineStart,
    Marker,
    Optional,
    Part,
    Repeat,
    Series,
    Structured,
    SubState,
    Text,
    leaves,
    part_names,
    repeated_part_names,
)

__all__ = [
    "Choice",
    "LineStart",
    "Marker",
    "Optional",
    "Part",
    "Piece",
    "Repeat",
    "RootMatcher",
    "RootStateMachine",
    "Series",
    "StructuralTagPart",
    "Structured",
    "SubState",
    "Text",
    "leaves",
    "part_names",
    "repeated_part_names",
]
