"""Sets of numbers: unions of intervals, with single numbers added and excluded.

An interval has the numbers that are multiples of a step and of no excluded step. Single numbers are
no intervals, since an ``enum`` can have a hundred thousand of them. Bounds and steps are exact
(:class:`fractions.Fraction`). An integer is a multiple of 1.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import gcd, lcm

from state_machines.budgets import spend

MAX_INTEGER_DIGITS = 308
"""Largest number of digits before the point of a number below :data:`ROUND_LIMIT`."""

ROUND_LIMIT = Fraction(10**MAX_INTEGER_DIGITS)
"""Numbers of at least this magnitude are generated only if the bounds of a schema require them."""

LARGEST = Fraction(repr(sys.float_info.max))
"""The largest finite double. No number of larger magnitude is generated."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The numbers between two bounds that are multiples of a step and of no excluded step.

    Attributes:
        low: Lower bound; ``None`` for no bound.
        high: Upper bound; ``None`` for no bound.
        low_open: Whether the lower bound is excluded.
        high_open: Whether the upper bound is excluded.
        step: The numbers are multiples of it; ``None`` for all numbers.
        excluded_steps: The numbers are multiples of none of these.
    """

    low: Fraction | None = None
    high: Fraction | None = None
    low_open: bool = False
    high_open: bool = False
    step: Fraction | None = None
    excluded_steps: frozenset[Fraction] = frozenset()

    @property
    def is_integral(self) -> bool:
        """Whether all numbers are integers because of the step."""
        return self.step is not None and self.step.denominator == 1

    @property
    def is_empty(self) -> bool:
        """Whether no number of the interval can be written."""
        return self.is_within(())

    def is_within(self, holes: Container[Fraction]) -> bool:
        """Return whether no number of the interval but ``holes`` can be written."""
        if self.low is not None and self.high is not None and self.low >= self.high:
            return self.low > LARGEST or self.low not in self or self.low in holes
        if self.reaches_limit and (finite := self.finite()) != self:
            return finite.is_within(holes)
        if self.step is None:
            return False
        return all(number in holes for number in self._ascending())

    @property
    def reaches_limit(self) -> bool:
        """Whether a bound is so far from zero that :data:`LARGEST` has to be taken into account."""
        return any(
            bound is not None and abs(bound) >= ROUND_LIMIT for bound in (self.low, self.high)
        )

    def finite(self) -> Interval:
        """Return the interval without the numbers that are infinite as doubles."""
        return self & Interval(low=-LARGEST, high=LARGEST)

    def multiples(self) -> tuple[int | None, int | None]:
        """Return the smallest and the largest k with k * step within the bounds."""
        first = last = None
        if self.step is None:
            raise ValueError("an interval without a step has no multiples")
        if self.low is not None:
            first = -((-self.low / self.step).__floor__())
            first += self.low_open and first * self.step == self.low
        if self.high is not None:
            last = (self.high / self.step).__floor__()
            last -= self.high_open and last * self.step == self.high
        return first, last

    def _ascending(self) -> Iterator[Fraction]:
        """Yield the finite multiples of the step in the interval."""
        step = self.step
        if step is None or any((step / a).denominator == 1 for a in self.excluded_steps):
            return  # Without a step, or all its multiples are excluded.
        first, last = self.finite().multiples()
        if first is None or last is None:
            raise AssertionError("bounds give a first and a last multiple")
        periods = [(step / excluded).denominator for excluded in self.excluded_steps]
        for k in range(first, last + 1):
            spend()
            if all(k % period for period in periods):
                yield k * step

    def members(self, *, limit: int) -> list[Fraction] | None:
        """Return the numbers of the interval, ascending; ``None`` if they may exceed ``limit``."""
        if self.low is None or self.high is None:
            return None
        if self.low == self.high:
            return [] if self.is_empty else [self.low]
        if self.step is None:
            return None
        first, last = self.multiples()
        if first is None or last is None or last - first >= limit:
            return None
        return list(self._ascending())

    def __contains__(self, number: Fraction) -> bool:
        if self.low is not None and (number < self.low or (self.low_open and number == self.low)):
            return False
        if self.high is not None and (
            number > self.high or (self.high_open and number == self.high)
        ):
            return False
        if self.step is not None and not _is_multiple(number, self.step):
            return False
        return not any(_is_multiple(number, step) for step in self.excluded_steps)

    def __and__(self, other: Interval) -> Interval:
        low, low_open = _tighter(self.low, self.low_open, other.low, other.low_open, sign=1)
        high, high_open = _tighter(self.high, self.high_open, other.high, other.high_open, sign=-1)
        if self.step is None or other.step is None:
            step = self.step or other.step
        else:
            step = least_common_multiple(self.step, other.step)
        both = Interval(
            low,
            high,
            low_open,
            high_open,
            step,
            self.excluded_steps | other.excluded_steps,
        )
        if self.step is None or other.step is None or step is None or step <= LARGEST:
            return both
        # Zero is the only finite multiple. Without this case, steps grow without bound.
        zero = Fraction(0)
        if zero not in both:
            return Interval(low=zero, high=zero, low_open=True)
        return Interval(low=zero, high=zero)

    def __neg__(self) -> Interval:
        return replace(
            self,
            low=None if self.high is None else -self.high,
            high=None if self.low is None else -self.low,
            low_open=self.high_open,
            high_open=self.low_open,
        )

    def complement(self) -> list[Interval]:
        """Return the numbers outside of the interval, as intervals that may overlap."""
        parts = []
        if self.low is not None:
            parts.append(Interval(high=self.low, high_open=not self.low_open))
        if self.high is not None:
            parts.append(Interval(low=self.high, low_open=not self.high_open))
        bounds = replace(self, step=None, excluded_steps=frozenset())
        if self.step is not None:
            parts.append(replace(bounds, excluded_steps=frozenset({self.step})))
        parts.extend(replace(bounds, step=step) for step in self.excluded_steps)
        return parts


def _is_multiple(number: Fraction, step: Fraction) -> bool:
    return number.numerator * step.denominator % (number.denominator * step.numerator) == 0


def _tighter(
    a: Fraction | None, a_open: bool, b: Fraction | None, b_open: bool, *, sign: int
) -> tuple[Fraction | None, bool]:
    if a is None:
        return b, b_open
    if b is None:
        return a, a_open
    if a == b:
        return a, a_open or b_open
    return (a, a_open) if (a - b) * sign > 0 else (b, b_open)


def least_common_multiple(a: Fraction, b: Fraction) -> Fraction:
    """Return the smallest number that is an integer multiple of both."""
    return Fraction(lcm(a.numerator, b.numerator), gcd(a.denominator, b.denominator))


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
    """

    intervals: tuple[Interval, ...] = ()
    points: frozenset[Fraction] = _NONE
    holes: frozenset[Fraction] = _NONE

    @classmethod
    def of(cls, intervals: Iterable[Interval], holes: frozenset[Fraction] = _NONE) -> NumberSet:
        """Return the union of intervals without the holes."""
        united: dict[Interval, None] = {}
        single: set[Fraction] = set()
        for interval in dict.fromkeys(intervals):
            if interval.reaches_limit:
                interval = interval.finite()
            if interval.is_within(holes):
                continue
            if interval.low is not None and interval.low == interval.high:
                single.add(interval.low)
            else:
                united[interval] = None
        if Interval() in united:
            united = {Interval(): None}
        spend(len(holes) * len(united) // 8)
        left = frozenset(hole for hole in holes if any(hole in interval for interval in united))
        return cls(tuple(united), frozenset(single), left)

    @classmethod
    def union(cls, sets: Iterable[NumberSet]) -> NumberSet:
        """Return the union of sets."""
        found = [numbers for numbers in dict.fromkeys(sets) if not numbers.is_empty]
        if len(found) <= 1:
            return found[0] if found else NO_NUMBERS
        points = _NONE.union(*(numbers.points for numbers in found))
        holes: set[Fraction] = set()
        for numbers in found:
            spend(len(numbers.holes) * len(found) // 8)
            holes.update(
                hole
                for hole in numbers.holes - points
                if not any(other._in_intervals(hole) for other in found if other is not numbers)
            )
        united = cls.of((i for numbers in found for i in numbers.intervals), frozenset(holes))
        return cls(united.intervals, points | united.points, united.holes)

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
        single = common.points.union(self._points_in(other), other._points_in(self))
        return NumberSet(common.intervals, single, common.holes)

    def _points_in(self, other: NumberSet) -> Iterator[Fraction]:
        """Yield the points that are in another set too."""
        spend(len(self.points) * len(other.intervals) // 8)
        return (number for number in self.points if number in other)

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


def points(numbers: Iterable[Fraction]) -> NumberSet:
    """Return the set of the given numbers that are finite as doubles."""
    finite: list[Fraction] = []
    for number in numbers:
        if not len(finite) % POINTS_PER_STEP:
            spend()
        if -LARGEST <= number <= LARGEST:
            finite.append(number)
    return NumberSet(points=frozenset(finite))
