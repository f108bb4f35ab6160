"""A partition of the bytes into at most 64 classes, so that a set of classes is a machine word.

If a state loops on all bytes below a vertex of a trie, all tokens below the vertex are accepted,
and the walk does not visit them. The classes are those that terminals usually distinguish.
"""

from __future__ import annotations

from string import punctuation

import numpy as np

from state_machines.grammar.symbols import byte_set

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
