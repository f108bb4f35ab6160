"""The tokens of a state of a grammar over lexemes, shared by states with equal tops of the stack.

The parser's state is a stack. Up to a symbol on it that is required, the tokens that a state allows
do not depend on the stack below. So they are collected once for the top of the stack, together with
the vertices at which tokens continue below it. XGrammar divides tokens in the same way (Dong et
al., "XGrammar: Flexible and Efficient Structured Generation Engine for Large Language Models",
MLSys 2025, section 3.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from state_machines.budgets import spend
from state_machines.grammar.lexing import Lexed
from state_machines.grammar.liveness import (
    NO_EXIT,
    exit_behind,
    exit_of,
    exit_within,
    is_live_behind,
)
from state_machines.grammar.node import Node
from state_machines.masks.lexer_walks import Group, LexerWalk, LexerWalks
from state_machines.masks.token_sets import TokenSet, few_tokens


class _Summary:
    """The tokens of a walk for the top of a stack, and where they continue below it.

    Attributes:
        walks: The walks whose tokens are allowed.
        exits: Groups of vertices after a lexeme that may complete the top of the stack, each with
            the state that remains of it.
        gaps: The exits from the top of the stack behind these tokens: where a text follows below
            after each of them, all tokens are allowed. ``None`` if there is none behind some token.
    """

    def __init__(self, walk: LexerWalk) -> None:
        self.walks = {walk}
        self.exits: list[tuple[Group, Lexed]] = []
        self.gaps: set[int] | None = set()

    @cached_property
    def tokens(self) -> list[TokenSet]:
        """The tokens of all walks."""
        sets = [walk.tokens for walk in self.walks]
        few = [tokens.few for tokens in sets if tokens.few is not None]
        many = [tokens for tokens in sets if tokens.few is None]
        return [*many, few_tokens(few)] if few else many

    def add_gap(self, gap: int) -> None:
        """Add an exit, or mark that there is none."""
        if gap < 0:
            self.gaps = None
        elif self.gaps is not None:
            self.gaps.add(gap)


def allowed_tokens(walks: LexerWalks, state: Lexed) -> list[TokenSet] | None:
    """Return the tokens that a state allows; ``None`` if not all of its walks have a text.

    Args:
        walks: The walks of the vocabulary's trie.
        state: The state of a grammar without nested terminals.
    """
    found: list[TokenSet] = []
    pending = list(walks.roots(state))
    seen = set(pending)
    while pending:
        walk, before = pending.pop()
        top, stack = before.segment
        summary = _summary(walks, walk, top)
        if summary.gaps is None or not is_live_behind(before, summary.gaps):
            return None
        found += summary.tokens
        for group, rest in summary.exits:
            for pair in walks.branches(group, rest.below(stack)):
                if pair not in seen:
                    seen.add(pair)
                    pending.append(pair)
    return found


def _summary(walks: LexerWalks, walk: LexerWalk, top: Lexed) -> _Summary:
    known = top.summaries.get(walk)
    if known is None:
        spend()
        known = _Summary(walk)
        for ends, lexers in walk.lexers.items():
            gap = exit_behind(top, ends)
            for each in [gap] if gap >= 0 else [exit_within(top, lexer) for lexer in lexers]:
                known.add_gap(each)
        after = ((group, each) for group in walk.groups for each in top.after(group.complete))
        _extend(walks, known, after)
        top.summaries[walk] = known
    found: _Summary = known
    return found


def _extend(walks: LexerWalks, summary: _Summary, after: Iterable[tuple[Group, Node]]) -> None:
    """Add what follows groups of vertices in the states there.

    Vertices are behind those of the group, so the recursion ends.
    """
    pending = list(after)
    seen: set[tuple[LexerWalk, Lexed]] = set()
    while pending:
        group, state = pending.pop()
        assert isinstance(state, Lexed)
        if state.parser.nullable:
            summary.exits.append((group, state))
            continue
        for pair in walks.branches(group, state):
            if pair in seen:
                continue
            seen.add(pair)
            spend()
            top, stack = state.segment
            inner = _summary(walks, pair[0], top)
            summary.walks |= inner.walks
            below = state.top[1]
            for gap in (NO_EXIT,) if inner.gaps is None else inner.gaps:
                summary.add_gap(gap if below is None or gap < 0 else exit_of(below, gap))
            pending += ((each, rest.below(stack)) for each, rest in inner.exits)
