"""The white space between the tokens of JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import concatenation, literal, optional

__all__ = ["LAYOUTS", "Layout", "Whitespace"]

Whitespace = Literal["compact", "json", "spaced", "indented"]


@dataclass(frozen=True)
class Layout:
    """Where white space may stand; never without bound, for a model would not stop.

    ``compact``: none. ``json``: what ``json.dumps`` writes by default (a space after ``,`` and
    ``:``); each of these spaces may be left out, so compact text is accepted as well. ``spaced``:
    exactly what ``json.dumps`` writes by default, so that more of a text is forced.
    ``indented``: what ``json.dumps(indent=2)`` writes.
    """

    name: Whitespace
    colon: Node = field(init=False, compare=False)
    """What stands between a name and its value."""
    _spaced_comma: Node = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "colon", concatenation(literal(b":"), self._space))
        object.__setattr__(self, "_spaced_comma", concatenation(literal(b","), self._space))

    @property
    def is_indented(self) -> bool:
        """Whether members stand on lines of their own."""
        return self.name == "indented"

    def comma(self, depth: int) -> Node:
        """What stands between two members ``depth`` brackets deep."""
        return literal(b",\n" + b"  " * depth) if self.is_indented else self._spaced_comma

    def opening(self, depth: int) -> Node:
        """What stands between a bracket and its first member."""
        return literal(b"\n" + b"  " * depth) if self.is_indented else EPSILON

    def closing(self, depth: int) -> Node:
        """What stands between the last member and the bracket that closes it."""
        return literal(b"\n" + b"  " * (depth - 1)) if self.is_indented else EPSILON

    @property
    def _space(self) -> Node:
        if self.name == "compact":
            return EPSILON
        return optional(literal(b" ")) if self.name == "json" else literal(b" ")


LAYOUTS: dict[Whitespace, Layout] = {
    "compact": Layout("compact"),
    "json": Layout("json"),
    "spaced": Layout("spaced"),
    "indented": Layout("indented"),
}
