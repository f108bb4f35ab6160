"""Sets of numbers: unions of intervals, with single numbers added or excluded.

An interval has the numbers that are multiples of a step and of no excluded step. Single numbers are
no intervals, since an ``enum`` can have a hundred thousand of them. Bounds and steps are exact
(:class:`fractions.Fraction`). An integer is a multiple of 1.

Bounds are those of a schema. Between which decimals they are satisfied is decided where numbers are
written or compared, by :attr:`Interval.low_end` and :attr:`Interval.high_end`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import gcd, lcm

from state_machines.budgets import spend
from state_machines.json_schema.numbers.doubles import (
    EXACT_LIMIT,
    End,
    double_at,
    doubles_between,
    is_short,
    lower_end,
    nearest,
    upper_end,
)

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
    def is_empty(self) -> bool:
        """Whether no number of the interval can be written."""
        return self.is_within(())

    @property
    def low_end(self) -> End | None:
        """The end of the decimals that satisfy the lower bound."""
        return None if self.low is None else lower_end(self.low, self.low_open)

    @property
    def high_end(self) -> End | None:
        """The end of the decimals that satisfy the upper bound."""
        return None if self.high is None else upper_end(self.high, self.high_open)

    def is_within(self, holes: Collection[Fraction]) -> bool:
        """Return whether no number of the interval but ``holes`` can be written."""
        if self.low is not None and self.high is not None and self.low >= self.high:
            return self.low > LARGEST or self.low not in self or self.low in holes
        if self.reaches_limit and (finite := self.finite()) != self:
            return finite.is_within(holes)
        if self.step is None:
            places = self._places()
            if places is None or places.stop - places.start > len(holes):
                return False
            doubles = set(map(nearest, holes))
            return all(double_at(place) in doubles for place in places)
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
        is_integral = self.step.denominator == 1
        low, low_open, high, high_open = self.low, self.low_open, self.high, self.high_open
        if low is not None:
            if not is_integral or abs(low) >= EXACT_LIMIT:
                low, low_open = lower_end(low, low_open)
            first = -((-low / self.step).__floor__())
            first += low_open and first * self.step == low
        if high is not None:
            if not is_integral or abs(high) >= EXACT_LIMIT:
                high, high_open = upper_end(high, high_open)
            last = (high / self.step).__floor__()
            last -= high_open and last * self.step == high
        return first, last

    def _places(self) -> range | None:
        """Return the places of the doubles between the bounds; ``None`` if there is no bound."""
        if self.low is None or self.high is None:
            return None
        return doubles_between(
            self.low, self.high, low_open=self.low_open, high_open=self.high_open
        )

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
        """Return numbers of the interval that are different doubles.

        Returns:
            All of them, ascending; none if they cannot be counted; ``None`` if they may exceed
            ``limit``.
        """
        places = self._places()
        if self.low is None or places is None:
            return None
        if self.low == self.high:
            return [] if self.is_empty else [self.low]
        if self.step is None:
            if places.stop - places.start > limit:
                return None
            return [number for place in places if (number := exact(double_at(place))) in self]
        first, last = self.multiples()
        if first is None or last is None:
            raise AssertionError("bounds give a first and a last multiple")
        if last - first < limit:
            return list({nearest(number): number for number in self._ascending()}.values())
        if max(abs(first), abs(last)) * self.step.numerator < EXACT_LIMIT // 10:
            return None  # Decimals of up to 15 digits are different doubles.
        # Where doubles are closer than the multiples, these are counted; elsewhere the doubles.
        return None if min(last - first, places.stop - places.start) // 2 - 2 >= limit else []

    def __contains__(self, number: Fraction) -> bool:
        low, low_open, high, high_open = self.low, self.low_open, self.high, self.high_open
        if not is_short(number):
            if low is not None:
                low, low_open = lower_end(low, low_open)
            if high is not None:
                high, high_open = upper_end(high, high_open)
        if low is not None and (number < low or (low_open and number == low)):
            return False
        if high is not None and (number > high or (high_open and number == high)):
            return False
        if self.step is not None and not _is_multiple(number, self.step):
            return False
        return not any(_is_multiple(number, step) for step in self.excluded_steps)

    def __and__(self, other: Interval) -> Interval:
        both = (self, other)
        lows = [(each.low, each.low_open) for each in both if each.low is not None]
        low, low_open = max(lows, key=_low_order, default=(None, False))
        highs = [(each.high, each.high_open) for each in both if each.high is not None]
        high, high_open = min(highs, key=_high_order, default=(None, False))
        if self.step is None or other.step is None:
            step = self.step or other.step
        else:
            step = least_common_multiple(self.step, other.step)
        excluded_steps = self.excluded_steps | other.excluded_steps
        common = Interval(low, high, low_open, high_open, step, excluded_steps)
        if self.step is None or other.step is None or step is None or step <= LARGEST:
            return common
        # Zero is the only finite multiple. Without this case, steps grow without bound.
        zero = Fraction(0)
        return Interval(low=zero, high=zero, low_open=zero not in common)

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


def _low_order(bound: tuple[Fraction, bool]) -> tuple[Fraction, bool]:
    """Order lower bounds, each with whether it is excluded: the last one implies the others."""
    return bound if is_short(bound[0]) else lower_end(*bound)


def _high_order(bound: tuple[Fraction, bool]) -> tuple[Fraction, bool]:
    """Order upper bounds, each with whether it is excluded: the first one implies the others."""
    value, is_open = bound if is_short(bound[0]) else upper_end(*bound)
    return value, not is_open


def _is_multiple(number: Fraction, step: Fraction) -> bool:
    return number.numerator * step.denominator % (number.denominator * step.numerator) == 0


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
    """A set of numbers: the exceptions that are in no interval, and the others of the intervals.

    Attributes:
        intervals: Intervals with more than one number, and with more than the exceptions.
        exceptions: The numbers that are in the set or in an interval, but not in both.
    """

    intervals: tuple[Interval, ...] = ()
    exceptions: frozenset[Fraction] = _NONE

    @classmethod
    def of(cls, intervals: Iterable[Interval]) -> NumberSet:
        """Return the union of intervals."""
        listed = tuple(intervals)
        return cls._of(listed, (), lambda number: any(number in each for each in listed))

    @classmethod
    def _of(
        cls,
        intervals: Iterable[Interval],
        exceptions: Iterable[Fraction],
        contains: Callable[[Fraction], bool],
    ) -> NumberSet:
        """Return the set of a membership test.

        Args:
            intervals: The set, but for the exceptions.
            exceptions: Numbers at which intervals and set may differ.
            contains: The membership test.
        """
        candidates = set(exceptions)
        inside = set(filter(contains, candidates))
        outside = candidates - inside
        united: dict[Interval, None] = {}
        for interval in dict.fromkeys(intervals):
            if interval.reaches_limit:
                interval = interval.finite()
            if interval.low is not None and interval.low == interval.high:
                candidates.add(interval.low)
                inside.update(filter(contains, (interval.low,)))
            elif not interval.is_within(outside):
                united[interval] = None
        if Interval() in united:
            united = {Interval(): None}
        spend(len(candidates) * len(united) // 8)
        covered = {number for number in candidates if any(number in each for each in united)}
        return cls(tuple(united), frozenset(inside ^ covered))

    @classmethod
    def union(cls, sets: Iterable[NumberSet]) -> NumberSet:
        """Return the union of sets."""
        found = [numbers for numbers in dict.fromkeys(sets) if not numbers.is_empty]
        if len(found) <= 1:
            return found[0] if found else NO_NUMBERS
        single = _NONE.union(*(numbers.exceptions for numbers in found if not numbers.intervals))
        others = [numbers for numbers in found if numbers.intervals]
        exceptions = single.union(*(numbers.exceptions for numbers in others))
        intervals = [interval for numbers in others for interval in numbers.intervals]
        spend(len(exceptions) * len(intervals) // 8)
        return cls._of(
            intervals,
            exceptions,
            lambda number: number in single or any(number in each for each in others),
        )

    @property
    def points(self) -> frozenset[Fraction]:
        """The numbers that are in no interval."""
        return self.exceptions - self.holes

    @property
    def holes(self) -> frozenset[Fraction]:
        """The numbers of intervals that are not in the set."""
        return frozenset(filter(self._is_covered, self.exceptions if self.intervals else ()))

    @property
    def is_empty(self) -> bool:
        """Whether the set contains no number."""
        return not self.intervals and not self.exceptions

    def __contains__(self, number: Fraction) -> bool:
        return (number in self.exceptions) != self._is_covered(number)

    def _is_covered(self, number: Fraction) -> bool:
        return any(number in interval for interval in self.intervals)

    def __and__(self, other: NumberSet) -> NumberSet:
        if self == ALL_NUMBERS:
            return other
        if other == ALL_NUMBERS:
            return self
        spend(INTERSECTION_STEPS * max(1, len(self.intervals) * len(other.intervals)))
        spend(len(self.exceptions) * len(other.intervals) // 8)
        spend(len(other.exceptions) * len(self.intervals) // 8)
        return NumberSet._of(
            (a & b for a in self.intervals for b in other.intervals),
            self.exceptions | other.exceptions,
            lambda number: number in self and number in other,
        )

    def __invert__(self) -> NumberSet:
        spans = [each for each in self.intervals if each.step is None and not each.excluded_steps]
        result = NumberSet.of(_gaps(spans))
        for interval in self.intervals:
            if interval.step is not None or interval.excluded_steps:
                result = result & NumberSet.of(interval.complement())
        exceptions = result.exceptions | self.exceptions
        return NumberSet._of(result.intervals, exceptions, lambda number: number not in self)


def _gaps(spans: Iterable[Interval]) -> Iterator[Interval]:
    """Yield the gaps between intervals without steps.

    The intersection of their complements takes a number of steps that grows with the square.
    """
    low: Fraction | None = None
    low_open = False
    for span in sorted(
        spans, key=lambda each: (each.low is not None, each.low or 0, each.low_open)
    ):
        if span.low is not None:
            yield Interval(low, span.low, low_open, not span.low_open)
        if span.high is None:
            return
        if low is None or (span.high, not span.high_open) > (low, low_open):
            low, low_open = span.high, not span.high_open
    yield Interval(low, None, low_open)


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
    return NumberSet(exceptions=frozenset(finite))
