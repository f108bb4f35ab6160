"""Sets of numbers: unions of intervals, with single numbers added and excluded.

Single numbers are no intervals, since an ``enum`` can have a hundred thousand of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from state_machines.budgets import spend
from state_machines.json_schema.numbers.intervals import LARGEST, Interval


def exact(number: int | float | Decimal) -> Fraction:
    """Return a number of a parsed JSON document exactly as it was written: 0.1 is one tenth."""
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


INTERSECTION_STEPS = 3
"""Steps charged for the intersection of two intervals."""

POINTS_PER_STEP = 2
"""Single numbers charged as one step."""

_NONE: frozenset[Fraction] = frozenset()


@dataclass(frozen=True, slots=True)
class NumberSet:
    """A set of numbers.

    Attributes:
        intervals: Intervals with more than one number, and with more than the holes.
        points: Single numbers in the set.
        holes: Single numbers of the intervals that are not in the set; none is a point.
        plain: The points that are written without a point.
    """

    intervals: tuple[Interval, ...] = ()
    points: frozenset[Fraction] = _NONE
    holes: frozenset[Fraction] = _NONE
    plain: frozenset[Fraction] = _NONE

    @classmethod
    def of(cls, intervals: Iterable[Interval], holes: frozenset[Fraction] = _NONE) -> NumberSet:
        """Return the union of intervals without the holes."""
        united: dict[Interval, None] = {}
        single: dict[Fraction, bool] = {}
        for interval in dict.fromkeys(intervals):
            if interval.reaches_limit:
                interval = interval.finite()
            if interval.is_within(holes):
                continue
            if interval.low is not None and interval.low == interval.high:
                plain = interval.is_plain and single.get(interval.low, True)
                single[interval.low] = plain
            else:
                united[interval] = None
        if Interval() in united:
            united = {Interval(): None}
        spend(len(holes) * len(united) // 8)
        left = frozenset(hole for hole in holes if any(hole in interval for interval in united))
        plain_points = frozenset(number for number, plain in single.items() if plain)
        return cls(tuple(united), frozenset(single), left, plain_points)

    @classmethod
    def union(cls, sets: Iterable[NumberSet]) -> NumberSet:
        """Return the union of sets."""
        found = [numbers for numbers in dict.fromkeys(sets) if not numbers.is_empty]
        if len(found) <= 1:
            return found[0] if found else NO_NUMBERS
        points = _NONE.union(*(numbers.points for numbers in found))
        fractional = _NONE.union(*(numbers.points - numbers.plain for numbers in found))
        holes: set[Fraction] = set()
        for numbers in found:
            spend(len(numbers.holes) * len(found) // 8)
            holes.update(
                hole
                for hole in numbers.holes - points
                if not any(other._in_intervals(hole) for other in found if other is not numbers)
            )
        united = cls.of((i for numbers in found for i in numbers.intervals), frozenset(holes))
        single = points | united.points
        fractional |= united.points - united.plain
        return cls(united.intervals, single, united.holes, single - fractional)

    @property
    def is_empty(self) -> bool:
        """Whether the set contains no number."""
        return not self.intervals and not self.points

    def __contains__(self, number: Fraction) -> bool:
        return number in self.points or self._in_intervals(number)

    def _in_intervals(self, number: Fraction) -> bool:
        """Return whether the number is in an interval and not a hole."""
        return number not in self.holes and any(number in interval for interval in self.intervals)

    def __and__(self, other: NumberSet) -> NumberSet:
        if self == ALL_NUMBERS:
            return other
        if other == ALL_NUMBERS:
            return self
        spend(INTERSECTION_STEPS * max(1, len(self.intervals) * len(other.intervals)))
        common = NumberSet.of(
            (a & b for a in self.intervals for b in other.intervals), self.holes | other.holes
        )
        plain = set(common.plain)
        single = set(common.points)
        for number, is_plain in (*self._points_in(other), *other._points_in(self)):
            single.add(number)
            if is_plain:
                plain.add(number)
        return NumberSet(common.intervals, frozenset(single), common.holes, frozenset(plain))

    def _points_in(self, other: NumberSet) -> Iterator[tuple[Fraction, bool]]:
        """Yield the points that are in another set too, and whether they are written plainly."""
        spend(len(self.points) * len(other.intervals) // 8)
        for number in self.points:
            if number in other.points:
                yield number, number in self.plain or number in other.plain
            elif number not in other.holes:
                around = [i.is_plain for i in other.intervals if number in i]
                if around:
                    yield number, number in self.plain or all(around)

    def __invert__(self) -> NumberSet:
        result = ALL_NUMBERS
        spans = [i for i in self.intervals if i.step is None and not i.excluded_steps]
        if spans:
            result = NumberSet.of(_gaps(spans))
        for interval in self.intervals:
            if interval.step is not None or interval.excluded_steps:
                result = result & NumberSet.of(interval.complement())
        left = NumberSet.of(result.intervals, result.holes | self.points)
        single = (result.points | left.points | self.holes) - self.points
        return NumberSet(left.intervals, single, left.holes - self.holes)


def _gaps(spans: list[Interval]) -> Iterable[Interval]:
    """Yield the gaps between intervals without steps."""
    low: Fraction | None = None
    low_open = False
    bottom = [span for span in spans if span.low is None]
    bounded = sorted(
        (span for span in spans if span.low is not None),
        key=lambda span: (span.low or 0, span.low_open),
    )
    for span in (*bottom, *bounded):
        if span.low is not None:
            yield Interval(low, span.low, low_open, not span.low_open)
        if span.high is None:
            return
        reaches_further = low is None or (span.high, not span.high_open) > (low, low_open)
        if reaches_further:
            low, low_open = span.high, not span.high_open
    yield Interval(low, None, low_open, False)


ALL_NUMBERS = NumberSet((Interval(),))
NO_NUMBERS = NumberSet()
INTEGERS = NumberSet((Interval(step=Fraction(1)),))
PLAIN_INTEGERS = NumberSet((Interval(step=Fraction(1), is_plain=True),))


def points(numbers: Iterable[Fraction]) -> NumberSet:
    """Return the set of the given numbers that are finite as doubles."""
    finite: list[Fraction] = []
    for number in numbers:
        if not len(finite) % POINTS_PER_STEP:
            spend()
        if -LARGEST <= number <= LARGEST:
            finite.append(number)
    return NumberSet(points=frozenset(finite))
