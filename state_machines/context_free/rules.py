"""The nodes of recursive rules, and the book of their expansions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EMPTY, EPSILON, Node, Transitions, intern_node
from state_machines.grammar.nodes import branch


class RuleBook:
    """The expansions of one grammar's recursive rules, by key.

    Args:
        define_all: Defines all expansions. Called again if one is needed after :meth:`clear`.
    """

    __slots__ = ("_define_all", "_expansions")

    def __init__(self, define_all: Callable[[RuleBook], object]) -> None:
        self._define_all = define_all
        self._expansions: dict[Hashable, Node] = {}

    def define(self, key: Hashable, node: Node) -> None:
        """Define the expansion of a key."""
        self._expansions[key] = node

    def known(self, key: Hashable) -> Node:
        """Return the expansion of a key; :data:`EMPTY` if it is not defined."""
        return self._expansions.get(key, EMPTY)

    def expansion(self, key: Hashable) -> Node:
        """Return the expansion of a key; define all of them again if they were cleared."""
        known = self._expansions.get(key)
        if known is None:
            self._define_all(self)
            known = self._expansions[key]
        return known

    def clear(self) -> list[Node]:
        """Remove all expansions and return them.

        Nodes and book refer to one another, so the machine calls this in its finalizer. A node that
        outlives the machine defines the expansions again when it needs one.
        """
        found, self._expansions = self._expansions, {}
        return list(found.values())

    def node(
        self, key: Hashable, *, nullable: bool, min_length: int, closed: bool = False
    ) -> RuleNode:
        """Return the node of a key, whose expansion may be defined later.

        Args:
            key: The key of the expansion.
            nullable: Whether the language has the empty word.
            min_length: A lower bound on the length of its words, in bytes.
            closed: Whether the language is nullable and closed under concatenation.
        """
        return intern_node(
            ("RuleNode", id(self), key), lambda: RuleNode(self, key, nullable, min_length, closed)
        )


class RuleNode(Lazy):
    """A rule of a grammar, or a remainder of a left-recursive one."""

    __slots__ = ("_book", "_rule", "is_closed")

    def __init__(
        self, book: RuleBook, key: Hashable, nullable: bool, min_length: int, closed: bool
    ) -> None:
        super().__init__(nullable=nullable, min_length=min_length)
        self.is_closed = closed
        self._book = book
        self._rule = key

    def expand(self) -> Node:
        return self._book.expansion(self._rule)

    def compute_derivative(self, byte: int) -> Node:
        # From the memoized transitions: a chain of left corners may be thousands of rules long.
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


class _NonEmpty(Lazy):
    """The words of ``whole`` without the empty one."""

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


def nonempty(node: Node) -> Node:
    """Return the words of a node without the empty one."""
    if not node.nullable:
        return node
    if node is EPSILON:
        return EMPTY
    return intern_node(("NonEmpty", id(node)), lambda: _NonEmpty(node))
