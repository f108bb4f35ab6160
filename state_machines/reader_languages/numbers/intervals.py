"""Intervals of numbers that are multiples of a step, and of no excluded step.

Bounds and steps are exact (:class:`fractions.Fraction`). An integer is a multiple of 1. Bounds are
those of a schema. Between which decimals they are satisfied is decided where numbers are written or
compared, by :attr:`Interval.low_end` and :attr:`Interval.high_end`.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import gcd, lcm

from state_machines.budgets import spend
from state_machines.reader_languages.numbers.doubles import (
    EXACT_LIMIT,
    IntervalEnd,
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
    def holds_all(self) -> bool:
        """Whether every number is in the interval."""
        bounds = (self.low, self.high, self.step)
        return bounds == (None, None, None) and not self.excluded_steps

    @property
    def is_empty(self) -> bool:
        """Whether no number of the interval can be written."""
        return self.is_within(())

    @property
    def low_end(self) -> IntervalEnd | None:
        """The end of the decimals that satisfy the lower bound."""
        return None if self.low is None else lower_end(self.low, self.low_open)

    @property
    def high_end(self) -> IntervalEnd | None:
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
        if self.holds_all:
            return True
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
