"""The states of the lexer of a grammar over lexemes: terminals in parallel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from operator import attrgetter, itemgetter
from typing import TypeAlias

from state_machines.budgets import spend
from state_machines.grammar.node import EMPTY, Node, Transitions, intern_node
from state_machines.graphs import Edge, Visit, best_first

LexemeEnd: TypeAlias = tuple[int, int]
"""An end of a lexeme: the set of the terminals that match it, and that of the bytes that would
continue it."""

NEAR_STATES = 64
"""States of a lexer that are visited to find the nearest ends of a lexeme."""


def terminals_in(terminals: int) -> Iterator[int]:
    """Yield the members of a set of terminals, ascending."""
    while terminals:
        low = terminals & -terminals
        yield low.bit_length() - 1
        terminals ^= low


class LexerState(Node):
    """The derivatives of several terminals by the bytes of a lexeme; the union of their languages.

    Attributes:
        items: Pairs of a terminal, as a set with one member, and its residual language.
        lazy: The set of the lazy terminals. Where one is complete, the lexeme ends.
        complete: The set of the terminals that match the lexeme so far.
    """

    __slots__ = ("_ends", "_near_ends", "complete", "items", "lazy")

    def __init__(self, items: tuple[tuple[int, Node], ...], lazy: int) -> None:
        complete, least = 0, items[0][1].min_length
        for bit, residual in items:
            if residual.nullable:
                complete |= bit
            if residual.min_length < least:
                least = residual.min_length
        super().__init__(nullable=complete != 0, min_length=least, max_length=None)
        self.items = items
        self.lazy = lazy
        self.complete = complete & lazy or complete
        self._ends: frozenset[LexemeEnd] | None = None
        self._near_ends: frozenset[LexemeEnd] | None = None

    @property
    def ends(self) -> frozenset[LexemeEnd]:
        """The ends of the lexemes that the state may become."""
        known = self._ends
        if known is None:
            _find_ends(self)
            known = self._ends
            assert known is not None, "found for all states that are reached from this one"
        return known

    @property
    def near_ends(self) -> frozenset[LexemeEnd]:
        """Some of :attr:`ends`, by visiting few states; all of them if there are no more."""
        if self._ends is None and self._near_ends is None:
            self._near_ends = _find_near_ends(self)
        return self._ends or self._near_ends or frozenset()

    @property
    def has_all_ends(self) -> bool:
        """Whether :attr:`ends` is known."""
        return self._ends is not None

    def beginning_with(self, first: int) -> Node:
        """Return the state without the terminals that begin with none of some bytes."""
        items = (item for item in self.items if item[1].first_bytes & first)
        return lexer_state(items, self.lazy)

    def compute_transitions(self) -> Transitions:
        if self.complete & self.lazy:
            return ()
        spend(1 + len(self.items) // 4)
        # Most terminals are words, and many words begin with the same byte.
        by_members: dict[int, list[tuple[int, Node]]] = {}
        for bit, node in self.items:
            for members, target in node.transitions:
                by_members.setdefault(members, []).append((bit, target))
        cells: list[tuple[int, list[tuple[int, Node]]]] = []
        covered = 0
        for members, items in by_members.items():
            rest = members
            if members & covered:
                spend(1 + len(cells) // 8)
                refined: list[tuple[int, list[tuple[int, Node]]]] = []
                for cell, others in cells:
                    common = cell & rest
                    if common:
                        refined.append((common, others + items))
                        rest &= ~common
                    if cell != common:
                        refined.append((cell & ~common, others))
                cells = refined
            if rest:
                cells.append((rest, items))
            covered |= members
        found: dict[Node, int] = {}
        for cell, items in cells:
            target = lexer_state(sorted(items, key=_terminal), self.lazy)
            if target is not EMPTY:
                found[target] = found.get(target, 0) | cell
        return tuple((cell, target) for target, cell in found.items())

    def compute_first_bytes(self) -> int:
        if self.complete & self.lazy:
            return 0
        first = 0
        for _, residual in self.items:
            first |= residual.first_bytes
        return first

    def compute_derivative(self, byte: int) -> Node:
        if self.complete & self.lazy:
            return EMPTY
        after = (
            (bit, residual.derivative(byte))
            for bit, residual in self.items
            if residual.first_bytes >> byte & 1
        )
        return lexer_state(after, self.lazy)

    def release(self) -> Iterable[Node]:
        return (*super().release(), *(residual for _, residual in self.items))


def _find_near_ends(state: LexerState) -> frozenset[LexemeEnd]:
    states = nearest_states(state)
    near = islice(states, NEAR_STATES)
    found = frozenset((at.complete, at.first_bytes) for at in near if at.complete)
    return state.ends if next(states, None) is None else found


def nearest_states(state: LexerState) -> Iterator[LexerState]:
    """Yield a state and all states that it reaches, in the order of their distance to an end."""

    def edges(visit: Visit[Node, None]) -> list[Edge[Node, None]]:
        spend()
        return [(target, None, 0) for _, target in visit.state.transitions]

    start: Node = state
    for visit in best_first(start, edges, attrgetter("min_length")):
        assert isinstance(visit.state, LexerState)
        yield visit.state


def _find_ends(state: LexerState) -> None:
    """Find the ends of all states that are reached from one: a least fixed point."""
    above: dict[LexerState, list[LexerState]] = {}
    found: dict[LexerState, set[LexemeEnd]] = {}
    pending = [state]
    news: list[tuple[LexerState, LexemeEnd]] = []
    while pending:
        spend()
        at = pending.pop()
        if at in found:
            continue
        own = {(at.complete, at.first_bytes)} if at.complete else set()
        found[at] = set()
        if at._ends is not None:
            news += ((at, end) for end in at._ends)
            continue
        news += ((at, end) for end in own)
        for _, target in at.transitions:
            assert isinstance(target, LexerState)
            above.setdefault(target, []).append(at)
            pending.append(target)
    while news:
        spend()
        at, end = news.pop()
        if end not in found[at]:
            found[at].add(end)
            news += ((caller, end) for caller in above.get(at, ()))
    kinds: dict[frozenset[LexemeEnd], frozenset[LexemeEnd]] = {}
    for at, ends in found.items():
        one = frozenset(ends)
        at._ends = kinds.setdefault(one, one)


_terminal = itemgetter(0)


def lexer_state(items: Iterable[tuple[int, Node]], lazy: int) -> Node:
    """Return the state of a lexer; :data:`EMPTY` if no terminal can be completed."""
    live = tuple(
        [
            item
            for item in items
            if item[1] is not EMPTY and not (item[1].boolean and item[1].is_empty)
        ]
    )
    if not live:
        return EMPTY
    key = ("LexerState", lazy, *[part for bit, node in live for part in (bit, id(node))])
    return intern_node(key, lambda: LexerState(live, lazy))
