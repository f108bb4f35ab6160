"""The tokens of a state of a grammar over lexemes, shared by states with equal tops of the stack.

The parser's state is a stack. Up to a symbol on it that is required, the tokens that a state allows
do not depend on the stack below. So they are collected once for the top of the stack, together with
the vertices at which tokens continue below it. XGrammar divides tokens in the same way (Dong et
al., "XGrammar: Flexible and Efficient Structured Generation Engine for Large Language Models",
MLSys 2025, section 3.1).
"""

from __future__ import annotations

from collections.abc import Iterator

from state_machines.budgets import spend
from state_machines.grammar.lexing import Lexed
from state_machines.masks.lexer_walks import Group, LexerWalk, LexerWalks
from state_machines.masks.token_sets import TokenSet, few_tokens


class _Summary:
    """The tokens of a state, and the vertices where they continue below the top of the stack.

    Attributes:
        tokens: The tokens.
        exits: Groups of vertices after a lexeme that may complete the top of the stack, each with
            the state that remains of it.
    """

    __slots__ = ("exits", "tokens")

    def __init__(self, walks: list[LexerWalk], exits: list[tuple[Group, Lexed]]) -> None:
        self.tokens = [walk.tokens for walk in walks if walk.tokens.few is None]
        few = [walk.tokens.few for walk in walks if walk.tokens.few is not None]
        if few:
            self.tokens.append(few_tokens(few))
        self.exits = exits


def allowed_tokens(walks: LexerWalks, state: Lexed) -> Iterator[TokenSet]:
    """Yield the tokens that a state allows, where all pairs of its states have a word.

    Args:
        walks: The walks of the vocabulary's trie.
        state: The state of a grammar without nested terminals.
    """
    pending = list(walks.roots(state))
    seen = set(pending)
    while pending:
        walk, before = pending.pop()
        top, stack = before.segment
        summary = top.summaries.get(walk)
        if summary is None:
            summary = top.summaries[walk] = _summary(walks, walk, top)
        spend()
        yield from summary.tokens
        for group, rest in summary.exits:
            for pair in walks.branches(group, rest.below(stack)):
                if pair not in seen:
                    seen.add(pair)
                    pending.append(pair)


def _summary(walks: LexerWalks, walk: LexerWalk, top: Lexed) -> _Summary:
    pending = [(walk, top)]
    seen = set(pending)
    found: dict[LexerWalk, None] = {}
    exits: list[tuple[Group, Lexed]] = []
    while pending:
        walk, before = pending.pop()
        spend()
        found[walk] = None
        for group in walk.groups:
            for after in before.after(group.complete):
                assert isinstance(after, Lexed)
                if after.parser.nullable:
                    exits.append((group, after))
                    continue
                for pair in walks.branches(group, after):
                    if pair not in seen:
                        seen.add(pair)
                        pending.append(pair)
    return _Summary(list(found), exits)
