"""A language without a few excluded words.

Names of further members are an example: any string but ``"id"`` and ``"name"``. An intersection
with complements denotes the same language, but its transitions are refinements of all members'
transitions. An exclusion takes derivatives by single bytes: after ``"x``, no excluded word can
follow, and the derivative is the body alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from state_machines.budgets import Verdict, spend
from state_machines.grammar.lazy import WordTransitions
from state_machines.grammar.node import EMPTY, Node, Transitions, collect_transitions, intern_node
from state_machines.grammar.nodes import Concatenation, concatenation
from state_machines.grammar.symbols import bytes_in
from state_machines.limits import LIMITS


class Exclusion(Node):
    """The words of ``body`` that are in none of the ``excluded`` languages; over bytes.

    The excluded languages should be finite: the emptiness search visits all of their states.
    """

    __slots__ = ("_empty", "_next", "body", "excluded")

    def __init__(self, body: Node, excluded: tuple[Node, ...]) -> None:
        super().__init__(
            nullable=body.nullable and not any(node.nullable for node in excluded),
            min_length=body.min_length,
            max_length=body.max_length,
            boolean=True,
        )
        self.body = body
        self.excluded = excluded
        self.shared_derivatives = body.shared_derivatives
        self._empty: bool | None = False if self.nullable else None
        self._next: Exclusion | None = None
        """The next state of a word that was found; it is held, so that it is searched once."""

    @property
    def is_empty(self) -> bool:
        if self._empty is None:
            # Where it is not known, the mask is not known either: dropping the state could leave
            # no token, and keeping it could lead to a dead end.
            self._empty = not _find_word(self).decided(
                "whether a value is left that has not come before", LIMITS.emptiness_states
            )
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
        following, self._next = self._next, None
        return (*super().release(), self.body, *self.excluded, *([following] if following else ()))


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


def _find_word(start: Exclusion) -> Verdict:
    """Whether the language has a word; the states on the path to it store the answer.

    Depth first along the excluded words, up to a state whose body has a byte that begins none of
    them.
    """
    seen = {start}
    path = [(start, _targets(start))]
    while path:
        target = next(path[-1][1], None)
        if target is None:
            path.pop()
        elif isinstance(target, Exclusion) and target._empty is None:
            if target in seen:
                continue
            if len(seen) >= LIMITS.emptiness_states:
                return Verdict.UNKNOWN
            seen.add(target)
            path.append((target, _targets(target)))
        elif target is not EMPTY and not (target.boolean and target.is_empty):
            following = target if isinstance(target, Exclusion) else None
            for node, _ in reversed(path):
                node._empty, node._next = False, following
                following = node
            return Verdict.YES
    for node in seen:
        node._empty = True
    return Verdict.NO


def _targets(node: Exclusion) -> Iterator[Node]:
    """Yield states that may be empty; the node has a word exactly if any state has a word."""
    spend()
    shared = node.shared_bytes
    first = node.body.first_bytes
    if first & ~shared:
        yield node.raw_derivative(bytes_in(first & ~shared)[0])
        return
    permuted = _common_derivative(node)
    if permuted is not None:
        yield permuted
        return
    for byte in reversed(bytes_in(first)):
        yield node.raw_derivative(byte)


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
