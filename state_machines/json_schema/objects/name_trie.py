"""The listed names of an object as a trie over their spellings, unfolded as far as it is asked for.

A vertex is a stretch of the spellings in order: those that begin with the same bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from operator import itemgetter, or_

__all__ = ["NameVertex", "name_trie"]


class NameVertex:
    """The names whose spellings share their first ``depth`` bytes.

    A spelling ends with its terminator, so none is the beginning of another.
    """

    __slots__ = ("_below", "_children", "_first", "_last", "_spelled", "depth")

    def __init__(self, spelled: list[tuple[bytes, int]], first: int, last: int, depth: int) -> None:
        self._spelled = spelled
        self._first = first
        self._last = last
        self._below: int | None = None
        self._children: dict[int, NameVertex] | None = None
        self.depth = depth

    @property
    def only(self) -> tuple[bytes, int] | None:
        """The only spelling, whole, and the number of its name; ``None`` where there are more."""
        return self._spelled[self._first] if self._last - self._first == 1 else None

    @property
    def text(self) -> bytes:
        """The bytes that all spellings share."""
        return self._spelled[self._first][0][: self.depth]

    @property
    def below(self) -> int:
        """The numbers of the names, as bits."""
        below = self._below
        if below is None:
            numbers = (1 << number for _, number in self._spelled[self._first : self._last])
            below = self._below = reduce(or_, numbers, 0)
        return below

    @property
    def children(self) -> dict[int, NameVertex]:
        """What the next byte leads to."""
        children = self._children
        if children is None:
            children = self._children = dict(self._unfolded())
        return children

    def _unfolded(self) -> Iterator[tuple[int, NameVertex]]:
        spelled, depth, start = self._spelled, self.depth, self._first
        while start < self._last:
            byte = spelled[start][0][depth]
            stop = bisect_right(spelled, byte, start, self._last, key=lambda pair: pair[0][depth])
            yield byte, NameVertex(spelled, start, stop, depth + 1)
            start = stop


def name_trie(
    names: Iterable[tuple[str, int]], spellings: Callable[[str], Iterable[bytes]]
) -> NameVertex:
    """Return the root of the trie of numbered names, by how each is written."""
    spelled = {spelling: number for name, number in names for spelling in spellings(name)}
    ordered = sorted(spelled.items(), key=itemgetter(0))
    return NameVertex(ordered, 0, len(ordered), 0)
