"""Suffix arrays: the positions of a text in the order of its suffixes.

A suffix array is built by prefix doubling with NumPy (Larsson & Sadakane, "Faster suffix sorting",
TCS 2007): the first sort compares as many characters as 62 bits hold, and later ones only the
suffixes that are not distinguished yet. A text of *n* characters takes at most log *n* sorts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from state_machines.budgets import spend

Positions = npt.NDArray[np.int32]

CHARACTERS_PER_STEP = 256
"""Characters of a text that are charged as one step of each sort."""


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
    order = np.argsort(keys)
    slots = np.arange(count)
    # The rank of a suffix is the first slot of its group of suffixes that are not distinguished.
    rank = np.full(count + 1, -1, np.int64)
    keys = keys[order]
    found = order
    while True:
        is_first = np.concatenate(([True], keys[1:] != keys[:-1]))
        group = np.maximum.accumulate(np.where(is_first, np.arange(len(keys)), 0))
        rank[found] = slots[group]
        is_alone = is_first & np.append(is_first[1:], True)
        slots = slots[~is_alone]
        if not len(slots):
            return order.astype(np.int32)
        spend(len(slots) // CHARACTERS_PER_STEP)
        found = order[slots]
        keys = rank[found] << 32 | (rank[found + width] + 1)
        by_key = np.argsort(keys)
        keys, found = keys[by_key], found[by_key]
        order[slots] = found
        width *= 2
