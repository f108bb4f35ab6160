"""Lengths of words: the least that must still be written, and whether there is a most."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from weakref import WeakKeyDictionary

from state_machines.budgets import spend
from state_machines.grammar.node import EMPTY, Node, leading_bytes
from state_machines.limits import LIMITS

__all__ = ["has_endless_words", "shortest_length", "shortest_word"]


def shortest_word(node: Node, *, budget: int = 100_000) -> bytes | None:
    """Return a shortest word of a byte language; ``None`` if it has none.

    Best first by the bytes written and the node's lower bound on those to come (A*, Hart, Nilsson
    & Raphael 1968), so the first complete state is a nearest one. Visits at most ``budget`` states
    and raises :class:`OverflowError` beyond.
    """
    if node.is_empty:
        return None
    came_from: dict[Node, tuple[Node, int]] = {}
    written = {node: 0}
    # Among equal hopes the longest word first: it is nearest to an end.
    order = count()
    queue: list[tuple[int, int, int, Node]] = [(node.min_length, 0, next(order), node)]
    done: set[Node] = set()
    while queue:
        *_, state = heappop(queue)
        if state in done:
            continue
        done.add(state)
        if state.nullable:
            return _path(state, came_from)
        if len(done) > budget:
            raise OverflowError(f"no end within {budget} states")
        for byte in leading_bytes(state):
            target = state.derivative(byte)
            length = written[state] + 1
            if target is not EMPTY and length < written.get(target, length + 1):
                written[target] = length
                came_from[target] = (state, byte)
                hope = length + target.min_length
                heappush(queue, (hope, -length, next(order), target))
    return None


def shortest_length(node: Node) -> int:
    """Return the length, in symbols, of a shortest word of a language that has one.

    Over any alphabet; remembered with the node. Best first, as :func:`shortest_word`.
    """
    known = _LENGTHS.get(node)
    if known is None:
        known = _LENGTHS[node] = _search_length(node)
    return known


def has_endless_words(node: Node, *, budget: int = LIMITS.endless_states) -> bool:
    """Whether a language surely has words beyond any length: a state that leads back to itself.

    Looks at no more than ``budget`` states; rows lead to nothing but states that have words.
    """
    above: set[Node] = set()
    done: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(node, False)]
    while stack:
        state, is_left = stack.pop()
        if is_left:
            above.discard(state)
            done.add(state)
        elif state in above:
            return True
        elif state not in done:
            if len(above) + len(done) >= budget:
                return False
            spend()
            above.add(state)
            stack.append((state, True))
            stack.extend((target, False) for _, target in state.transitions)
    return False


_LENGTHS: WeakKeyDictionary[Node, int] = WeakKeyDictionary()


def _search_length(node: Node) -> int:
    written = {node: 0}
    order = count()
    queue: list[tuple[int, int, Node]] = [(node.min_length, next(order), node)]
    while queue:
        hope, _, state = heappop(queue)
        if state.nullable:
            return written[state]
        if hope > written[state] + state.min_length:
            continue
        spend()
        for _, target in state.transitions:
            length = written[state] + 1
            if length < written.get(target, length + 1):
                written[target] = length
                heappush(queue, (length + target.min_length, next(order), target))
    raise ValueError("the language has no word")


def _path(state: Node, came_from: dict[Node, tuple[Node, int]]) -> bytes:
    text = bytearray()
    while state in came_from:
        state, byte = came_from[state]
        text.append(byte)
    return bytes(reversed(text))
