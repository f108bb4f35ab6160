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
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeAlias, TypeVar
from weakref import ref

from state_machines.budgets import spend
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


# A plain dict of weak references: several times as quick as a WeakValueDictionary.
_TABLE: dict[Hashable, ref[Node]] = {}
_TABLE_LOCK = threading.RLock()
"""Held to change an entry, so that no thread removes an entry that another has just added."""

_DEAD_KEYS: deque[Hashable] = deque()
"""Keys of nodes that died while another thread had the lock; the next to have it removes them."""


class TransientDerivatives:
    """The last steps that were taken from states that depend on what has been written.

    Of such states there is no end, and each leads to others; so that they do not hold on to one
    another, their steps are kept here, ``keep`` of them. Safe to use from several threads.
    """

    __slots__ = ("_keep", "_lock", "_steps")

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._steps: OrderedDict[tuple[Node, bytes], Node] = OrderedDict()
        # Reentrant: a finalizer that runs while it is held may release the steps.
        self._lock = threading.RLock()

    def release(self) -> list[Node]:
        """Forget all steps, and return the nodes that they led to."""
        with self._lock:
            steps, self._steps = self._steps, OrderedDict()
        return list(steps.values())

    def word_derivative(self, node: Node, text: bytes) -> Node:
        """Return the derivative of a node by a byte string."""
        key = (node, text)
        step = self._steps.get(key)
        if step is None:
            step = node.compute_word_derivative(text)
        freed = None
        with self._lock:
            self._steps[key] = step
            self._steps.move_to_end(key)
            if len(self._steps) > self._keep:
                freed = self._steps.popitem(last=False)
        del freed  # Only now, for it may have a finalizer.
        return step


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
        "_key",
        "_transitions",
        "boolean",
        "mask",
        "max_length",
        "min_length",
        "nullable",
        "transient",
    )

    is_closed = False
    """Whether the empty word and any two words joined are surely words of the language, too."""

    def __init__(
        self, *, nullable: bool, min_length: int, max_length: int | None, boolean: bool = False
    ) -> None:
        self.nullable = nullable
        self.min_length = min_length
        self.max_length = max_length
        self.boolean = boolean
        self.transient: TransientDerivatives | None = None
        """Where steps by texts are kept instead, of a state that depends on what was written."""
        self._transitions: Transitions | None = None
        self._first: int | None = None
        self._derivatives: dict[int | bytes, Node] | None = None
        self._key: Hashable = None
        self.mask: bytes | None = None
        """The key of the mask that the state was given last."""

    def __del__(self) -> None:
        # Not every node has one: it may not have been interned, or not even been made.
        key = getattr(self, "_key", None)
        if key is None:
            return
        # To wait here could be a deadlock: this runs in any thread, at any allocation.
        if not _TABLE_LOCK.acquire(blocking=False):
            _DEAD_KEYS.append(key)
            return
        try:
            known = _TABLE.get(key)
            if known is not None and known() in (None, self):
                del _TABLE[key]
        finally:
            _TABLE_LOCK.release()

    @property
    def subsumption_key(self) -> Hashable | None:
        """Names the nodes with which :meth:`holds` can compare this one, if there are any."""
        return None

    def subsumes(self, other: Node) -> bool:
        """Whether every word of another node of the family is surely a word of this one."""
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
            fleeting = self.transient
            if fleeting is not None:
                return fleeting.word_derivative(self, text)
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


def known_node(key: Hashable) -> Node | None:
    """Return the living node of a key, if there is one: quicker than to say how it is made."""
    known = _TABLE.get(key)
    if known is None:
        return None
    spend()
    return known()


def intern_node(key: Hashable, make: Callable[[], _N]) -> _N:
    """Return the living node of that key, or make it. Nodes nobody holds are forgotten.

    A key must not keep nodes alive, or the table would: where it names an object that the node
    itself holds on to, it does so by ``id``. One of strings and numbers alone, as those of the most
    frequent nodes are, is none of the garbage collector's business.
    """
    spend()
    known = _TABLE.get(key)
    node = known and known()
    if node is None:
        made = make()
        with _TABLE_LOCK:
            # Another thread may have made it meanwhile.
            known = _TABLE.get(key)
            node = known and known()
            if node is None:
                node = made
                node._key = key
                _TABLE[key] = ref(node)
            while _DEAD_KEYS:
                dead = _DEAD_KEYS.popleft()
                known = _TABLE.get(dead)
                if known is not None and known() is None:
                    del _TABLE[dead]
    return node  # type: ignore[return-value]


def release(nodes: Iterable[Node]) -> None:
    """Let go of what nodes, and those under them, remember of one another.

    Where a grammar is recursive they hold on to one another in circles. These wait for a full run
    of Python's garbage collector, which stops everything, if nobody breaks them.
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
