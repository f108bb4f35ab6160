"""The shortest word of a language, its length, and whether it has words of all greater lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from operator import attrgetter
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from state_machines.budgets import Verdict, spend
from state_machines.grammar.node import Node
from state_machines.grammar.symbols import bytes_in
from state_machines.graphs import Edge, Visit, best_first
from state_machines.limits import LIMITS

L = TypeVar("L")

_LENGTHS: WeakKeyDictionary[Node, int] = WeakKeyDictionary()
_ENDLESS: WeakKeyDictionary[Node, Verdict] = WeakKeyDictionary()
_ALL_LENGTHS: WeakKeyDictionary[Node, Verdict] = WeakKeyDictionary()


def shortest_length(node: Node) -> int:
    """Return the length of a shortest word, in symbols of either alphabet; cached with the node.

    Raises:
        ValueError: The language has no word.
    """
    known = _LENGTHS.get(node)
    if known is None:
        known = _LENGTHS[node] = _nearest_end(node, lambda _: None).cost
    return known


def has_word_within(node: Node, length: int, max_states: int) -> Verdict:
    """Whether a word has at most a number of symbols.

    The shortest length is cached with the node.

    Args:
        node: The language.
        length: The number of symbols.
        max_states: States after which the search gives up.
    """
    known = _LENGTHS.get(node)
    if known is not None:
        return Verdict.of(known <= length)
    for number, visit in enumerate(_visits(node, lambda _: None)):
        if visit.cost + visit.state.min_length > length:
            break
        if visit.state.nullable:
            _LENGTHS[node] = visit.cost
            return Verdict.YES
        if number == max_states:
            return Verdict.UNKNOWN
    return Verdict.NO


def shortest_word(node: Node, max_states: int | None = None) -> bytes | None:
    """Return a shortest word of a language over bytes; ``None`` if none is found.

    Args:
        node: The language.
        max_states: States after which the search gives up; ``None`` for no bound.
    """
    try:
        return bytes(_nearest_end(node, lambda symbols: bytes_in(symbols)[0], max_states).path)
    except ValueError:
        return None


def shortest_text(node: Node, max_states: int | None = None) -> str:
    """Return a shortest word of a language over code points.

    Raises:
        ValueError: The language has no word, or the search has given up after ``max_states``.
    """
    return "".join(_nearest_end(node, lambda symbols: chr(symbols.ranges[0][0]), max_states).path)


def _nearest_end(
    node: Node, label: Callable[[Any], L], max_states: int | None = None
) -> Visit[Node, L]:
    """Return the nearest end of a word; ``label`` gives one symbol of a set."""
    if node.nullable:
        return Visit(node, 0)
    for visit in islice(_visits(node, label), max_states):
        if visit.state.nullable:
            return visit
    raise ValueError("no word of the language was found")


def _visits(node: Node, label: Callable[[Any], L]) -> Iterator[Visit[Node, L]]:
    """Yield the states of a language in the order of a bound on the words through them."""

    def edges(visit: Visit[Node, L]) -> list[Edge[Node, L]]:
        spend()
        return [(target, label(symbols), 1) for symbols, target in visit.state.transitions]

    return best_first(node, edges, attrgetter("min_length"))


def has_endless_words(node: Node) -> Verdict:
    """Return ``YES`` if a language is known to have words beyond every length, else ``UNKNOWN``.

    It has if a state can be reached from itself, since a word ends beyond every state. The search
    gives up after ``LIMITS.endless_states`` states.
    """
    known = _ENDLESS.get(node)
    if known is None:
        known = _ENDLESS[node] = _search_cycle(node)
    return known


def _search_cycle(node: Node) -> Verdict:
    open_ = {node}
    seen = {node}
    stack = [(node, iter(node.transitions))]
    while stack:
        state, transitions = stack[-1]
        spend()
        target = next((each for _, each in transitions if each in open_ or each not in seen), None)
        if target is None:
            stack.pop()
            open_.remove(state)
            continue
        if target in open_:
            return Verdict.YES
        if len(seen) > LIMITS.endless_states:
            return Verdict.UNKNOWN
        open_.add(target)
        seen.add(target)
        stack.append((target, iter(target.transitions)))
    return Verdict.UNKNOWN


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
