"""Shortest words of byte languages."""

from __future__ import annotations

from operator import attrgetter

from state_machines.grammar.node import EMPTY, Node, leading_bytes
from state_machines.graphs import Edge, Visit, best_first


def shortest_word(node: Node, *, max_states: int = 100_000) -> bytes | None:
    """Return a shortest word of a byte language; ``None`` if it has none.

    Raises:
        OverflowError: No word is found within ``max_states`` states.
    """
    if node.is_empty:
        return None
    for number, visit in enumerate(best_first(node, _edges, attrgetter("min_length"))):
        if visit.state.nullable:
            return bytes(visit.path)
        if number >= max_states:
            raise OverflowError(f"no end within {max_states} states")
    return None


def _edges(visit: Visit[Node, int]) -> list[Edge[Node, int]]:
    steps = ((visit.state.derivative(byte), byte) for byte in leading_bytes(visit.state))
    return [(target, byte, 1) for target, byte in steps if target is not EMPTY]
