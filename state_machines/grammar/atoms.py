"""Nodes without parts: symbol sets, byte strings, and nodes with given transitions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from state_machines.caches import LruCache
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
from state_machines.limits import LIMITS

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


def literal(text: bytes) -> Node:
    """Return the language of one byte string of at most :data:`MAX_LITERAL` bytes."""
    if len(text) > 1:
        return intern_node(text.decode("latin-1"), lambda: Literal(text))
    return branch(((1 << text[0], EPSILON),)) if text else EPSILON
