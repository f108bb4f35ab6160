"""Intervals of numbers that are multiples of a step and of no excluded step.

Bounds and steps are exact (:class:`fractions.Fraction`). An integer is a multiple of 1.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
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
        is_plain: Whether numbers are written without a point, as integers of draft 4 are.
    """

    low: Fraction | None = None
    high: Fraction | None = None
    low_open: bool = False
    high_open: bool = False
    step: Fraction | None = None
    excluded_steps: frozenset[Fraction] = frozenset()
    is_plain: bool = False

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
            self.is_plain or other.is_plain,
        )
        if self.step is None or other.step is None or step is None or step <= LARGEST:
            return both
        # Zero is the only finite multiple. Without this case, steps grow without bound.
        zero = Fraction(0)
        if zero not in both:
            return Interval(low=zero, high=zero, low_open=True)
        return Interval(low=zero, high=zero, is_plain=both.is_plain)

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
        bounds = replace(self, step=None, excluded_steps=frozenset(), is_plain=False)
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
