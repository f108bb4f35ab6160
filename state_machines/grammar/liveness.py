"""Whether a text can follow a state of a grammar over lexemes with longest match.

A lexeme ends before a byte that does not continue it. So a state before a lexeme comes with a
*gap*: the bytes that cannot be next. The parser's state is a stack. A text that empties it leaves a
gap to the state below, the *exit*. The exit of the top of a stack does not depend on the states
below, so it is found once for all states with this top.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any, Protocol, Self, TypeAlias

from state_machines.budgets import spend
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.limits import LIMITS

NO_EXIT = -1
"""No text empties the stack."""

UNKNOWN_EXIT = -2
"""The search for a text gave up."""


class _Lexeme(Protocol):
    """A lexeme that may be next, or a text of a nested terminal."""

    @property
    def least(self) -> int: ...
    @property
    def gap(self) -> int: ...
    @property
    def states(self) -> Sequence[Any]: ...


class LexedState(Protocol):
    """A state of a grammar over lexemes.

    Attributes:
        exits: An exit by gap, as far as it is known, or :data:`NO_EXIT`.
        following: The next state of a text that was found; it is held, so that the text is searched
            once and not after each of its lexemes.
    """

    exits: dict[int, int]
    following: Self | None

    @property
    def is_complete(self) -> bool:
        """Whether the stack may be empty here."""

    @property
    def parser(self) -> Node: ...
    @property
    def lexer(self) -> Node: ...
    @property
    def top(self) -> tuple[Self, Self | None]:
        """The top of the stack, and the state below it."""

    @property
    def repeated(self) -> Self | None:
        """The state before a body that the parser repeats several times."""

    def next_lexemes(self, gap: int, *, near: bool) -> tuple[Sequence[_Lexeme], Node]: ...
    def has_all_ends(self, gap: int) -> bool: ...
    def below(self, stack: Node) -> Self: ...


def any_exit(exits: Iterable[int]) -> int:
    """Return the first exit that is one; otherwise whether there is none."""
    found = NO_EXIT
    for each in exits:
        if each >= 0:
            return each
        found = min(found, each)
    return found


def exit_of(start: LexedState, gap: int) -> int:
    """Return the exit of texts that empty the stack of a state, by those of its parts.

    Args:
        start: The state before a lexeme.
        gap: The bytes that cannot be next.
    """
    visited: list[_Pair] = []
    state, found = start, gap
    while not state.is_complete:
        # Only bytes that could begin the lexeme matter.
        gap = found & state.lexer.first_bytes
        known = state.exits.get(gap)
        if known is not None:
            found = known
            break
        top, rest = state.top
        visited.append((state, gap))
        body = state.repeated
        if body is not None and rest is None:
            # If the second text leaves the gap of the first, so does the last one.
            found = exit_of(body, gap)
            if found >= 0 and exit_of(body, found) != found:
                found = NO_EXIT
            break
        if rest is None:
            found = NO_EXIT
            break
        found = exit_of(top, gap)
        if found < 0:
            break
        state = rest
    while visited and found < 0:
        # The top may have another exit, behind which the rest has a text.
        found = _searched(*visited.pop())
    for state, gap in visited:
        state.exits[gap] = found
    return found


def _searched(start: LexedState, gap: int) -> int:
    """Search for a text that empties the stack of a state, by weighted A*.

    Lexemes that end soon are tried first. All others are tried only if no text is found with these.
    The search gives up after ``LIMITS.emptiness_states`` states.
    """
    reached_from: dict[_Pair, _Pair | None] = {}
    numbers = count()
    # Entries are ordered by the first two members and their numbers. States are made when they are
    # visited, since most of them never are.
    queue: list[tuple[bool, int, int, int, _Lexeme | None, Node, _Pair | None]] = []
    heappush(queue, (False, 0, next(numbers), 0, None, EPSILON, None))
    while queue:
        is_far, _, _, depth, lexeme, stack, above = heappop(queue)
        spend()
        pairs = [(start, gap)]
        if is_far:
            assert above is not None, "a state that has been visited"
            pairs = [above]
        elif lexeme is not None:
            pairs = [
                (state if stack is EPSILON else state.below(stack), lexeme.gap)
                for state in lexeme.states
                if state is not EMPTY
            ]
        for state, below in pairs:
            pair = state, below & state.lexer.first_bytes
            if not is_far:
                if pair in reached_from:
                    continue
                reached_from[pair] = above
            known = below if state.is_complete else state.exits.get(pair[1])
            if known is not None and known >= 0:
                while (before := reached_from[pair]) is not None:
                    before[0].following = pair[0]
                    pair = before
                    pair[0].exits[pair[1]] = known
                return known
            if len(reached_from) > LIMITS.emptiness_states:
                return UNKNOWN_EXIT
            if known is not None:
                continue
            # The ends that are found meanwhile are no part of the lexemes that end soon.
            near = not is_far and not state.has_all_ends(pair[1])
            found, rest = state.next_lexemes(pair[1], near=near)
            for each in found:
                cost = depth + 1 + 2 * (each.least + rest.min_length)
                heappush(queue, (False, cost, next(numbers), depth + 1, each, rest, pair))
            if near:
                heappush(queue, (True, depth, next(numbers), depth, None, EPSILON, pair))
    # All states that can be reached have been.
    for state, gap in reached_from:
        state.exits[gap] = NO_EXIT
    return NO_EXIT


_Pair: TypeAlias = tuple[LexedState, int]
"""A state, and the bytes that cannot be next."""
