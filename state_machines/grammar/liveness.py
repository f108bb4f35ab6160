"""Whether a text can follow a state of a grammar over lexemes with longest match.

A lexeme ends before a byte that does not continue it. So a state before a lexeme comes with the
bytes that cannot be next, and the search goes from lexeme to lexeme.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Protocol, Self, TypeAlias

from state_machines.budgets import Verdict, spend
from state_machines.grammar.node import EPSILON, Node
from state_machines.limits import LIMITS


class LexedState(Protocol):
    """A state of a grammar over lexemes.

    Attributes:
        known_gaps: Whether a text can follow, by the bytes that cannot be next.
        following: The next state of a text that was found; it is held, so that the text is searched
            once and not after each of its lexemes.
    """

    known_gaps: dict[int, bool]
    following: Self | None

    @property
    def nullable(self) -> bool: ...
    @property
    def parser(self) -> Node: ...
    @property
    def lexer(self) -> Node: ...
    def next_lexemes(self, gap: int, *, near: bool) -> tuple[Sequence[tuple[Self, int]], Node]: ...
    def has_all_ends(self, gap: int) -> bool: ...
    def below(self, stack: Node) -> Self: ...


def has_word(start: LexedState, gap: int = 0) -> Verdict:
    """Return whether a text can follow a state, by weighted A*.

    Lexemes that end soon are tried first. All others are tried only if no text is found with these.
    The search gives up after ``LIMITS.emptiness_states`` states.

    Args:
        start: The state.
        gap: The bytes that cannot be next.
    """
    reached_from: dict[_Pair, _Pair | None] = {}
    numbers = count()
    # Entries are ordered by the first two members and their numbers.
    queue: list[tuple[bool, int, int, int, LexedState, int, Node, _Pair | None]] = []
    heappush(queue, (False, 0, next(numbers), 0, start, gap, EPSILON, None))
    while queue:
        is_far, cost, _, depth, top, gap, stack, above = heappop(queue)
        spend()
        # Most states are never visited, so they are made here.
        state = top if stack is EPSILON else top.below(stack)
        # Only bytes that could begin the lexeme matter.
        pair = state, gap & state.lexer.first_bytes
        if not is_far:
            if pair in reached_from:
                continue
            reached_from[pair] = above
        known = state.known_gaps.get(pair[1])
        if known or state.nullable:
            while (before := reached_from[pair]) is not None:
                pair[0].known_gaps[pair[1]] = True
                before[0].following = pair[0]
                pair = before
            start.known_gaps[pair[1]] = True
            return Verdict.YES
        if len(reached_from) > LIMITS.emptiness_states:
            return Verdict.UNKNOWN
        if known is not None:
            continue
        found, below = state.next_lexemes(pair[1], near=not is_far)
        for after, continued in found:
            least = after.parser.min_length + below.min_length
            entry = (False, depth + 1 + 2 * least, next(numbers), depth + 1)
            heappush(queue, (*entry, after, continued, below, pair))
        if not is_far and not state.has_all_ends(pair[1]):
            heappush(queue, (True, cost, next(numbers), depth, state, pair[1], EPSILON, above))
    # All states that can be reached have been.
    for state, gap in reached_from:
        state.known_gaps[gap] = False
    return Verdict.NO


_Pair: TypeAlias = tuple[LexedState, int]
"""A state, and the bytes that cannot be next."""
