"""The decimals between two bounds that are multiples of a step, as a language of code points.

A state holds what decides the rest of a number: how many digits may still precede the point, the
parts of the bounds that are still to be compared, and the digits so far as a remainder. Whether a
number can be completed is arithmetic: with k more digits an integer p reaches the numbers from
p * 10^k to (p + 1) * 10^k - 1, and :class:`Multiples` decides whether one of them is a member. So
there is no product of automata, however many steps a number must or must not be a multiple of.

All numbers are scaled by a power of ten (``places``) that makes bounds and steps integers.
"""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from typing import NamedTuple

from state_machines.grammar.node import EMPTY, Node, Transitions, collect_transitions, intern_node
from state_machines.grammar.nodes import branch, concatenation, optional, repetition, symbols
from state_machines.grammar.symbols import code_points
from state_machines.reader_languages.numbers.bounded_digits import (
    DIGIT,
    DIGITS,
    bounded_digits,
    split_decimal,
)
from state_machines.reader_languages.numbers.decimal_grid import (
    Grid,
    Multiples,
    decimal_places,
    grid_of,
)
from state_machines.reader_languages.numbers.doubles import IntervalEnd
from state_machines.reader_languages.numbers.intervals import (
    LARGEST,
    MAX_INTEGER_DIGITS,
    Interval,
    least_common_multiple,
)

_DOT = code_points(ord("."))
_ZERO = symbols(DIGITS[0])

POINT = symbols(_DOT)
FRACTION = concatenation(POINT, repetition(DIGIT, 1, None))


_ZERO_END = IntervalEnd(Fraction(0), False)


class DigitBounds(NamedTuple):
    """Bounds on the digits that are still to come, and on the number they begin.

    Before the point these are the digits that may still precede it. Behind it their number is
    fixed: the digits that are compared.

    Attributes:
        min_digits: Smallest number of further digits.
        max_digits: Largest number of further digits.
        low: Smallest value of the rest if it has ``min_digits`` digits; ``None`` if any.
        high: Largest value of the rest if it has ``max_digits`` digits; ``None`` if any.
    """

    min_digits: int
    max_digits: int
    low: int | None
    high: int | None

    def after(self, digit: int, grid: Grid, places: int) -> DigitBounds | None:
        """Return the bounds after a digit; ``None`` if no number is within them.

        Args:
            digit: The digit.
            grid: The grid of the number.
            places: The digits behind the bounded ones: those after the point, if it is to come.
        """
        min_digits, max_digits, low, high = self
        max_digits -= 1
        if min_digits == 0:
            low = None
        else:
            block = 10 ** (min_digits - 1 + places)
            min_digits -= 1
            if low is not None:
                low -= digit * block
                if low >= block:
                    min_digits, low = min_digits + 1, None
                elif low < 0 or (low == 0 and not grid.excludes_low):
                    low = None
        if high is not None and max_digits >= 0:
            block = 10 ** (max_digits + places)
            high -= digit * block
            if high < 0 or (high == 0 and grid.excludes_high):
                max_digits, high = max_digits - 1, None
            elif high >= block - (not grid.dense):
                high = None
        if min_digits > max_digits:
            return None
        return DigitBounds(min_digits, max_digits, low, high)

    def after_leading_zero(self, grid: Grid) -> DigitBounds | None:
        """Return the bounds after a first digit 0, which no other integer digit may follow."""
        bounds = self.after(0, grid, grid.places)
        if bounds is None or bounds.min_digits > 0:
            return None
        high = bounds.high if bounds.max_digits == 0 else None
        return bounds._replace(max_digits=0, high=high)


class IntegerDigits(Node):
    """The state after some integer digits, which are congruent to ``rest``."""

    __slots__ = ("bounds", "grid", "rest")

    def __init__(self, grid: Grid, rest: int, bounds: DigitBounds, min_length: int) -> None:
        self.grid = grid
        self.rest = rest
        self.bounds = bounds
        tail = None if grid.dense or grid.places else grid.tail.max_length
        super().__init__(
            nullable=min_length == 0,
            min_length=min_length,
            max_length=None if tail is None else bounds.max_digits + tail,
        )

    def compute_transitions(self) -> Transitions:
        grid, bounds = self.grid, self.bounds
        steps = []
        for digit, character in enumerate(DIGITS):
            target = bounds.after(digit, grid, grid.places)
            if target is not None:
                steps.append((character, _integer_digits(grid, self.rest * 10 + digit, target)))
        if grid.dense or grid.places:
            steps.append((_DOT, self._point()))
        elif self.nullable:
            steps.extend(grid.tail.transitions)
        return collect_transitions(steps)

    def _point(self) -> Node:
        grid, bounds = self.grid, self.bounds
        if bounds.min_digits:
            return EMPTY
        high = bounds.high if bounds.max_digits == 0 else None
        after_point = DigitBounds(grid.places, grid.places, bounds.low, high)
        return _fraction_digits(grid, self.rest * grid.scale, after_point, begun=False)


