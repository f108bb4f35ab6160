"""Whether a text can follow a state of a grammar over lexemes with longest match.

A lexeme ends before a byte that does not continue it. So a state before a lexeme comes with a
*gap*, the set of the bytes that cannot be next. Behind a lexeme of ``/[a-z]+/`` these are the small
letters, so ``"if"`` cannot follow directly, and ``"("`` can. The parser's state is a stack. A text
that empties it leaves a gap to the state below, the *exit*. The exit of the top of a stack does not
depend on the states below, so it is found once for all states with this top.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from state_machines.budgets import Verdict, spend
from state_machines.grammar.lexer import LexemeEnd, LexerState, terminals_in
from state_machines.grammar.node import EPSILON, Node
from state_machines.limits import LIMITS

if TYPE_CHECKING:
    from state_machines.grammar.lexing import Lexed

NO_EXIT = -1
"""No text empties the stack."""

UNKNOWN_EXIT = -2
"""The search for a text gave up."""

EVERY_BYTE = (1 << 256) - 1
"""An exit behind which only the empty text is sure to follow."""


@dataclass(slots=True, eq=False)
class Exits:
    """Known properties of the texts from a state before a lexeme.

    Attributes:
        by_gap: An exit by gap, as far as it is known, or :data:`NO_EXIT`.
        following: The next state of a text that was found; it is held, so that the text is searched
            once and not after each of its lexemes.
        behind: An exit behind one of several ends of the lexeme.
        good: Ends of the lexeme that have an exit behind them, and the exit.
        lexemes: The lexemes that may be next, by gap and whether near ends are enough.
    """

    by_gap: dict[int, int] = field(default_factory=dict)
    following: Lexed | None = None
    behind: dict[frozenset[LexemeEnd], int] = field(default_factory=dict)
    good: tuple[tuple[LexemeEnd, int], ...] = ()
    lexemes: dict[tuple[int, bool], tuple[_NextLexeme, ...]] = field(default_factory=dict)

    @property
    def states(self) -> Iterator[Lexed]:
        """The states that are held."""
        if self.following is not None:
            yield self.following
        yield from (lexeme.state for found in self.lexemes.values() for lexeme in found)


class _NextLexeme(NamedTuple):
    """A lexeme that may be next, or a text of a nested terminal.

    Attributes:
        least: A lower bound on the number of terminals behind it.
        state: The state before the lexeme; that behind the text of a nested terminal.
        complete: The terminals that match the lexeme; 0 for a nested terminal.
        gap: The bytes that would continue the lexeme.
    """

    least: int
    state: Lexed
    complete: int
    gap: int

    @property
    def states(self) -> tuple[Lexed, ...]:
        """The states behind it."""
        return self.state.after(self.complete) if self.complete else (self.state,)


def decided(exit_gap: int) -> bool:
    """Return whether an exit is one.

    Raises:
        GrammarBudgetError: The search gave up.
    """
    # Not known at compilation: the grammar is refused. Not known in a mask: the completion plan
    # continues, since dropping the state could leave no token, and keeping it be a dead end.
    verdict = Verdict.UNKNOWN if exit_gap == UNKNOWN_EXIT else Verdict.of(exit_gap >= 0)
    return verdict.decided("whether a text can follow by longest match", LIMITS.emptiness_states)


def is_live_within(state: Lexed, lexer: Node) -> bool:
    """Whether a word is found within the lexeme, from another state of the lexer."""
    return decided(exit_within(state, lexer))


def exit_within(state: Lexed, lexer: Node) -> int:
    """Return the exit within the lexeme, from another state of the lexer.

    It depends on the ends of the lexeme alone, which many states of the lexer share.
    """
    assert isinstance(lexer, LexerState)
    near = lexer.near_ends
    # A search may find the other ends, so this is asked for before.
    is_complete = lexer.has_all_ends
    found = exit_behind(state, near)
    return found if found >= 0 or is_complete else exit_behind(state, lexer.ends)


def exit_behind(state: Lexed, ends: frozenset[LexemeEnd]) -> int:
    """Return the exit behind any of several ends of the lexeme."""
    exits = state.exits
    # Most lexemes have one of the first ends that were found.
    for end, found in exits.good:
        if end in ends:
            return found
    known = exits.behind.get(ends)
    if known is None:
        known = NO_EXIT
        for end in ends:
            found = _exit_behind_end(state, *end)
            if found >= 0:
                exits.good += ((end, found),)
                return found
            known = min(known, found)
        exits.behind[ends] = known
    return known


def _exit_behind_end(state: Lexed, complete: int, gap: int) -> int:
    top, stack = state.segment
    if stack is not EPSILON:
        below = state.top[1]
        assert below is not None, "there is a stack"
        found = exit_behind(top, frozenset(((complete, gap),)))
        found = exit_of(below, found) if found >= 0 else found
        if found >= 0:
            return found
    return any_exit(
        exit_of(after if stack is EPSILON else after.below(stack), gap)
        for after in top.after(complete)
    )


def _next_lexemes(state: Lexed, gap: int, *, near: bool) -> tuple[Sequence[_NextLexeme], Node]:
    """Return the lexemes and the texts of nested terminals that may be next, before a lexeme.

    Their parsers lack a stack, which is returned as well: states with equal first parts share them.

    Args:
        state: The state.
        gap: The bytes that cannot follow here.
        near: Whether lexemes that end soon are enough.
    """
    top, stack = state.segment
    found = top.exits.lexemes.get((gap, near))
    if found is None:
        ends: set[LexemeEnd] = set()
        for lexer in _begun_lexers(top, gap):
            ends |= lexer.near_ends if near else lexer.ends
        nested = (behind for each, behind in top.nested if each.first_bytes & ~gap)
        found = top.exits.lexemes[gap, near] = (
            *_lexemes(top, ends),
            *(_NextLexeme(behind.parser.min_length, behind, 0, 0) for behind in nested),
        )
    return found, stack


def _lexemes(state: Lexed, ends: Iterable[LexemeEnd]) -> Iterator[_NextLexeme]:
    least = {
        number: target.min_length
        for terminals, target in state.parser.transitions
        for number in terminals_in(terminals)
    }
    shortest = state.parser.min_length
    for complete, gap in ends:
        lengths = (least.get(number, shortest) for number in terminals_in(complete))
        yield _NextLexeme(min(lengths), state, complete, gap)


def _begun_lexers(state: Lexed, gap: int) -> Iterator[LexerState]:
    """Yield the lexer's states after the first byte of a lexeme, which is not of the gap."""
    for members, lexer in state.lexer.transitions:
        if members & ~gap:
            assert isinstance(lexer, LexerState)
            yield lexer


