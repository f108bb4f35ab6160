"""The options ``max_tokens`` and ``temperature`` of rules, as properties of states.

How many tokens a text takes depends on how it was generated, so a state counts them. Of
``/[a-z]+/`` in at most 2 tokens, the state after the bytes ``ab`` is ``/[a-z]*/`` in at most 2
tokens, the present one included. At the end of the token, :func:`count_token` makes it
``/[a-z]*/`` in at most 1. A token that begins before the text, or ends after it, counts as well.
Where the limit is reached, the text must be complete. A token is allowed only if the rest of the
text can be written in the tokens that are left, which depends on the vocabulary.

A terminal has the temperature of its rule. A state keeps no derivation, but its nodes are those of
the terminals that may continue. The temperature is known where all of them have the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass

from state_machines.budgets import Verdict, spend
from state_machines.grammar.composition import Concatenation, Union, concatenation, union
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.lexer import LexerState, lexer_state
from state_machines.grammar.lexing import Lexed
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

    @property
    def language(self) -> Node:
        """The texts that are written in at most ``max_tokens`` tokens.

        Only a machine that has the rule among its ``limited_rules`` enforces the limit. The node
        may stand in concatenations, unions, repetitions, rules and lexers, but not inside of
        intersections and complements. With ``max_tokens=0``, only the empty text is left.
        """
        if not self.max_tokens:
            return EPSILON if self.body.nullable else EMPTY
        return _limited(self.body, self.max_tokens, in_token=False)


Fits = Callable[[Node, int], Verdict]
"""Whether some word of a language is written by at most as many tokens."""


class TokenLimited(Node):
    """The texts of ``body`` that are written in at most ``max_tokens`` more tokens.

    Attributes:
        body: The language.
        max_tokens: Number of tokens, the present one included; at least 1.
        in_token: Whether the present token has written bytes of the text.
    """

    __slots__ = ("body", "in_token", "max_tokens")

    def __init__(self, body: Node, max_tokens: int, in_token: bool) -> None:
        super().__init__(
            nullable=body.nullable,
            min_length=body.min_length,
            max_length=body.max_length,
            boolean=body.boolean,
        )
        self.body = body
        self.max_tokens = max_tokens
        self.in_token = in_token
        self.shared_derivatives = body.shared_derivatives

    @property
    def is_empty(self) -> bool:
        return self.body.is_empty

    @property
    def merge_key(self) -> Hashable | None:
        return (TokenLimited, id(self.body), self.in_token)

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
        return _limited(target, self.max_tokens, in_token=True)

    def release(self) -> Iterable[Node]:
        return (*super().release(), self.body)


def count_token(state: Node, fits: Fits) -> Node:
    """Return a state at the end of a token; :data:`EMPTY` if a limit refuses the token.

    Args:
        state: The derivative by the bytes of the token. All limited texts that are being written
            are at its front: in the head of a concatenation, in members of a union, and in the
            state of a lexer.
        fits: Whether some word of a language is written by at most as many tokens.
    """
    match state:
        case TokenLimited(body=body, in_token=True):
            left = state.max_tokens - 1
            if not left:
                return EPSILON if body.nullable else EMPTY
            # If it is not known, the token is refused. That leaves no dead end: the state before
            # was found to fit by some tokens, and so it is known that the state after the first
            # one fits.
            if not body.nullable and fits(body, left) is not Verdict.YES:
                return EMPTY
            return _limited(body, left, in_token=False)
        case Concatenation(head=head, tail=tail):
            counted = count_token(head, fits)
            return state if counted is head else concatenation(counted, tail)
        case Union(members=members):
            return union(count_token(member, fits) for member in members)
        case LexerState(items=items, lazy=lazy):
            return lexer_state(((bit, count_token(node, fits)) for bit, node in items), lazy)
        case Lexed(lexer=lexer):
            counted = count_token(lexer, fits)
            return state if counted is lexer else state.in_lexeme(counted)
    return state


def _limited(body: Node, max_tokens: int, *, in_token: bool) -> Node:
    if body is EMPTY or body is EPSILON:
        return body
    return intern_node(
        ("TokenLimited", id(body), max_tokens, in_token),
        lambda: TokenLimited(body, max_tokens, in_token),
    )


# Temperatures


def temperature_of(state: Node) -> float | None:
    """Return the temperature of the lexeme that is being written, or that comes next.

    A lexeme that is complete and can be continued is still being written. Where one is complete and
    cannot, or is ignored, the next one counts.

    Returns:
        ``None`` if no lexeme has a temperature, or if there are several different ones.
    """
    found: set[float | None] = set()
    seen = {state}
    stack = [state]
    while stack and len(found) < 2:
        spend()
        node = stack.pop()
        behind: tuple[Node, ...] = ()
        match node:
            case Concatenation(head=head, tail=tail):
                behind = (head if head.first_bytes else tail,)
            case Union(members=members):
                behind = tuple(member for member in members if member.first_bytes)
            case Lexed():
                own = set(_temperatures(node))
                found |= own
                if node.is_start:
                    behind = tuple(language for language, _ in node.nested)
                elif not own:
                    behind = tuple(after for after in node.after_lexeme if after.first_bytes)
            case Lazy():
                behind = (node.expansion,)
            case _:
                found.add(None)
        for each in behind:
            if each not in seen:
                seen.add(each)
                stack.append(each)
    return found.pop() if len(found) == 1 else None


def same_temperature(state: Node, text: bytes) -> bool:
    """Whether all bytes of a text that begins a word of a state have one temperature."""
    first = temperature_of(state)
    for byte in text[:-1]:
        state = state.derivative(byte)
        if temperature_of(state) != first:
            return False
    return True


def _temperatures(state: Lexed) -> Iterator[float | None]:
    """Yield the temperatures of the terminals that the lexeme may be of."""
    items = state.lexer.items if isinstance(state.lexer, LexerState) else ()
    terminals = state.lexicon.terminals
    only_ignored = state.lexicon.ignored & ~state.parser.first_bytes
    for bit, residual in items:
        if residual.first_bytes and not bit & only_ignored:
            yield terminals[bit.bit_length() - 1].temperature