def _integer_digits(grid: Grid, rest: int, bounds: DigitBounds) -> Node:
    if bounds.low is None and bounds.high is None:
        grid = grid.unbounded
        if grid.is_trivial:
            tail = optional(FRACTION) if grid.dense else grid.tail
            return concatenation(repetition(DIGIT, bounds.min_digits, bounds.max_digits), tail)
    rest %= grid.integer_modulus
    best: int | None = None
    for count in range(bounds.min_digits, bounds.max_digits + 1):
        if best is not None and count >= best:
            break
        room = 10 ** (count + grid.places)
        fewest = grid.fewest_digits(
            rest * room % grid.modulus,
            grid.places,
            bounds.low if count == bounds.min_digits else None,
            bounds.high if count == bounds.max_digits else None,
            room,
            max_digits=grid.places + 1 if best is None else max(best - count - 2, 0),
        )
        if fewest is not None:
            best = count + (fewest + 1 if fewest else 0)
    if best is None:
        return EMPTY
    nearest = best
    return intern_node(
        (IntegerDigits, grid, rest, bounds), lambda: IntegerDigits(grid, rest, bounds, nearest)
    )


class FractionDigits(Node):
    """The state after the point: ``base`` is the number so far.

    ``begun`` is whether a digit follows the point.
    """

    __slots__ = ("base", "begun", "bounds", "grid")

    def __init__(
        self, grid: Grid, base: int, bounds: DigitBounds, begun: bool, min_length: int
    ) -> None:
        self.grid = grid
        self.base = base
        self.bounds = bounds
        self.begun = begun
        super().__init__(nullable=min_length == 0, min_length=min_length, max_length=None)

    def compute_transitions(self) -> Transitions:
        block, steps = 10 ** (self.bounds.max_digits - 1), []
        for digit, character in enumerate(DIGITS):
            bounds = self.bounds.after(digit, self.grid, 0)
            if bounds is not None:
                base = self.base + digit * block
                target = _fraction_digits(self.grid, base, bounds, begun=True)
                steps.append((character, target))
        return collect_transitions(steps)


def _fraction_digits(grid: Grid, base: int, bounds: DigitBounds, *, begun: bool) -> Node:
    places, low, high = bounds[1:]
    if low is None and high is None:
        excluded = grid.multiples.excluded_steps
        if grid.dense and all(-base % step >= 10**places for step in excluded):
            return repetition(DIGIT, 0 if begun else 1, None)
        grid = grid.unbounded
    base %= grid.modulus
    if places == 0:
        return _free_digits(grid, base, bounds, begun=begun)
    fewest = grid.fewest_digits(base, places, low, high, 10**places, max_digits=places + 1)
    if fewest is None:
        return EMPTY
    nearest = fewest if begun else max(fewest, 1)
    return intern_node(
        (FractionDigits, grid, base, bounds, begun),
        lambda: FractionDigits(grid, base, bounds, begun, nearest),
    )


def _free_digits(grid: Grid, base: int, bounds: DigitBounds, *, begun: bool) -> Node:
    """Return the language of the digits after the last one that is compared."""
    must_differ = base not in grid.multiples
    if not grid.dense:
        return EMPTY if must_differ else repetition(_ZERO, 0 if begun else 1, None)
    low = grid.low_rest if bounds.low is not None else None
    return bounded_digits(
        "" if low is None and must_differ else low,
        None if bounds.high is None else grid.high_rest,
        low_open=grid.low_open or (low is None and must_differ),
        high_open=grid.high_open,
        begun=begun,
    )


