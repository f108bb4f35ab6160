"""Nodes that stand for rules."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EMPTY, EPSILON, Node, Transitions, intern_node
from state_machines.grammar.nodes import branch

__all__ = ["RuleBook", "RuleNode", "some"]


class RuleBook:
    """What the nodes of one grammar's rules stand for, by their keys.

    ``fill`` puts it into the book; it is called anew where it was forgotten.
    """

    __slots__ = ("_expansions", "_fill")

    def __init__(self, fill: Callable[[RuleBook], object]) -> None:
        self._fill = fill
        self._expansions: dict[Hashable, Node] = {}

    def put(self, key: Hashable, node: Node) -> None:
        """Say what a key stands for."""
        self._expansions[key] = node

    def known(self, key: Hashable) -> Node:
        """Return what a key stands for; :data:`EMPTY` if nothing was said."""
        return self._expansions.get(key, EMPTY)

    def expansion(self, key: Hashable) -> Node:
        """Return what the node of a key stands for."""
        known = self._expansions.get(key)
        if known is None:
            # Forgotten by a machine that is gone, though a node is still about.
            self._fill(self)
            known = self._expansions[key]
        return known

    def forget(self) -> list[Node]:
        """Forget all, and return it: the nodes and the book hold on to one another.

        The machine calls this once, in its finalizer. A later :meth:`expansion` fills the book
        again.
        """
        found, self._expansions = self._expansions, {}
        return list(found.values())

    def node(
        self, key: Hashable, *, nullable: bool, min_length: int, closed: bool = False
    ) -> RuleNode:
        """Return the node of a key; what it stands for may be said later.

        ``closed``: it is nullable, and two of its words joined are one.
        """
        return intern_node(
            ("RuleNode", id(self), key), lambda: RuleNode(self, key, nullable, min_length, closed)
        )


class RuleNode(Lazy):
    """A rule of a grammar, or another part of one that leads back to itself."""

    __slots__ = ("_book", "_name", "is_closed")

    def __init__(
        self, book: RuleBook, name: Hashable, nullable: bool, min_length: int, closed: bool
    ) -> None:
        super().__init__(nullable=nullable, min_length=min_length)
        self.is_closed = closed
        self._book = book
        self._name = name

    def expand(self) -> Node:
        return self._book.expansion(self._name)

    def compute_derivative(self, byte: int) -> Node:
        # By its row, which is kept: rules that begin with others may be thousands deep.
        bit = 1 << byte
        for members, target in self.transitions:
            if members & bit:
                return target
        return EMPTY

    def compute_first_bytes(self) -> int:
        first = 0
        for members, _ in self.transitions:
            first |= members
        return first


class _Some(Lazy):
    """The words of ``whole`` but the empty one."""

    __slots__ = ("whole",)

    def __init__(self, whole: Node) -> None:
        super().__init__(min_length=max(1, whole.min_length))
        self.whole = whole

    def expand(self) -> Node:
        return branch(self.whole.transitions)

    def compute_transitions(self) -> Transitions:
        return self.whole.transitions

    def release(self) -> Iterable[Node]:
        return (*super().release(), self.whole)


def some(node: Node) -> Node:
    """Return the words of a node but the empty one."""
    if not node.nullable:
        return node
    if node is EPSILON:
        return EMPTY
    return intern_node(("Some", id(node)), lambda: _Some(node))
