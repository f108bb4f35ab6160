"""The shortest word of a language, its length, and whether it has words of all greater lengths."""

from __future__ import annotations

from operator import attrgetter
from weakref import WeakKeyDictionary

from state_machines.budgets import Verdict, spend
from state_machines.grammar.node import Node
from state_machines.grammar.symbols import bytes_in
from state_machines.graphs import Edge, Visit, best_first
from state_machines.limits import LIMITS

_LENGTHS: WeakKeyDictionary[Node, int] = WeakKeyDictionary()
_ALL_LENGTHS: WeakKeyDictionary[Node, Verdict] = WeakKeyDictionary()


def shortest_length(node: Node) -> int:
    """Return the length of a shortest word, in symbols of either alphabet; cached with the node.

    Raises:
        ValueError: The language has no word.
    """
    known = _LENGTHS.get(node)
    if known is None:
        known = _LENGTHS[node] = _search_length(node)
    return known


def shortest_word(node: Node) -> bytes | None:
    """Return a shortest word of a language over bytes; ``None`` if there is none."""
    for visit in best_first(node, _byte_edges, attrgetter("min_length")):
        if visit.state.nullable:
            return bytes(visit.path)
    return None


def _byte_edges(visit: Visit[Node, int]) -> list[Edge[Node, int]]:
    spend()
    return [(target, bytes_in(symbols)[0], 1) for symbols, target in visit.state.transitions]


def _search_length(node: Node) -> int:
    for visit in best_first(node, _edges, attrgetter("min_length")):
        if visit.state.nullable:
            return visit.cost
    raise ValueError("the language has no word")


def _edges(visit: Visit[Node, None]) -> list[Edge[Node, None]]:
    spend()
    return [(target, None, 1) for _, target in visit.state.transitions]


def has_all_lengths(node: Node, *, max_states: int = LIMITS.endless_states) -> Verdict:
    """Whether words may have any length from the shortest on, also after every beginning of a word.

    A state lacks the next length above the shortest if all of its transitions lead to states with
    longer words. If no state does, by induction none lacks a length. The search gives up after
    ``max_states`` states.
    """
    known = _ALL_LENGTHS.get(node)
    if known is None:
        known = _ALL_LENGTHS[node] = _search_gap(node, max_states)
    return known


def _search_gap(node: Node, max_states: int) -> Verdict:
    seen = {node}
    pending = [node]
    while pending:
        state = pending.pop()
        spend()
        shortest = shortest_length(state)
        targets = [target for _, target in state.transitions]
        if all(shortest_length(target) > shortest for target in targets):
            return Verdict.NO
        pending += [target for target in dict.fromkeys(targets) if target not in seen]
        seen.update(targets)
        if len(seen) > max_states:
            return Verdict.UNKNOWN
    return Verdict.YES
