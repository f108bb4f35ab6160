"""The positive half of the algebra.

==========================  ===========================================
constructor                 language
==========================  ===========================================
:func:`symbols`             one symbol of a set
:func:`branch`              the node with the given transitions
:func:`literal`             one byte string
:func:`concatenation`       one after the other
:func:`union`               any of several
:func:`optional`            the node or nothing
:func:`repetition`          between m and n times, counted, not unrolled
==========================  ===========================================

Texts over code points are made by :func:`~state_machines.grammar.text_languages.word_language`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import cast

from state_machines.caches import LruCache
from state_machines.grammar.composition import (
    MEMBERS_PER_STEP,
    Concatenation,
    Union,
    concatenation,
    union,
)
from state_machines.grammar.node import (
    EMPTY,
    EPSILON,
    Node,
    SharedDerivatives,
    Symbols,
    Transitions,
    collect_transitions,
    intern_node,
)
from state_machines.grammar.symbols import is_whole_alphabet
from state_machines.limits import LIMITS

__all__ = [
    "MEMBERS_PER_STEP",
    "Branch",
    "Concatenation",
    "Literal",
    "Repetition",
    "SymbolNode",
    "Union",
    "branch",
    "concatenation",
    "literal",
    "optional",
    "repetition",
    "symbols",
    "union",
]

MAX_LITERAL = 1024
"""Greatest length of a literal node. A derivative copies the rest of the node's text."""

SHORT_LITERAL = 256
"""Bytes up to which a literal stores its derivatives."""

_SHARED_DERIVATIVES: SharedDerivatives = LruCache(LIMITS.shared_derivatives)


class SymbolNode(Node):
    """One symbol of a set."""

    __slots__ = ("symbols",)

    def __init__(self, members: Symbols) -> None:
        super().__init__(nullable=False, min_length=1, max_length=1)
        self.symbols = members

    @property
    def merge_key(self) -> Hashable | None:
        return SymbolNode

    def merge(self, group: list[Node]) -> list[Node]:
        """Unite the symbol sets."""
        members = self.symbols
        for node in group[1:]:
            members = members | node.symbols  # type: ignore[attr-defined]
        return [symbols(members)]

    def compute_transitions(self) -> Transitions:
        return ((self.symbols, EPSILON),)


def symbols(members: Symbols) -> Node:
    """Return the language of one symbol of the set; :data:`EMPTY` for the empty set."""
    if not members:
        return EMPTY
    return intern_node((SymbolNode, members), lambda: SymbolNode(members))


class Branch(Node):
    """A node with given transitions: the vertex of a trie."""

    __slots__ = ()

    def __init__(self, transitions: Transitions, nullable: bool) -> None:
        longest: int | None = 0
        for _, target in transitions:
            if target.max_length is None or longest is None:
                longest = None
            else:
                longest = max(longest, 1 + target.max_length)
        super().__init__(
            nullable=nullable,
            min_length=0 if nullable else 1 + min(target.min_length for _, target in transitions),
            max_length=longest,
            boolean=any(target.boolean for _, target in transitions),
        )
        self._transitions = transitions

    def release(self) -> Iterable[Node]:
        # A branch has no other definition than its transitions.
        return [target for _, target in self.transitions]

    def compute_derivative(self, byte: int) -> Node:
        bit = 1 << byte
        for members, target in self.transitions:
            if members & bit:
                return target
        return EMPTY


def branch(transitions: Iterable[tuple[Symbols, Node]], *, nullable: bool = False) -> Node:
    """Return the node with the given transitions; the symbol sets must be disjoint."""
    live = collect_transitions(transitions)
    if not live:
        return EPSILON if nullable else EMPTY
    return intern_node(
        ("Branch", nullable, *(part for members, target in live for part in (members, id(target)))),
        lambda: Branch(live, nullable),
    )


class Literal(Node):
    """One byte string of two to :data:`MAX_LITERAL` bytes."""

    __slots__ = ("text",)

    def __init__(self, text: bytes) -> None:
        super().__init__(nullable=False, min_length=len(text), max_length=len(text))
        self.text = text
        if len(text) > SHORT_LITERAL:
            self.shared_derivatives = _SHARED_DERIVATIVES

    @property
    def leading_text(self) -> bytes:
        return self.text

    def compute_transitions(self) -> Transitions:
        return ((1 << self.text[0], literal(self.text[1:])),)

    def compute_first_bytes(self) -> int:
        return 1 << self.text[0]

    def compute_derivative(self, byte: int) -> Node:
        return literal(self.text[1:]) if self.text[0] == byte else EMPTY

    def run_derivative(self, text: bytes, position: int) -> tuple[int, Node]:
        own = self.text
        if text.startswith(own, position):
            return position + len(own), EPSILON
        rest = text[position:]
        return len(text), literal(own[len(rest) :]) if own.startswith(rest) else EMPTY


