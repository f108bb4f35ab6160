"""The next characters of each position of a text, several in one number."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from state_machines.grammar.suffix_array import Positions, packed


class PackedSource:
    """The next characters of each position of a text, and where a quote may end among them.

    Args:
        ranks: The characters, as numbers from 0 to ``size - 1``.
        size: Number of different characters.
        ends: By position, the next one where a quote may end; ``None`` if it may end anywhere.

    Attributes:
        keys: The next ``width`` characters: int64, shape (n + 1,).
        width: The number of characters of a key.
        bits: The bits of a character.
        ends: Bit *i* tells whether a quote may end after *i* + 1 characters: uint16, shape
            (n + 1,).
            ``None`` if it may end anywhere.
    """

    __slots__ = ("bits", "ends", "keys", "width")

    def __init__(self, ranks: Positions, size: int, ends: Positions | None) -> None:
        keys, self.width, self.bits = packed(ranks, size)
        self.keys = np.append(keys, np.int64(0))
        self.ends: npt.NDArray[np.uint16] | None = None
        if ends is not None:
            count = len(ends)
            may_end = np.zeros(count + self.width, np.uint16)
            may_end[:count] = ends == np.arange(count)
            self.ends = np.zeros(count, np.uint16)
            for number in range(self.width):
                self.ends |= may_end[number + 1 : count + number + 1] << np.uint16(number)

    def letters(self, keys: npt.NDArray[np.int64], number: int) -> npt.NDArray[np.int64]:
        """Return one character of some keys: its index in the alphabet; -1 at the end."""
        shift = self.bits * (self.width - 1 - number)
        found: npt.NDArray[np.int64] = (keys >> shift & (1 << self.bits) - 1) - 1
        return found

    def shared(self, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
        """Return how many characters each key shares with the one before it; 0 for the first."""
        differences = keys[1:] ^ keys[:-1]
        found = np.zeros(len(keys), np.int8)
        for number in range(self.width):
            found[1:] += differences < 1 << self.bits * (self.width - 1 - number)
        return found
