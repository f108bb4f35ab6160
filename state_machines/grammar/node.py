"""What every expression of the algebra is: an immutable, hash-consed node.

A node denotes a language: a set of words over one alphabet (bytes or code points, see
:mod:`state_machines.grammar.symbols`). Matching a symbol turns it into its *derivative*, the node
of all that may still follow (Brzozowski, "Derivatives of Regular Expressions", JACM 1964; Owens,
Reppy & Turon, "Regular-expression derivatives re-examined", JFP 2009). Derivatives of a node are
given symbolically by its *row*: disjoint symbol sets, each with the node it leads to.

Nodes are built by the constructor functions of the sibling modules alone. These normalise at
birth and intern: equal structure is one object, so equality is identity and whatever is computed
for a state is computed once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeAlias, TypeVar
from weakref import ref

from state_machines.budgets import spend
from state_machines.caches import LruCache
from state_machines.grammar.symbols import bytes_in
from state_machines.limits import LIMITS

__all__ = [
    "EMPTY",
    "EPSILON",
    "Node",
    "Symbols",
    "TransientDerivatives",
    "Transitions",
    "intern_node",
    "known_node",
    "merge_transitions",
    "release",
]

Symbols: TypeAlias = Any
"""A symbol set: ``int`` over bytes, ``CodePointSet`` over code points; one kind in one tree."""

Transitions: TypeAlias = "tuple[tuple[Symbols, Node], ...]"


TransientDerivatives: TypeAlias = "LruCache[tuple[Node, bytes], Node]"
"""The last derivatives by byte strings of states that must not hold on to one another."""


class Node:
    """A language. See the module's docstring; attributes:

    * ``nullable``: whether the empty word is in the language (the state accepts);
    * ``min_length``, ``max_length``: bounds, in symbols, on the length of words (``max_length``
      is ``None`` where there is no bound); a true shortest word may be longer than the bound;
    * ``boolean``: whether an intersection or complement occurs inside, so that the language may
      be empty although the node is not :data:`EMPTY`.
    """

    __slots__ = (
        "__weakref__",
        "_derivatives",
        "_first",
        "_transitions",
        "boolean",
        "mask",
        "max_length",
        "min_length",
        "nullable",
        "transient",
    )

    is_closed = False
    """Whether the language is known to be closed under concatenation, and holds the empty word."""

    is_universal = False
    """Whether the language is known to hold all words."""

    def __init__(
        self, *, nullable: bool, min_length: int, max_length: int | None, boolean: bool = False
    ) -> None:
        self.nullable = nullable
        self.min_length = min_length
        self.max_length = max_length
        self.boolean = boolean
        self.transient: TransientDerivatives | None = None
        """The cache of derivatives by byte strings, for a state that depends on what was written.

        There is no end of such states, and each leads to others, so none stores them itself.
        """
        self._transitions: Transitions | None = None
        self._first: int | None = None
        self._derivatives: dict[int | bytes, Node] | None = None
        self.mask: bytes | None = None
        """The key of the mask that the state was given last."""

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
        row = self._transitions
        if row is None:
            row = self.compute_transitions()
            if self.transient is None:
                self._transitions = row
        return row

    def compute_transitions(self) -> Transitions:
        raise NotImplementedError  # pragma: no cover - every subclass gives its row

    @property
    def is_empty(self) -> bool:
        """Whether the language holds no word at all (exact)."""
        return False

    @property
    def first_bytes(self) -> int:
        """The set of bytes that a word of the language can begin with (byte alphabet only)."""
        first = self._first
        if first is None:
            first = self._first = self.compute_first_bytes()
        return first

    def compute_first_bytes(self) -> int:
        first = 0
        for symbols, _ in self.transitions:
            first |= symbols
        return first

    def derivative(self, byte: int) -> Node:
        """Return what may follow ``byte`` (byte alphabet only); :data:`EMPTY` where nothing.

        The answer is kept with the node, unless that is :attr:`fleeting`; :meth:`step` gives it
        without keeping it.
        """
        steps = self._derivatives
        if steps is None:
            steps = self._derivatives = {}
        step = steps.get(byte)
        if step is None:
            step = self.compute_derivative(byte)
            if self.transient is None:
                steps[byte] = step
        return step

    def compute_derivative(self, byte: int) -> Node:
        """Compute the derivative by a byte anew."""
        for symbols, target in self.transitions:
            if symbols >> byte & 1:
                return target
        return EMPTY

    def character_derivative(self, point: int) -> Node:
        """Return what may follow a code point (code point alphabet only)."""
        for characters, target in self.transitions:
            if point in characters:
                return target
        return EMPTY

    def known_word_derivative(self, text: bytes) -> Node | None:
        """Return what :meth:`follow` has kept of a text; ``None`` if nothing."""
        steps = self._derivatives
        return None if steps is None else steps.get(text)

    def word_derivative(self, text: bytes) -> Node:
        """Return the derivative by a byte string that is likely to come again; it is kept."""
        steps = self._derivatives
        if steps is None:
            steps = self._derivatives = {}
        step = steps.get(text)
        if step is None:
            transient = self.transient
            if transient is not None:
                key = (self, text)
                step = transient.get(key)
                return step or transient.put(key, self.compute_word_derivative(text))
            if len(steps) >= LIMITS.word_derivatives:
                steps = self._derivatives = {}
            step = steps[text] = self.compute_word_derivative(text)
        return step

    def compute_word_derivative(self, text: bytes) -> Node:
        """Return the derivative by a whole byte string."""
        node = self
        position = 0
        while position < len(text) and node is not EMPTY:
            position, node = node.run_derivative(text, position)
        return node

    @property
    def leading_text(self) -> bytes:
        """A byte string that all words begin with, where that is known without a look at rows."""
        return b""

    def run_derivative(self, text: bytes, position: int) -> tuple[int, Node]:
        """Match a byte of a text, or more if that is no dearer: (where it stands then, node).

        No state that is left behind on the way may be nullable, for a caller goes on from there.
        """
        return position + 1, self.derivative(text[position])

    def matches(self, text: bytes) -> bool:
        """Whether the byte string is a word of the language."""
        return self.compute_word_derivative(text).nullable

    def release(self) -> Iterable[Node]:
        """Forget what is remembered of where the node leads to, and return the nodes it knew.

        The node stays as good as it was, for whoever holds it.
        """
        steps, row = self._derivatives, self._transitions
        self._derivatives = self._transitions = None
        found = list(steps.values()) if steps else []
        if row:
            found.extend(target for _, target in row)
        return found


class _Empty(Node):
    """The empty set: no word at all, the dead state."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(nullable=False, min_length=0, max_length=0)

    def compute_transitions(self) -> Transitions:
        return ()

    @property
    def is_empty(self) -> bool:
        return True


