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

from collections.abc import Hashable
from typing import cast

from state_machines.grammar import atoms
from state_machines.grammar.atoms import MAX_LITERAL, Branch, Literal, SymbolNode, branch, symbols
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
    Transitions,
    collect_transitions,
    intern_node,
)
from state_machines.grammar.symbols import is_whole_alphabet

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


def literal(text: bytes) -> Node:
    """Return the language of exactly one byte string."""
    if len(text) <= MAX_LITERAL:
        return atoms.literal(text)
    node = EPSILON
    last = (len(text) - 1) // MAX_LITERAL * MAX_LITERAL
    for start in range(last, -1, -MAX_LITERAL):
        node = concatenation(atoms.literal(text[start : start + MAX_LITERAL]), node)
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