def _short_literal(text: bytes) -> Node:
    """Return the language of one byte string of at most :data:`MAX_LITERAL` bytes."""
    if len(text) > 1:
        return intern_node(text.decode("latin-1"), lambda: Literal(text))
    return branch(((1 << text[0], EPSILON),)) if text else EPSILON


def literal(text: bytes) -> Node:
    """Return the language of exactly one byte string."""
    if len(text) <= MAX_LITERAL:
        return _short_literal(text)
    node = EPSILON
    last = (len(text) - 1) // MAX_LITERAL * MAX_LITERAL
    for start in range(last, -1, -MAX_LITERAL):
        node = concatenation(_short_literal(text[start : start + MAX_LITERAL]), node)
    return node


class Repetition(Node):
    """``body`` between ``min_count`` and ``max_count`` times (``None``: no bound)."""

    __slots__ = ("body", "is_closed", "is_universal", "max_count", "min_count", "rule_book")

    def __init__(self, body: Node, min_count: int, max_count: int | None) -> None:
        bounded = max_count is not None and body.max_length is not None
        super().__init__(
            nullable=min_count == 0,
            min_length=min_count * body.min_length,
            max_length=max_count * body.max_length if bounded else None,  # type: ignore[operator]
            boolean=body.boolean,
        )
        self.body = body
        self.rule_book = body.rule_book
        self.min_count = min_count
        self.max_count = max_count
        self.is_closed = min_count == 0 and max_count is None
        self.is_universal = (
            min_count == 0
            and max_count is None
            and isinstance(body, SymbolNode)
            and is_whole_alphabet(body.symbols)
        )

    def compute_transitions(self) -> Transitions:
        rest = self._rest()
        return collect_transitions(
            (s, concatenation(target, rest)) for s, target in self.body.transitions
        )

    def compute_derivative(self, byte: int) -> Node:
        return concatenation(self.body.derivative(byte), self._rest())

    def compute_first_bytes(self) -> int:
        return self.body.first_bytes

    @property
    def merge_key(self) -> Hashable | None:
        return (Repetition, id(self.body))

    def merge(self, group: list[Node]) -> list[Node]:
        """Unite ``body{a,b}`` and ``body{c,d}`` where the intervals touch."""
        united: list[tuple[int, int | None]] = []
        counters = ((node.min_count, node.max_count) for node in cast("list[Repetition]", group))
        for low, high in sorted(counters, key=lambda interval: interval[0]):
            if united:
                start, end = united[-1]
                if end is None or low <= end + 1:
                    top = None if end is None or high is None else max(end, high)
                    united[-1] = (start, top)
                    continue
            united.append((low, high))
        return [repetition(self.body, low, high) for low, high in united]

    def _rest(self) -> Node:
        max_count = None if self.max_count is None else self.max_count - 1
        return repetition(self.body, max(self.min_count - 1, 0), max_count)


def repetition(body: Node, min_count: int, max_count: int | None) -> Node:
    """Return the concatenations of ``min_count`` to ``max_count`` words of ``body``.

    Args:
        body: The language of one word.
        min_count: Least number of words.
        max_count: Greatest number of words; ``None`` for no bound.
    """
    if body is EMPTY or (body.boolean and body.is_empty):
        return EPSILON if min_count == 0 else EMPTY
    if max_count == 0 or body is EPSILON:
        return EPSILON
    if body.nullable:
        min_count = 0
    if isinstance(body, Repetition) and body.max_count is None and body.min_count <= 1:
        return repetition(body.body, min_count * body.min_count, None)
    if max_count == 1:
        return body if min_count == 1 else optional(body)
    return intern_node(
        ("Repetition", id(body), min_count, max_count),
        lambda: Repetition(body, min_count, max_count),
    )


def optional(body: Node) -> Node:
    """Return the language of ``body`` and the empty word."""
    return body if body.nullable else union((EPSILON, body))
