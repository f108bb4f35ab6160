"""States by number, with a table of their transitions: the automaton that a walk follows.

Rows are computed when a walk asks for them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from state_machines.budgets import spend
from state_machines.grammar.lexer import LexerState
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.symbols import byte_ranges
from state_machines.masks.byte_classes import looped_classes
from state_machines.masks.token_trie import Ids

UNKNOWN = -1
"""The kind of a state whose transitions have not been computed."""

STATE_BYTES = 2_000
"""Approximate bytes of a state."""


class TooManyStatesError(Exception):
    """A table has as many states as it may have."""


class StateTable:
    """States by number; state 0 is dead.

    Args:
        max_states: Greatest number of states.

    Attributes:
        lock: Held by the thread that walks the table, if several threads have it.
        nodes: The states.
        completes: By *kind* of state: the set of the terminals that a lexer's state completes;
            1 for another state that is nullable. Kind 0 is 0.
        target: The state after each byte: int32, shape (capacity, 256).
        kind: The kind of each state: int32, shape
            (capacity,). :data:`UNKNOWN` if the row of ``target`` has not been computed.
        loops: The classes of bytes that leave a state as it is: uint64, shape (capacity,). See
            :mod:`~state_machines.masks.byte_classes`.
        addresses: The addresses of ``target``, ``kind`` and ``loops``.
    """

    def __init__(self, max_states: int | None = None) -> None:
        self._max_states = max_states
        self.rows = 0
        """The number of rows that were computed."""
        self.lock = threading.RLock()
        self.nodes: list[Node] = []
        self._numbers: dict[Node, int] = {}
        self.completes = [0]
        self._kinds = {0: 0}
        self._resize(64)
        self.number(EMPTY)
        self.kind[0] = 0

    @property
    def weight(self) -> int:
        """The approximate size in bytes."""
        return self.target.nbytes + STATE_BYTES * len(self.nodes)

    def _resize(self, capacity: int) -> None:
        count = len(self.nodes)
        target = np.zeros((capacity, 256), np.int32)
        kind = np.full(capacity, UNKNOWN, np.int32)
        loops = np.zeros(capacity, np.uint64)
        if count:
            target[:count], kind[:count], loops[:count] = self.target, self.kind, self.loops
        self.target: Ids = target
        self.kind: Ids = kind
        self.loops: npt.NDArray[np.uint64] = loops
        self.addresses = target.ctypes.data, kind.ctypes.data, loops.ctypes.data

    def number(self, node: Node) -> int:
        """Return the number of a state."""
        number = self._numbers.get(node)
        if number is None:
            number = len(self.nodes)
            if number == self._max_states:
                raise TooManyStatesError
            if number == len(self.kind):
                self._resize(2 * number)
            self.nodes.append(node)
            self._numbers[node] = number
        return number

    def expand(self, numbers: Iterable[int]) -> None:
        """Compute the rows of states, unless they are known."""
        for number in numbers:
            if self.kind[number] != UNKNOWN:
                continue
            node = self.nodes[number]
            row = [(symbols, self.number(target)) for symbols, target in node.transitions]
            spend(1 + len(row))
            self.rows += 1
            targets = self.target[number]
            for symbols, target in row:
                for first, last in byte_ranges(symbols):
                    targets[first : last + 1] = target
                if target == number:
                    self.loops[number] = looped_classes(node, symbols)
            complete = node.complete if isinstance(node, LexerState) else int(node.nullable)
            self.kind[number] = self.kind_of(complete)

    def kind_of(self, complete: int) -> int:
        """Return the kind of the states that match some terminals, given as a set."""
        kind = self._kinds.get(complete)
        if kind is None:
            kind = self._kinds[complete] = len(self.completes)
            self.completes.append(complete)
        return kind
