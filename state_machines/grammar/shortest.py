"""The shortest word of a language, its length, and whether it has words of any length."""

from __future__ import annotations

from operator import attrgetter
from weakref import WeakKeyDictionary

from state_machines.best_first import Edge, Visit, best_first
from state_machines.budgets import Verdict, spend
from state_machines.grammar.node import Node
from state_machines.grammar.symbols import bytes_in
from state_machines.limits import LIMITS

_LENGTHS: WeakKeyDictionary[Node, int] = WeakKeyDictionary()


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


def has_endless_words(node: Node, *, max_states: int = LIMITS.endless_states) -> Verdict:
    """Whether a language has words of any length: some state leads back to itself.

    Transitions lead only to states that have words, so a cycle is enough. The search gives up after
    ``max_states`` states.
    """
    on_path: set[Node] = set()
    done: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(node, False)]
    while stack:
        state, is_left = stack.pop()
        if is_left:
            on_path.discard(state)
            done.add(state)
        elif state in on_path:
            return Verdict.YES
        elif state not in done:
            if len(on_path) + len(done) >= max_states:
                return Verdict.UNKNOWN
            spend()
            on_path.add(state)
            stack.append((state, True))
            stack.extend((target, False) for _, target in state.transitions)
    return Verdict.NO
