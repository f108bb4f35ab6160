"""Sets of symbols.

The algebra in :mod:`state_machines.grammar.nodes` is used over two alphabets: bytes, whose sets are
256-bit integers (bit *b* set: byte *b* is a member), and Unicode code points, whose sets are
:class:`CodePointSet`. The algebra needs ``&``, ``|``, ``~`` and truth of them: an effective Boolean
algebra (Stanford, Veanes & Bjørner, "Symbolic Boolean Derivatives for Efficiently Solving Extended
Regular Expression Constraints", PLDI 2021).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache

from state_machines.budgets import spend
from state_machines.caches import LruCache
from state_machines.limits import LIMITS

MAX_CODE_POINT = 0x10FFFF

RANGES_PER_STEP = 4
"""Ranges of code points that are charged as one step."""


ANY_BYTE = (1 << 256) - 1


def byte_set(members: Iterable[int]) -> int:
    """Return the set of the given bytes."""
    result = 0
    for byte in members:
        result |= 1 << byte
    return result


def byte_range(first: int, last: int) -> int:
    """Return the set of bytes from ``first`` to ``last``, both included."""
    return (1 << (last + 1)) - (1 << first)


@lru_cache(maxsize=4096)
def bytes_in(symbols: int) -> tuple[int, ...]:
    """Return the bytes of a set, ascending."""
    members = []
    while symbols:
        low = symbols & -symbols
        members.append(low.bit_length() - 1)
        symbols ^= low
    return tuple(members)


@lru_cache(maxsize=4096)
def byte_ranges(symbols: int) -> tuple[tuple[int, int], ...]:
    """Return the bytes of a set as ranges, both ends included, ascending."""
    ranges = []
    first = 0
    while symbols >> first:
        rest = symbols >> first
        first += (rest & -rest).bit_length() - 1
        rest = ~(symbols >> first)
        last = first + (rest & -rest).bit_length() - 2
        ranges.append((first, last))
        first = last + 1
    return tuple(ranges)


class CodePointSet:
    """An immutable set of Unicode code points, stored as sorted, disjoint, non-adjacent ranges.

    Surrogates (U+D800 to U+DFFF) are never members, since text consists of scalar values.
    """

    __slots__ = ("_hash", "_length", "ranges")

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._set(_normalised(ranges))

    @classmethod
    def _of_normal(cls, ranges: tuple[tuple[int, int], ...]) -> CodePointSet:
        """Return the set of ranges that are in normal form."""
        made = cls.__new__(cls)
        made._set(ranges)
        return made

    def _set(self, ranges: tuple[tuple[int, int], ...]) -> None:
        self.ranges = ranges
        self._hash = hash(ranges)
        self._length = sum([last - first + 1 for first, last in ranges])

    @classmethod
    def of(cls, characters: str) -> CodePointSet:
        """Return the set of the characters of a string."""
        return cls((ord(c), ord(c)) for c in characters)

    def __contains__(self, code_point: int) -> bool:
        index = bisect_right(self.ranges, (code_point, MAX_CODE_POINT)) - 1
        return index >= 0 and code_point <= self.ranges[index][1]

    def __and__(self, other: CodePointSet) -> CodePointSet:
        if self is other or other is ANY_CODE_POINT:
            return self
        if self is ANY_CODE_POINT:
            return other
        return _intersection(self, other)

    def __or__(self, other: CodePointSet) -> CodePointSet:
        return self if self is other else CodePointSet(self.ranges + other.ranges)

    def __invert__(self) -> CodePointSet:
        return _complement(self)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges:
            yield from range(first, last + 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CodePointSet) and self.ranges == other.ranges

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        shown = ", ".join(f"{a:x}-{b:x}" if a != b else f"{a:x}" for a, b in self.ranges[:8])
        return f"CodePointSet({shown}{', …' if len(self.ranges) > 8 else ''})"


def _normalised(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    found = sorted(_without_surrogates(ranges))
    spend(len(found) // RANGES_PER_STEP)
    for first, last in found:
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def _without_surrogates(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for first, last in ranges:
        if last < 0xD800 or first > 0xDFFF:
            yield first, last
            continue
        if first < 0xD800:
            yield first, 0xD7FF
        if last > 0xDFFF:
            yield 0xE000, last


# Pairs of sets are many, and each is a container that the garbage collector visits.
_INTERSECTIONS: LruCache[tuple[CodePointSet, CodePointSet], CodePointSet] = LruCache(
    LIMITS.cached_ranges // 8
)
_COMPLEMENTS: LruCache[CodePointSet, CodePointSet] = LruCache(LIMITS.cached_ranges)


def _intersection(left: CodePointSet, right: CodePointSet) -> CodePointSet:
    known = _INTERSECTIONS.peek((left, right))
    if known is not None:
        return known
    result = []
    a, b = left.ranges, right.ranges
    spend((len(a) + len(b)) // RANGES_PER_STEP)
    i = j = 0
    while i < len(a) and j < len(b):
        first, last = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if first <= last:
            result.append((first, last))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return _INTERSECTIONS.put(
        (left, right), CodePointSet._of_normal(tuple(result)), 1 + len(a) + len(b)
    )


def _complement(symbols: CodePointSet) -> CodePointSet:
    known = _COMPLEMENTS.peek(symbols)
    if known is not None:
        return known
    result = []
    start = 0
    for first, last in symbols.ranges:
        if first > start:
            result.append((start, first - 1))
        start = last + 1
    if start <= MAX_CODE_POINT:
        result.append((start, MAX_CODE_POINT))
    return _COMPLEMENTS.put(symbols, CodePointSet(result), 1 + len(result))


ANY_CODE_POINT = CodePointSet([(0, MAX_CODE_POINT)])


def is_whole_alphabet(symbols: int | CodePointSet) -> bool:
    """Whether a set has every symbol of its alphabet."""
    if isinstance(symbols, int):
        return symbols == ANY_BYTE
    return symbols == ANY_CODE_POINT


@lru_cache(maxsize=4096)
def code_points(first: int | str, last: int | str | None = None) -> CodePointSet:
    """Return the range of code points from ``first`` to ``last`` (default: ``first`` alone)."""
    low = ord(first) if isinstance(first, str) else first
    high = low if last is None else ord(last) if isinstance(last, str) else last
    return CodePointSet([(low, high)])
