"""Nodes: the immutable, hash-consed expressions of the algebra.

A node denotes a language: a set of words over one alphabet (bytes or code points, see
:mod:`state_machines.grammar.symbols`). Matching a symbol turns it into its *derivative*, the node
of all that may still follow (Brzozowski, "Derivatives of Regular Expressions", JACM 1964; Owens,
Reppy & Turon, "Regular-expression derivatives re-examined", JFP 2009). The derivatives of a node
are given symbolically by its *transitions*: disjoint symbol sets, each with the node it leads to.

Only the constructor functions of the sibling modules build nodes. They normalise and intern them:
equal structure is one object, so equality is identity, and a result for a state is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeAlias

from state_machines.budgets import Verdict, spend
from state_machines.caches import LruCache
from state_machines.grammar.interning import add_node, intern_node, known_node
from state_machines.grammar.symbols import CodePointSet, bytes_in

_WORD_DERIVATIVES = 4096
"""Derivatives by byte strings that one node stores."""

__all__ = [
    "EMPTY",
    "EPSILON",
    "Node",
    "SharedDerivatives",
    "Symbols",
    "Transitions",
    "add_node",
    "collect_transitions",
    "intern_node",
    "known_node",
    "leading_bytes",
    "merge_transitions",
    "release",
]

Symbols: TypeAlias = Any
"""A symbol set: ``int`` over bytes, ``CodePointSet`` over code points; one kind in one tree."""

Transitions: TypeAlias = "tuple[tuple[Symbols, Node], ...]"


SharedDerivatives: TypeAlias = "LruCache[tuple[Node, bytes], Node]"
"""The last derivatives by byte strings of states that must not hold on to one another."""


class Lifetime:
    """Lives as long as a machine: caches by it drop their entries together with the machine."""

    __slots__ = ("__weakref__",)


class RuleDefinitions:
    """Definitions of recursive rules; nodes hold them, but not their lifetime."""

    __slots__ = ("lifetime",)

    def __init__(self) -> None:
        self.lifetime = Lifetime()


class Node:
    """A language, as the module describes.

    Attributes:
        nullable: Whether the empty word is in the language: whether the state accepts.
        min_length: A lower bound on the length of words, in symbols. It need not be tight.
        max_length: An upper bound on the length of words, in symbols; ``None`` for no bound.
        boolean: Whether an intersection or complement occurs inside. Then the language may be empty
            although the node is not :data:`EMPTY`.
        shared_derivatives: The cache of derivatives by byte strings, for a state that depends on
            the text before it. Such states are unbounded in number, so none stores its derivatives
            itself; ``None`` for other states.
        mask: The key of the mask that was computed last for the state.
        known_first_bytes: :attr:`first_bytes` if they have been computed.
    """

    __slots__ = (
        "__weakref__",
        "_derivatives",
        "_transitions",
        "boolean",
        "known_first_bytes",
        "mask",
        "max_length",
        "min_length",
        "nullable",
        "shared_derivatives",
    )

    is_closed = False
    """Whether the language is known to be closed under concatenation, and holds the empty word."""

    rule_book: RuleDefinitions | None = None
    """The definitions of the recursive rules that words are made of, if there are some."""

    is_universal = False
    """Whether the language is known to hold all words."""

    def __init__(
        self, nullable: bool, min_length: int, max_length: int | None, boolean: bool = False
    ) -> None:
        self.nullable = nullable
        self.min_length = min_length
        self.max_length = max_length
        self.boolean = boolean
        self.shared_derivatives: SharedDerivatives | None = None
        self._transitions: Transitions | None = None
        self.known_first_bytes: int | None = None
        self._derivatives: dict[int | bytes, Node] | None = None
        self.mask: bytes | None = None

    @property
    def merge_key(self) -> Hashable | None:
        """Members of a union with equal keys are merged; ``None`` if the node cannot be merged."""
        return None

    def merge(self, group: list[Node]) -> list[Node]:
        """Return nodes with the same union as a group of nodes that have this node's key.

        By default, the nodes of the group that no other one subsumes.
        """
        subsumed: set[Node] = set()
        for node in group:
            spend(1 + len(group) // 4)
            others = (other for other in group if other is not node and other not in subsumed)
            if any(other.subsumes(node) for other in others):
                subsumed.add(node)
        return [node for node in group if node not in subsumed]

    def subsumes(self, other: Node) -> bool:
        """Whether every word of another node with the same key is known to be in this one."""
        return self is other

    @property
    def transitions(self) -> Transitions:
        """The derivatives: disjoint symbol sets, each with the live node it leads to."""
        transitions = self._transitions
        if transitions is None:
            transitions = self.compute_transitions()
            if self.shared_derivatives is None:
                self._transitions = transitions
        return transitions

    def compute_transitions(self) -> Transitions:
        raise NotImplementedError  # pragma: no cover - abstract

    @property
    def is_empty(self) -> bool:
        """Whether the language has no word. Exact.

        Raises:
            GrammarBudgetError: The search for a word gave up.
        """
        return False

    @property
    def first_bytes(self) -> int:
        """The set of bytes that words of the language begin with (byte alphabet only)."""
        first = self.known_first_bytes
        if first is None:
            first = self.known_first_bytes = self.compute_first_bytes()
        return first

    def compute_first_bytes(self) -> int:
        first = 0
        for symbols, _ in self.transitions:
            first |= symbols
        return first

    def derivative(self, byte: int) -> Node:
        """Return the derivative by a byte (byte alphabet only); :data:`EMPTY` if no word has it.

        The node stores the derivative, unless it is :attr:`shared_derivatives`.
        """
        known = self._derivatives
        target = None if known is None else known.get(byte)
        if target is None:
            target = self.compute_derivative(byte)
            if self.shared_derivatives is None:
                known = self._derivatives
                if known is None:
                    known = self._derivatives = {}
                known[byte] = target
        return target

    def compute_derivative(self, byte: int) -> Node:
        """Compute the derivative by a byte, and do not store it."""
        for symbols, target in self.transitions:
            if symbols >> byte & 1:
                return target
        return EMPTY

    def character_derivative(self, point: int) -> Node:
        """Return the derivative by a code point (code point alphabet only)."""
        for characters, target in self.transitions:
            if point in characters:
                return target
        return EMPTY

    def first_characters(self) -> Iterable[CodePointSet]:
        """Return sets of the code points that words begin with (code point alphabet only)."""
        return [characters for characters, _ in self.transitions]

    def ascii_derivative(self, text: bytes) -> Node:
        """Return the derivative by a text of ASCII characters (code point alphabet only)."""
        node = self
        for point in text:
            node = node.character_derivative(point)
            if node is EMPTY:
                break
        return node

    def has_length_between(self, min_length: int, max_length: int | None) -> Verdict:
        """Whether a word has a length within bounds; ``UNKNOWN`` if that takes a search.

        Args:
            min_length: Lower bound, in symbols.
            max_length: Upper bound, in symbols; ``None`` for no bound.
        """
        del min_length, max_length
        return Verdict.UNKNOWN

    def known_word_derivative(self, text: bytes) -> Node | None:
        """Return the derivative by a byte string if it is stored, or found without a search.

        It is stored then, as :meth:`word_derivative` does.
        """
        known = self._derivatives
        found = None if known is None else known.get(text)
        if found is None and self.shared_derivatives is None:
            found = self.direct_derivative(text)
            if found is not None:
                if known is None or len(known) >= _WORD_DERIVATIVES:
                    known = self._derivatives = {}
                known[text] = found
        return found

    def direct_derivative(self, text: bytes) -> Node | None:
        """Return the derivative by a byte string if it takes no search; else ``None``."""
        del text
        return None

    @property
    def is_prefix_free(self) -> bool:
        """Whether it is known that no word is a proper prefix of another word."""
        return False

    def word_derivative(self, text: bytes) -> Node:
        """Return the derivative by a byte string that is likely to repeat. It is stored."""
        shared = self.shared_derivatives
        if shared is not None:
            key = (self, text)
            return shared.get(key) or shared.put(key, self.compute_word_derivative(text))
        known = self._derivatives
        target = None if known is None else known.get(text)
        if target is None:
            target = self.compute_word_derivative(text)
            known = self._derivatives
            if known is None or len(known) >= _WORD_DERIVATIVES:
                known = self._derivatives = {}
            known[text] = target
        return target

    def compute_word_derivative(self, text: bytes) -> Node:
        """Return the derivative by a byte string, and do not store it."""
        node = self
        position = 0
        while position < len(text) and node is not EMPTY:
            position, node = node.run_derivative(text, position)
        return node

    @property
    def leading_text(self) -> bytes:
        """The part of the words' common prefix that is known without computing transitions."""
        return b""

    def run_derivative(self, text: bytes, position: int) -> tuple[int, Node]:
        """Match at least one byte of a text, and as many as one derivative can.

        None of the states between the bytes that are matched may be nullable.

        Returns:
            The position after the bytes that were matched, and the derivative by them.
        """
        return position + 1, self.derivative(text[position])

    def matches(self, text: bytes) -> bool:
        """Whether the byte string is a word of the language."""
        return self.compute_word_derivative(text).nullable

    def release(self) -> Iterable[Node]:
        """Drop the stored derivatives and transitions, and return the nodes they led to.

        The node stays valid, and computes them again when they are needed.
        """
        derivatives, transitions = self._derivatives, self._transitions
        self._derivatives = self._transitions = None
        found = list(derivatives.values()) if derivatives else []
        if transitions:
            found.extend(target for _, target in transitions)
        return found