def magnitudes(interval: Interval, tail: str = "") -> Node:
    """Return the non-negative decimals of an interval, with trailing zeros.

    Args:
        interval: The interval.
        tail: The zeros after the point of a multiple, as :func:`grid_of` takes it. The default for
            integers is at most one zero.
    """
    step = interval.step
    if step is None:
        low, high = interval.low_end, interval.high_end
        least = _ZERO_END if low is None or low.value < 0 else low
        return dense_magnitudes(least, high, interval.excluded_steps)
    places = decimal_places(step)
    scale = 10**places
    tail = tail or ("one zero" if step == 1 else "zeros")
    excluded_steps = {least_common_multiple(step, a) for a in interval.excluded_steps}
    steps = tuple(sorted(int(a * scale) for a in excluded_steps))
    grid = grid_of(Multiples(int(step * scale), steps), places, False, tail)
    first, last = interval.multiples()
    if last is not None and last < max(first or 0, 0):
        return EMPTY
    unit = int(step * scale)
    return _scaled(grid, unit * max(first or 0, 0), None if last is None else unit * last)


def dense_magnitudes(
    low: IntervalEnd, high: IntervalEnd | None, excluded_steps: Collection[Fraction] = ()
) -> Node:
    """Return the decimals between two bounds that are multiples of no excluded step.

    Args:
        low: The lower bound, at least 0.
        high: The upper bound; ``None`` for no bound.
        excluded_steps: The excluded steps.
    """
    if high is not None and high.value < low.value:
        return EMPTY
    places = max(map(decimal_places, excluded_steps), default=0)
    scale = 10**places
    least, low_rest = split_decimal(low.value * scale)
    most, high_rest = (None, "") if high is None else split_decimal(high.value * scale)
    grid = grid_of(
        Multiples(1, tuple(sorted(int(a * scale) for a in excluded_steps))),
        places,
        True,
        "none",
        low.is_open,
        high is not None and high.is_open,
        low_rest,
        high_rest,
    )
    return _scaled(grid, least, most)


def numbers_between(low: IntervalEnd, high: IntervalEnd, places: int) -> range:
    """Return the decimals between two bounds by their first digits, as :func:`pointed` takes them.

    Args:
        low: The lower bound, at least 0.
        high: The upper bound.
        places: The digits after the point that are listed.
    """
    scale = 10**places
    least, most = (split_decimal(end.value * scale)[0] for end in (low, high))
    return range(least, most + 1)


def rest_between(low: IntervalEnd, high: IntervalEnd, places: int, number: int) -> Node:
    """Return what follows the first digits of the decimals between two bounds.

    Args:
        low: The lower bound, at least 0.
        high: The upper bound.
        places: The digits after the point that are written.
        number: One of :func:`numbers_between`.
    """
    scale = 10**places
    least, low_rest = split_decimal(low.value * scale)
    most, high_rest = split_decimal(high.value * scale)
    at_low, at_high = number == least, number == most

    def digits(*, begun: bool) -> Node:
        return bounded_digits(
            low_rest if at_low else None,
            high_rest if at_high else None,
            low_open=at_low and low.is_open,
            high_open=at_high and high.is_open,
            begun=begun,
        )

    if places:
        return digits(begun=True)
    rest = concatenation(POINT, digits(begun=False))
    return optional(rest) if digits(begun=True).nullable else rest


def pointed(number: int, places: int) -> str:
    """Return a non-negative number, an integer in units of 10 ** -``places``, as a text."""
    digits = str(number).zfill(places + 1)
    return f"{digits[:-places]}.{digits[-places:]}" if places else digits


def _scaled(grid: Grid, low: int, high: int | None) -> Node:
    scale = grid.scale
    min_digits = _digit_count(low // scale)
    if high is not None and high < scale * 10**MAX_INTEGER_DIGITS:
        return _digits_between(grid, low, high, min_digits, _digit_count(high // scale))
    node = _digits_between(grid, low, None, min_digits, MAX_INTEGER_DIGITS)
    if node is EMPTY:
        largest = int(LARGEST * scale)
        high = largest if high is None else min(high, largest)
        node = _digits_between(grid, low, high, min_digits, MAX_INTEGER_DIGITS + 1)
    return node


def _digits_between(
    grid: Grid,
    low: int,
    high: int | None,
    min_digits: int,
    max_digits: int,
) -> Node:
    """Return the numbers between the bounds with a bounded number of integer digits."""
    is_bounded = low > 0 or grid.excludes_low
    bounds = DigitBounds(min_digits, max_digits, low if is_bounded else None, high)
    if min_digits > max_digits:
        return EMPTY
    steps = []
    for digit, character in enumerate(DIGITS):
        target = (
            bounds.after(digit, grid, grid.places) if digit else bounds.after_leading_zero(grid)
        )
        if target is not None:
            steps.append((character, _integer_digits(grid, digit, target)))
    return branch(steps)


def _digit_count(number: int) -> int:
    return len(str(number))
