"""Suffix arrays: the positions of a text in the order of its suffixes.

A suffix array is built by prefix doubling with NumPy (Larsson & Sadakane, "Faster suffix sorting",
TCS 2007): the first sort compares as many characters as 62 bits hold, and later ones only the
suffixes that are not distinguished yet. A key has as many ranks as 63 bits hold, so with a million
characters each sort compares three times as many as the one before. A text of *n* characters takes
at most log *n* sorts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from state_machines.budgets import spend

Positions = npt.NDArray[np.int32]

CHARACTERS_PER_STEP = 256
"""Characters of a text that are charged as one step of each sort."""

FEW_CHARACTERS = 100_000
"""Length of a text up to which its alphabet is found by sorting."""


def packed(letters: Positions, size: int) -> tuple[npt.NDArray[np.int64], int, int]:
    """Return the next letters of each position as one number, in their order.

    Args:
        letters: The text as numbers from 0 to ``size - 1``.
        size: Number of different letters.

    Returns:
        The numbers, shape (n,); the count of letters of each, and the bits of a letter. A letter
        is written as its number and 1; 0 stands for the end of the text, so that a suffix precedes
        its extensions.
    """
    bits = (size + 1).bit_length()
    keys = letters.astype(np.int64) + 1
    width = 1
    while 2 * width * bits <= 62:
        shifted = np.zeros_like(keys)
        shifted[:-width] = keys[width:]
        keys = keys << width * bits | shifted
        width *= 2
    return keys, width, bits


def suffix_array(ranks: Positions, size: int) -> Positions:
    """Return the positions of a text in the order of its suffixes: int32, shape (n,).

    Args:
        ranks: The characters as numbers from 0 to ``size - 1``.
        size: Number of different characters.
    """
    count = len(ranks)
    if count == 0:
        return np.zeros(0, np.int32)
    spend(count // CHARACTERS_PER_STEP)
    keys, width, _ = packed(ranks, size)
    order = np.argsort(keys).astype(np.int32)
    keys = keys[order]
    # The rank of a suffix is the first slot, from 1 on, of its group of suffixes that are not
    # distinguished. The empty suffix has rank 0.
    rank = np.zeros(count + 1, np.int32)
    slots = np.arange(count, dtype=np.int32)
    found = order
    bits = count.bit_length()
    ranks_of_key = 63 // bits
    while True:
        is_first = np.ones(len(keys) + 1, np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=is_first[1:-1])
        first = np.flatnonzero(is_first)
        rank[found] = np.repeat(slots[first[:-1]] + np.int32(1), np.diff(first))
        is_shared = ~(is_first[1:] & is_first[:-1])
        slots, found = slots[is_shared], found[is_shared]
        if not len(slots):
            return order
        spend(len(slots) // CHARACTERS_PER_STEP)
        keys = rank[found].astype(np.int64)
        for number in range(1, ranks_of_key):
            keys = keys << bits | rank[np.minimum(found + number * width, count)]
        by_key = np.argsort(keys)
        keys, found = keys[by_key], found[by_key]
        order[slots] = found
        width *= ranks_of_key


def alphabet_of(points: Positions) -> tuple[Positions, Positions]:
    """Return the different code points, ascending, and the index of each character's."""
    if len(points) <= FEW_CHARACTERS:
        alphabet, ranks = np.unique(points, return_inverse=True)
        return alphabet, ranks.astype(np.int32).reshape(-1)
    occurs = np.zeros(int(points.max()) + 1, np.bool_)
    occurs[points] = True
    number = np.cumsum(occurs, dtype=np.int32) - 1
    return np.flatnonzero(occurs).astype(np.int32), number[points]
