"""Walks of quotes with many positions, several characters at a time.

The positions are sorted by the texts that follow. The next characters of each are packed into one
number, so a comparison of neighbours tells how many characters they share. From then on the walk
handles groups of positions with the same text, and no longer each position on each level.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from state_machines.budgets import spend
from state_machines.grammar.packed_source import PackedSource
from state_machines.grammar.substring import Source
from state_machines.grammar.suffix_array import Positions
from state_machines.masks.character_trie import Flags
from state_machines.masks.token_trie import intervals

POSITIONS_PER_STEP = 1024
"""Positions or groups on one level that are charged as one step."""

Vertices = npt.NDArray[Any]

Children = Callable[[Vertices, Vertices], tuple[Vertices, Vertices]]
"""Returns the children of some vertices by some characters, and how many each vertex has.

The characters are numbers in the alphabet of the source.
"""


def mark_reached(
    source: Source, positions: Positions, children: Children, is_live: Flags, ends: Flags
) -> None:
    """Mark the vertices that the texts of some positions reach, and where they may end.

    Args:
        source: The source.
        positions: Where the texts begin, in the order of the texts.
        children: Finds the children of vertices.
        is_live: Is marked at all vertices but the root that a text reaches.
        ends: Is marked at those where a quote may end.
    """
    known = source.packed
    at = positions
    groups = _Groups(len(at))
    while len(at):
        at = _next(known, at, groups, children, is_live, ends)


def _next(
    source: PackedSource,
    at: Positions,
    groups: _Groups,
    children: Children,
    is_live: Flags,
    ends: Flags,
) -> Positions:
    """Walk the characters of one key, and return the positions that continue after them."""
    spend(1 + len(at) // POSITIONS_PER_STEP)
    keys = source.keys[at]
    shared = source.shared(keys)
    shared[groups.first] = -1
    may_end = None if source.ends is None else np.append(source.ends[at], np.uint16(0))
    for number in range(source.width):
        spend(1 + len(groups.first) // POSITIONS_PER_STEP)
        groups.split(np.flatnonzero(shared == number))
        letters = source.letters(keys[groups.first], number)
        groups.keep(letters >= 0)
        letters = letters[letters >= 0]
        vertices, counts = children(groups.vertices, letters[groups.of])
        groups.descend(vertices, counts)
        if not len(vertices):
            return at[:0]
        is_live[vertices] = True
        if may_end is None:
            ends[vertices] = True
            continue
        bounds = np.stack((groups.first, groups.last), axis=1).reshape(-1)
        found = np.bitwise_or.reduceat(may_end, bounds)[::2] >> np.uint16(number) & 1
        ends[vertices[found[groups.of] > 0]] = True
    return groups.compact(at) + np.int32(source.width)


class _Groups:
    """Intervals of positions with the same text, and the vertices of this text.

    Attributes:
        first: The first position of each interval; the intervals are disjoint and ascending.
        last: The position after the last.
        vertices: The vertices, ordered by interval.
        of: The interval of each vertex.
    """

    __slots__ = ("first", "last", "of", "vertices")

    def __init__(self, size: int) -> None:
        self.first: Vertices = np.zeros(1, np.intp)
        self.last: Vertices = np.full(1, size, np.intp)
        self.vertices: Vertices = np.zeros(1, np.intp)
        self.of: Vertices = np.zeros(1, np.intp)

    def split(self, at: Vertices) -> None:
        """Split the intervals before some positions; those outside of all intervals are ignored."""
        if not len(at):
            return
        within = np.searchsorted(self.first, at, side="right") - 1
        at = at[(within >= 0) & (at < self.last[within])]
        if not len(at):
            return
        first = np.sort(np.concatenate((self.first, at)))
        parent = np.searchsorted(self.first, first, side="right") - 1
        self.last = np.minimum(np.append(first[1:], self.last[-1]), self.last[parent])
        self.first = first
        self._select(parent)

    def keep(self, chosen: Flags) -> None:
        """Drop the other intervals."""
        if not chosen.all():
            self.first, self.last = self.first[chosen], self.last[chosen]
            self._select(np.flatnonzero(chosen))

    def descend(self, vertices: Vertices, counts: Vertices) -> None:
        """Replace each vertex by several, and drop the intervals that have none."""
        of = np.repeat(self.of, counts)
        self.vertices = vertices
        if len(of) == len(self.first) and (counts == 1).all():
            return
        if not len(of):
            self.first, self.last, self.of = self.first[:0], self.last[:0], of
            return
        is_new = np.append(True, of[1:] != of[:-1])
        chosen = of[is_new]
        self.first, self.last = self.first[chosen], self.last[chosen]
        self.of = np.cumsum(is_new) - 1

    def compact(self, at: Positions) -> Positions:
        """Return the positions of all intervals, and number them anew."""
        found = at[intervals(self.first, self.last)]
        counts = self.last - self.first
        self.last = np.cumsum(counts)
        self.first = self.last - counts
        return found

    def _select(self, old: Vertices) -> None:
        """Replace the intervals by others, each with the vertices of an old one."""
        if len(self.vertices) == self.of[-1] + 1:
            self.vertices, self.of = self.vertices[old], np.arange(len(old))
            return
        start = np.searchsorted(self.of, old)
        counts = np.searchsorted(self.of, old, side="right") - start
        self.vertices = self.vertices[intervals(start, start + counts)]
        self.of = np.repeat(np.arange(len(old)), counts)
