"""States by number, with a table of their transitions: the automaton that a walk follows.

Rows are computed when a walk asks for them. If a state loops on all bytes below a vertex of a trie,
all tokens below the vertex are accepted, and the walk does not visit them. For that the bytes are
divided into at most 64 classes, so that a set of classes is a machine word. The classes are those
that terminals usually distinguish.

A state of a text does not loop on the bytes of a character beyond ASCII, but returns after its last
byte. Where tokens write whole characters, one more class stands for all bytes beyond ASCII:
:data:`WHOLE_CHARACTERS`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import lru_cache
from string import punctuation

import numpy as np
import numpy.typing as npt

from state_machines.budgets import spend
from state_machines.grammar.lexer import LexerState
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.symbols import byte_range, byte_ranges, byte_set

_SINGLE = f" \t\n\r{punctuation}".encode()
_RANGES = ((b"09"), b"AD", b"EF", b"GZ", b"ad", b"ef", b"gz", b"\x80\xbf", b"\xc0\xdf", b"\xe0\xff")
_CONTROLS = bytes({*range(32), 127}.difference(_SINGLE))

CLASSES = (
    *(bytes((byte,)) for byte in _SINGLE),
    *(bytes(range(first, last + 1)) for first, last in _RANGES),
    _CONTROLS,
)
"""The bytes of each class."""

MASKS = tuple(byte_set(members) for members in CLASSES)
"""The bytes of each class, as a set."""

CLASS_OF = np.array(
    [next(n for n, mask in enumerate(MASKS) if mask >> byte & 1) for byte in range(256)], np.uint8
)
"""The class of each byte: uint8, shape (256,)."""

WHOLE_CHARACTERS = 1 << len(CLASSES)
"""The class of the characters beyond ASCII, as a set."""

LAST_ASCII = 0x7F

CONTINUATION = byte_range(0x80, 0xBF)

CHARACTERS = (
    (byte_range(0xC2, 0xDF), CONTINUATION),
    (byte_range(0xE0, 0xE0), byte_range(0xA0, 0xBF), CONTINUATION),
    (byte_range(0xE1, 0xEC) | byte_range(0xEE, 0xEF), CONTINUATION, CONTINUATION),
    (byte_range(0xED, 0xED), byte_range(0x80, 0x9F), CONTINUATION),
    (byte_range(0xF0, 0xF0), byte_range(0x90, 0xBF), CONTINUATION, CONTINUATION),
    (byte_range(0xF1, 0xF3), CONTINUATION, CONTINUATION, CONTINUATION),
    (byte_range(0xF4, 0xF4), byte_range(0x80, 0x8F), CONTINUATION, CONTINUATION),
)
"""The characters beyond ASCII: sets of first, second, … bytes (RFC 3629, section 4)."""

_LEADS = byte_range(0xC2, 0xF4)


def looped_classes(node: Node, symbols: int) -> int:
    """Return the classes whose characters lead a state back to itself, as a set.

    Args:
        node: The state.
        symbols: The bytes on which it loops.
    """
    classes = _classes_within(symbols)
    if not classes or _LEADS & ~node.first_bytes:
        return classes
    is_text = all(_leads_back(node, character, node) for character in CHARACTERS)
    return classes | WHOLE_CHARACTERS if is_text else classes


def _leads_back(state: Node, sets: tuple[int, ...], home: Node) -> bool:
    """Whether a state leads to ``home`` by all byte strings with one byte from each set."""
    if not sets:
        return state is home
    left = sets[0]
    for symbols, target in state.transitions:
        if symbols & left:
            if not _leads_back(target, sets[1:], home):
                return False
            left &= ~symbols
    return not left


@lru_cache(maxsize=1024)
def _classes_within(symbols: int) -> int:
    """Return the classes all of whose bytes are in a set, as a set of classes."""
    return sum(1 << number for number, mask in enumerate(MASKS) if not mask & ~symbols)


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
            :mod:`~state_machines.masks.state_table`.
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
        self.target: npt.NDArray[np.int32] = target
        self.kind: npt.NDArray[np.int32] = kind
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