class _Empty(Node):
    """The language without words: the dead state."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(nullable=False, min_length=0, max_length=0)

    def compute_transitions(self) -> Transitions:
        return ()

    @property
    def is_empty(self) -> bool:
        return True


class _Epsilon(Node):
    """The language of the empty word alone."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(nullable=True, min_length=0, max_length=0)

    def compute_transitions(self) -> Transitions:
        return ()


EMPTY: Node = _Empty()
EPSILON: Node = _Epsilon()


def release(nodes: Iterable[Node]) -> None:
    """Make nodes, and all that they lead to, drop their stored derivatives and transitions.

    A node holds the derivatives that it has computed, so the states of a recursive grammar hold one
    another in cycles. Releasing them frees the states at once; otherwise they wait for a full run
    of the cyclic garbage collector, which stops all threads. Nodes stay valid, and compute their
    derivatives again when they are needed.
    """
    seen = set(nodes)
    stack = list(seen)
    while stack:
        for node in stack.pop().release():
            if node not in seen:
                seen.add(node)
                stack.append(node)


def merge_transitions(
    parts: Iterable[Transitions], join: Callable[[list[Node]], Node]
) -> Transitions:
    """Refine several transitions into one; ``join`` joins the targets of overlapping sets."""
    cells: list[tuple[Symbols, list[Node]]] = []
    for transitions in parts:
        spend(1 + len(transitions) // 4)
        if not cells:
            cells = [(symbols, [target]) for symbols, target in transitions]
            continue
        covered = cells[0][0]
        for cell, _ in cells:
            covered = covered | cell
        apart: list[tuple[Symbols, list[Node]]] = []
        for symbols, target in transitions:
            rest = symbols
            if symbols & covered:
                spend(1 + len(cells) // 8)
                cells, rest = _refined(cells, symbols, target)
            if rest:
                apart.append((rest, [target]))
        cells += apart
    return collect_transitions(
        (cell, targets[0] if len(targets) == 1 else join(targets)) for cell, targets in cells
    )


def _refined(
    cells: list[tuple[Symbols, list[Node]]], symbols: Symbols, target: Node
) -> tuple[list[tuple[Symbols, list[Node]]], Symbols]:
    """Add a target to the cells within a set of symbols; return the cells, and symbols of none."""
    refined: list[tuple[Symbols, list[Node]]] = []
    for cell, targets in cells:
        common = cell & symbols if symbols else None
        if not common:
            refined.append((cell, targets))
            continue
        apart = cell & ~common
        if apart:
            refined.append((apart, targets))
        refined.append((common, [*targets, target]))
        symbols = symbols & ~common
    return refined, symbols


def collect_transitions(pairs: Iterable[tuple[Symbols, Node]]) -> Transitions:
    """Return the transitions of disjoint pairs; equal targets are united, dead targets dropped."""
    by_target: dict[Node, Symbols] = {}
    for symbols, target in pairs:
        if target is EMPTY or (target.boolean and target.is_empty):
            continue
        known = by_target.get(target)
        by_target[target] = symbols if known is None else known | symbols
    return tuple((symbols, target) for target, symbols in by_target.items())


def leading_bytes(node: Node) -> tuple[int, ...]:
    """Return the bytes that words of the language begin with, ascending."""
    return bytes_in(node.first_bytes)
