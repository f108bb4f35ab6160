"""Whether a text can follow a state of a grammar over lexemes with longest match.

A lexeme ends before a byte that does not continue it. So a state before a lexeme comes with the
bytes that cannot be next, and the search goes from lexeme to lexeme.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Protocol, Self

from state_machines.budgets import spend
from state_machines.grammar.node import Node
from state_machines.limits import LIMITS


class BeforeLexeme(Protocol):
    """A state before a lexeme.

    Attributes:
        known_gaps: Whether a text can follow, by the bytes that cannot be next.
    """

    known_gaps: dict[int, bool]

    @property
    def parser(self) -> Node: ...
    @property
    def lexer(self) -> Node: ...
    def next_lexemes(self, gap: int) -> Iterator[tuple[Self, int]]: ...


def has_word(states: Iterable[tuple[BeforeLexeme, int]]) -> bool:
    """Return whether a text is found from one of several states, by weighted A*.

    The search ends after ``LIMITS.lexed_states`` states; then there may be a text.

    Args:
        states: States before a lexeme, each with the bytes that cannot be next.
    """
    reached_from: dict[tuple[BeforeLexeme, int], tuple[BeforeLexeme, int] | None] = {}
    numbers = count()
    queue: list[tuple[int, int, int, tuple[BeforeLexeme, int]]] = []

    def add(
        found: Iterable[tuple[BeforeLexeme, int]],
        depth: int,
        above: tuple[BeforeLexeme, int] | None,
    ) -> None:
        for state, gap in found:
            # Only bytes that could begin the lexeme matter.
            pair = state, gap & state.lexer.first_bytes
            if pair not in reached_from:
                reached_from[pair] = above
                cost = depth + 2 * state.parser.min_length
                heappush(queue, (cost, next(numbers), depth, pair))

    add(states, 0, None)
    while queue:
        _, _, depth, pair = heappop(queue)
        spend()
        state, gap = pair
        known = state.known_gaps.get(gap)
        if known or state.parser.nullable:
            at: tuple[BeforeLexeme, int] | None = pair
            while at is not None:
                at[0].known_gaps[at[1]] = True
                at = reached_from[at]
            return True
        if len(reached_from) > LIMITS.lexed_states:
            return False
        if known is None:
            add(state.next_lexemes(gap), depth + 1, pair)
    # All states that can be reached have been.
    for state, gap in reached_from:
        state.known_gaps[gap] = False
    return False