class _Epsilon(Node):
    """The empty word alone: a state that is complete and admits nothing more."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(nullable=True, min_length=0, max_length=0)

    def compute_transitions(self) -> Transitions:
        return ()


EMPTY: Node = _Empty()
EPSILON: Node = _Epsilon()

_N = TypeVar("_N", bound=Node)


class _Entry(ref[Node]):
    """The table's weak reference to a node, with the node's key."""

    __slots__ = ("key",)

    key: Hashable


_TABLE: dict[Hashable, _Entry] = {}
"""The living nodes by key. A plain dict is several times as fast as a WeakValueDictionary."""

_TABLE_LOCK = threading.RLock()
"""Held to change an entry, so that no thread removes an entry that another has just added."""

_DEAD: deque[_Entry] = deque()


def known_node(key: Hashable) -> Node | None:
    """Return the living node of a key, if there is one, before its parts are made."""
    known = _TABLE.get(key)
    if known is None:
        return None
    spend()
    return known()


def intern_node(key: Hashable, make: Callable[[], _N]) -> _N:
    """Return the living node of a key, or make it. The table does not keep nodes alive.

    A key must not hold a node, or the table would: a key names an object that the node holds by
    the object's ``id``. The most frequent keys consist of strings and numbers, which the garbage
    collector skips.
    """
    spend()
    known = _TABLE.get(key)
    node = known and known()
    if node is None:
        made = make()
        entry = _Entry(made, _forget)
        entry.key = key
        with _TABLE_LOCK:
            # Another thread may have made it meanwhile.
            known = _TABLE.get(key)
            node = known and known()
            if node is None:
                node = made
                _TABLE[key] = entry
        if _DEAD:
            _remove_dead()
    return node  # type: ignore[return-value]


def _forget(entry: _Entry) -> None:
    """Remove the entry of a node that has died.

    A weak reference calls this in any thread, at any allocation. Waiting for the lock could
    deadlock: if another thread holds it, that thread or the next one removes the entry.
    """
    _DEAD.append(entry)
    _remove_dead()


def _remove_dead() -> None:
    while _DEAD and _TABLE_LOCK.acquire(blocking=False):
        try:
            while _DEAD:
                entry = _DEAD.popleft()
                if _TABLE.get(entry.key) is entry:
                    del _TABLE[entry.key]
        finally:
            _TABLE_LOCK.release()


def release(nodes: Iterable[Node]) -> None:
    """Make nodes, and all that they lead to, drop their stored derivatives and transitions.

    A node holds the derivatives that it has computed, so the states of a recursive grammar hold one
    another in cycles. Releasing them frees the states at once; otherwise they wait for a full run
    of the cyclic garbage collector, which stops all threads. Nodes stay valid: they compute again
    what they need.
    """
    seen = set(nodes)
    stack = list(seen)
    while stack:
        for node in stack.pop().release():
            if node not in seen:
                seen.add(node)
                stack.append(node)


def merge_transitions(
    rows: Iterable[Transitions], join: Callable[[list[Node]], Node]
) -> Transitions:
    """Refine several rows into one; where sets overlap the targets are joined by ``join``."""
    cells: list[tuple[Symbols, list[Node]]] = []
    for row in rows:
        for symbols, target in row:
            spend(1 + len(cells) // 8)
            rest = symbols
            refined: list[tuple[Symbols, list[Node]]] = []
            for cell, targets in cells:
                common = cell & rest if rest else None
                if not common:
                    refined.append((cell, targets))
                    continue
                apart = cell & ~common
                if apart:
                    refined.append((apart, targets))
                refined.append((common, [*targets, target]))
                rest = rest & ~common
            if rest:
                refined.append((rest, [target]))
            cells = refined
    return collect_transitions(
        (cell, targets[0] if len(targets) == 1 else join(targets)) for cell, targets in cells
    )


def collect_transitions(pairs: Iterable[tuple[Symbols, Node]]) -> Transitions:
    """Make a row of disjoint pairs: equal targets are united, dead ones dropped."""
    by_target: dict[Node, Symbols] = {}
    for symbols, target in pairs:
        if target is EMPTY or (target.boolean and target.is_empty):
            continue
        known = by_target.get(target)
        by_target[target] = symbols if known is None else known | symbols
    return tuple((symbols, target) for target, symbols in by_target.items())


def leading_bytes(node: Node) -> tuple[int, ...]:
    """Return the bytes that a word of the language can begin with, ascending."""
    return bytes_in(node.first_bytes)
