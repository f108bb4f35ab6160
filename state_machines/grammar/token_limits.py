"""Languages whose texts may take a number of tokens at most.

How many tokens a text takes depends on how it was generated, so a state counts them: the derivative
by the bytes of a token is followed by :meth:`~state_machines.grammar.node.Node.after_token`, which
counts the token where it has written bytes of a limited language. A token that begins before the
text, or ends after it, counts as well.

Where the limit is reached, the text must be complete. A token is allowed only if the rest of the
text can be written in the tokens that are left, which depends on the vocabulary; ``after_token`` is
given the test, and is dead where it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from state_machines.budgets import Verdict
from state_machines.grammar.node import (
    EMPTY,
    EPSILON,
    Node,
    Transitions,
    collect_transitions,
    intern_node,
)


@dataclass(frozen=True, eq=False)
class LimitedRule:
    """A rule of a grammar whose texts take a limited number of tokens.

    Attributes:
        name: Its name in the grammar.
        position: Line and column in the grammar, from 1.
        body: Its texts, without the limit.
        max_tokens: The greatest number of tokens.
    """

    name: str
    position: tuple[int, int]
    body: Node
    max_tokens: int


Fits = Callable[[Node, int], Verdict]
"""Whether some word of a language is written by at most as many tokens."""


class TokenLimited(Node):
    """The texts of ``body`` that are written in at most ``max_tokens`` more tokens.

    Attributes:
        body: The language.
        max_tokens: Number of tokens, the present one included; at least 1.
        counts_tokens: Whether the present token has written bytes of the text.
    """

    __slots__ = ("body", "counts_tokens", "max_tokens")

    def __init__(self, body: Node, max_tokens: int, counts_tokens: bool) -> None:
        super().__init__(
            nullable=body.nullable,
            min_length=body.min_length,
            max_length=body.max_length,
            boolean=body.boolean,
        )
        self.body = body
        self.max_tokens = max_tokens
        self.counts_tokens = counts_tokens
        self.shared_derivatives = body.shared_derivatives

    @property
    def is_empty(self) -> bool:
        return self.body.is_empty

    @property
    def merge_key(self) -> Hashable | None:
        return (TokenLimited, id(self.body), self.counts_tokens)

    def subsumes(self, other: Node) -> bool:
        """Whether another limit of the same language is not higher."""
        return isinstance(other, TokenLimited) and other.max_tokens <= self.max_tokens

    def compute_transitions(self) -> Transitions:
        return collect_transitions(
            (members, self._after(target)) for members, target in self.body.transitions
        )

    def compute_first_bytes(self) -> int:
        return self.body.first_bytes

    def compute_derivative(self, byte: int) -> Node:
        return self._after(self.body.derivative(byte))

    def _after(self, target: Node) -> Node:
        return _limited(target, self.max_tokens, counts_tokens=True)

    def after_token(self, fits: Fits) -> Node:
        """Count the present token, if it has written bytes of the text."""
        if not self.counts_tokens:
            return self
        left = self.max_tokens - 1
        if not left:
            return EPSILON if self.body.nullable else EMPTY
        # If it is not known, the token is refused. That leaves no dead end: the state before was
        # found to fit by some tokens, and it is then known that the state after the first one fits.
        if not self.body.nullable and fits(self.body, left) is not Verdict.YES:
            return EMPTY
        return _limited(self.body, left, counts_tokens=False)

    def release(self) -> Iterable[Node]:
        return (*super().release(), self.body)


def token_limited(body: Node, max_tokens: int) -> Node:
    """Return the texts of a language that are written in at most ``max_tokens`` tokens.

    Only a machine with ``limits_tokens=True`` enforces the limit. It must be high enough for some
    text, or the language is dead from its first token on. The node may stand in concatenations,
    unions, repetitions and rules, but not inside of intersections and complements.

    Args:
        body: The language.
        max_tokens: The greatest number of tokens; with 0, only the empty text is left.
    """
    if not max_tokens:
        return EPSILON if body.nullable else EMPTY
    return _limited(body, max_tokens, counts_tokens=False)


def _limited(body: Node, max_tokens: int, *, counts_tokens: bool) -> Node:
    if body is EMPTY or body is EPSILON:
        return body
    return intern_node(
        ("TokenLimited", id(body), max_tokens, counts_tokens),
        lambda: TokenLimited(body, max_tokens, counts_tokens),
    )