def any_exit(exits: Iterable[int]) -> int:
    """Return the first exit that is one; otherwise whether there is none."""
    found = NO_EXIT
    for each in exits:
        if each >= 0:
            return each
        found = min(found, each)
    return found


def _exit_at(state: Lexed, gap: int) -> int:
    """Return the exit to the state below, where the stack may be empty.

    The parser may still read another lexeme. It competes with those of the state below,
    unless the next one begins with another byte. If ignored lexemes may stand in front of that one,
    no byte is excluded from this.
    """
    if not state.parser.first_bytes:
        return gap
    return EVERY_BYTE if state.lexicon.ignored else gap | state.lexer.first_bytes


def exit_of(start: Lexed, gap: int) -> int:
    """Return the exit of texts that empty the stack of a state, composed from its parts' exits.

    Args:
        start: The state before a lexeme.
        gap: The bytes that cannot be next.
    """
    visited: list[_Pair] = []
    state, found = start, gap
    while not state.is_complete:
        # Only bytes that could begin the lexeme matter.
        gap = found & state.lexer.first_bytes
        known = state.exits.by_gap.get(gap)
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
    else:
        found = _exit_at(state, found)
    while visited and found < 0:
        # The top may have another exit, behind which the rest has a text.
        found = _searched(*visited.pop())
    for state, gap in visited:
        state.exits.by_gap[gap] = found
    return found


def _searched(start: Lexed, gap: int) -> int:
    """Search for a text that empties the stack of a state, by weighted A*.

    Lexemes that end soon are tried first. All others are tried only if no text is found with these.
    The search gives up after ``LIMITS.emptiness_states`` states.
    """
    reached_from: dict[_Pair, _Pair | None] = {}
    numbers = count()
    # Entries are ordered by the first two members and their numbers. States are made when they are
    # visited, since most of them never are.
    queue: list[tuple[bool, int, int, int, _NextLexeme | None, Node, _Pair | None]] = []
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
            ]
        for state, below in pairs:
            pair = state, below & state.lexer.first_bytes
            if not is_far:
                if pair in reached_from:
                    continue
                reached_from[pair] = above
            known = _exit_at(state, below) if state.is_complete else state.exits.by_gap.get(pair[1])
            if known is not None and known >= 0:
                while (before := reached_from[pair]) is not None:
                    before[0].exits.following = pair[0]
                    pair = before
                    pair[0].exits.by_gap[pair[1]] = known
                return known
            if len(reached_from) > LIMITS.emptiness_states:
                return UNKNOWN_EXIT
            if known is not None:
                continue
            # The ends that are found meanwhile are no part of the lexemes that end soon.
            begun = _begun_lexers(state, pair[1])
            near = not is_far and not all(lexer.has_all_ends for lexer in begun)
            found, rest = _next_lexemes(state, pair[1], near=near)
            for each in found:
                cost = depth + 1 + 2 * (each.least + rest.min_length)
                heappush(queue, (False, cost, next(numbers), depth + 1, each, rest, pair))
            if near:
                heappush(queue, (True, depth, next(numbers), depth, None, EPSILON, pair))
    # All states that can be reached have been.
    for state, gap in reached_from:
        state.exits.by_gap[gap] = NO_EXIT
    return NO_EXIT


_Pair: TypeAlias = "tuple[Lexed, int]"
"""A state, and the bytes that cannot be next."""
