"""A language without a few excluded words.

An intersection with complements denotes the same language, but its transitions are refinements of
all members' transitions. An exclusion takes derivatives by one byte: the few excluded words soon
differ from any other word, and then the derivative is the body alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from state_machines.budgets import spend
from state_machines.grammar.lazy import WordTransitions
from state_machines.grammar.node import EMPTY, Node, Transitions, collect_transitions, intern_node
from state_machines.grammar.nodes import Concatenation, concatenation
from state_machines.grammar.symbols import bytes_in
from state_machines.limits import LIMITS


class Exclusion(Node):
    """The words of ``body`` that are in none of the ``excluded`` languages; over bytes.

    The excluded languages should be finite: the emptiness search visits all of their states.
    """

    __slots__ = ("_empty", "body", "excluded")

    def __init__(self, body: Node, excluded: tuple[Node, ...]) -> None:
        super().__init__(
            nullable=body.nullable and not any(node.nullable for node in excluded),
            min_length=body.min_length,
            max_length=body.max_length,
            boolean=True,
        )
        self.body = body
        self.excluded = excluded
        self.transient = body.transient
        self._empty: bool | None = False if self.nullable else None

    @property
    def is_empty(self) -> bool:
        if self._empty is None:
            self._empty = not _find_word(self)
        return self._empty

    @property
    def shared_bytes(self) -> int:
        """The bytes that excluded words begin with."""
        shared = 0
        for node in self.excluded:
            shared |= node.first_bytes
        return shared

    def raw_derivative(self, byte: int) -> Node:
        """Return the derivative by a byte; its language may be empty."""
        bit = 1 << byte
        if not self.body.first_bytes & bit:
            return EMPTY
        excluded = (n.derivative(byte) for n in self.excluded if n.first_bytes & bit)
        return exclusion(self.body.derivative(byte), excluded)

    def compute_derivative(self, byte: int) -> Node:
        target = self.raw_derivative(byte)
        return EMPTY if target.boolean and target.is_empty else target

    def compute_first_bytes(self) -> int:
        first = self.body.first_bytes
        for byte in bytes_in(first & self.shared_bytes):
            if self.derivative(byte) is EMPTY:
                first ^= 1 << byte
        return first

    def compute_transitions(self) -> Transitions:
        shared = self.shared_bytes
        pairs = []
        for symbols, target in self.body.transitions:
            if symbols & ~shared:
                pairs.append((symbols & ~shared, target))
            pairs.extend((1 << byte, self.derivative(byte)) for byte in bytes_in(symbols & shared))
        return collect_transitions(pairs)

    def release(self) -> Iterable[Node]:
        return (*super().release(), self.body, *self.excluded)


def exclusion(body: Node, excluded: Iterable[Node]) -> Node:
    """Return the words of a byte language that are in none of the excluded languages."""
    left = dict.fromkeys(node for node in excluded if node is not EMPTY)
    if isinstance(body, Exclusion):
        left.update(dict.fromkeys(body.excluded))
        body = body.body
    if body is EMPTY or body in left:
        return EMPTY
    if not left:
        return body
    spend(1 + len(left) // 8)
    found = tuple(left)
    key = ("Exclusion", id(body), *sorted(map(id, found)))
    return intern_node(key, lambda: Exclusion(body, found))


def _find_word(start: Exclusion) -> bool:
    """Whether the language has a word; the states on the path to it store the answer.

    Depth first along the excluded words, up to a state whose body has a byte that begins none of
    them.
    """
    came_from: dict[Exclusion, Exclusion | None] = {start: None}
    stack = [start]
    while stack:
        node = stack.pop()
        spend()
        targets = _targets(node)
        if targets is None:
            state: Exclusion | None = node
            while state is not None:
                state._empty = False
                state = came_from[state]
            return True
        if len(came_from) > LIMITS.exclusion_states:
            return False
        for target in targets:
            if target not in came_from:
                came_from[target] = node
                stack.append(target)
    for node in came_from:
        node._empty = True
    return False


def _targets(node: Exclusion) -> list[Exclusion] | None:
    """Return states; the node has a word exactly if one of them has. ``None``: it has a word."""
    if node._empty is False:
        return None
    if node._empty:
        return []
    shared = node.shared_bytes
    first = node.body.first_bytes
    if first & ~shared:
        return None
    permuted = _common_derivative(node)
    found = []
    targets = map(node.raw_derivative, bytes_in(first)) if permuted is None else [permuted]
    for target in targets:
        if isinstance(target, Exclusion):
            found.append(target)
        elif target is not EMPTY and not (target.boolean and target.is_empty):
            return None
    return found


def _common_derivative(node: Exclusion) -> Node | None:
    """Return the derivative by a part that a permutation of every word begins with.

    All orders of a word are excluded together, so the node has a word exactly if this derivative
    has one.
    """
    tail: Node | None = None
    first = node.body
    if isinstance(first, Concatenation):
        tail = first.tail
        first = first.head
    if not isinstance(first, WordTransitions):
        return None
    transition = first.common_transition()
    if transition is None:
        return None
    text, target = transition
    if tail is not None:
        target = concatenation(target, tail)
    return exclusion(target, (excluded.compute_word_derivative(text) for excluded in node.excluded))
