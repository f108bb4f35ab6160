"""A partition of the bytes into at most 64 classes, so that a set of classes is a machine word.

If a state loops on all bytes below a vertex of a trie, all tokens below the vertex are accepted,
and the walk does not visit them. The classes are those that terminals usually distinguish.

A state of a text does not loop on the bytes of a character beyond ASCII, but returns after its last
byte. Where tokens write whole characters, one more class stands for all bytes beyond ASCII:
:data:`WHOLE_CHARACTERS`.
"""

from __future__ import annotations

from functools import lru_cache
from string import punctuation

import numpy as np

from state_machines.grammar.node import Node
from state_machines.grammar.symbols import byte_range, byte_set

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
