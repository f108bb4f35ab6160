"""The decimals between two bounds that are on a lattice, as a language of code points.

A state is what is left of the question: how many digits may still come before the point, what the
bounds leave to be compared, and the digits read so far as a remainder. Whether anything can follow
is decided by arithmetic: k more digits after the whole number p reach the numbers from p * 10^k up
to (p + 1) * 10^k, and it is easy to say whether a multiple of the step lies there. So there is no
product of automata, however many multiples must hold or fail together.

All numbers are scaled by a power of ten (``places``) that makes bounds and steps whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from state_machines.grammar.node import EMPTY, Node, Transitions, collect_transitions, intern_node
from state_machines.grammar.nodes import branch, concatenation, optional, repetition, symbols
from state_machines.grammar.symbols import code_points
from state_machines.json_schema.numbers.decimal_grid import Grid, grid_of
from state_machines.json_schema.numbers.intervals import LARGEST, MAX_INTEGER_DIGITS, Interval
from state_machines.json_schema.numbers.lattices import (
    Lattice,
    decimal_places,
    least_common_multiple,
)

__all__ = ["DIGIT", "FRACTION", "ZEROS", "magnitudes"]

_DIGITS = [code_points(ord("0") + digit) for digit in range(10)]
_DOT = code_points(ord("."))
_POINT = symbols(_DOT)
_ZERO = symbols(_DIGITS[0])
_POSITIVE = symbols(code_points(ord("1"), ord("9")))

DIGIT = symbols(code_points(ord("0"), ord("9")))
FRACTION = concatenation(_POINT, repetition(DIGIT, 1, None))
ZEROS = repetition(_ZERO, 0, None)


class _Ahead(NamedTuple):
    """The digits that may still come before the point: from ``least`` to ``most`` of them.

    What comes is at least ``low`` if it is so short that ``least`` digits are all, and at most
    ``high`` if ``most`` digits are; ``None`` where it may be anything. ``holes`` are excepted:
    pairs of a count of digits and what these and the digits behind the point must not be.
    """

    least: int
    most: int
    low: int | None
    high: int | None
    holes: tuple[tuple[int, int], ...] = ()

    def after(self, digit: int, grid: Grid) -> _Ahead | None:
        """Return what may come after a digit; ``None``: nothing."""
        least, most, low, high = self.least, self.most - 1, self.low, self.high
        if least == 0:
            low = None
        else:
            block = 10 ** (least - 1 + grid.places)
            least -= 1
            if low is not None:
                low -= digit * block
                if low >= block:
                    least, low = least + 1, None
                elif low < 0 or (low == 0 and not grid.low_open):
                    low = None
        if high is not None and most >= 0:
            block = 10 ** (most + grid.places)
            high -= digit * block
            if high < 0 or (high == 0 and grid.high_open):
                most, high = most - 1, None
            elif high >= block - (not grid.dense):
                high = None
        if least > most:
            return None
        holes = []
        for count, rest in self.holes:
            rest -= digit * 10 ** (count - 1 + grid.places) if count else 0
            if count and 0 <= rest < 10 ** (count - 1 + grid.places):
                holes.append((count - 1, rest))
        return _Ahead(least, most, low, high, tuple(holes))

    def after_leading_zero(self, grid: Grid) -> _Ahead | None:
        """Return what may come after a first digit 0: the point and no digit before it."""
        ahead = self.after(0, grid)
        if ahead is None or ahead.least > 0:
            return None
        holes = tuple(hole for hole in ahead.holes if hole[0] == 0)
        return ahead._replace(most=0, high=ahead.high if ahead.most == 0 else None, holes=holes)


class Whole(Node):
    """The whole digits so far leave ``rest``, as far as the lattice can tell; more may come."""

    __slots__ = ("ahead", "grid", "rest")

    def __init__(self, grid: Grid, rest: int, ahead: _Ahead, min_length: int) -> None:
        self.grid = grid
        self.rest = rest
        self.ahead = ahead
        tail = grid.tail.max_length
        super().__init__(
            nullable=min_length == 0,
            min_length=min_length,
            max_length=None if grid.dense or grid.places or tail is None else ahead.most + tail,
        )

    def compute_transitions(self) -> Transitions:
        grid, ahead = self.grid, self.ahead
        steps = []
        for digit, mark in enumerate(_DIGITS):
            then = ahead.after(digit, grid)
            if then is not None:
                steps.append((mark, _whole(grid, self.rest * 10 + digit, then)))
        if grid.dense or grid.places:
            steps.append((_DOT, self._point()))
        elif self.nullable:
            steps.extend(grid.tail.transitions)
        return collect_transitions(steps)

    def _point(self) -> Node:
        grid, ahead = self.grid, self.ahead
        if ahead.least:
            return EMPTY
        return _part(
            grid,
            self.rest * 10**grid.places,
            grid.places,
            ahead.low,
            ahead.high if ahead.most == 0 else None,
            tuple(rest for count, rest in ahead.holes if count == 0),
            begun=False,
        )


def _whole(grid: Grid, rest: int, ahead: _Ahead) -> Node:
    if ahead.low is None and ahead.high is None and not ahead.holes:
        grid = grid.unbounded
        if grid.is_trivial:
            tail = optional(FRACTION) if grid.dense else grid.tail
            return concatenation(repetition(DIGIT, ahead.least, ahead.most), tail)
    rest %= grid.whole_modulus
    best: int | None = None
    for count in range(ahead.least, ahead.most + 1):
        if best is not None and count >= best:
            break
        room = 10 ** (count + grid.places)
        fewest = grid.fewest(
            rest * room % grid.modulus,
            grid.places,
            ahead.low if count == ahead.least else None,
            ahead.high if count == ahead.most else None,
            room,
            taken={hole for length, hole in ahead.holes if length == count},
            most=grid.places + 1 if best is None else max(best - count - 2, 0),
        )
        if fewest is not None:
            best = count + (fewest + 1 if fewest else 0)
    if best is None:
        return EMPTY
    nearest = best
    return intern_node((Whole, grid, rest, ahead), lambda: Whole(grid, rest, ahead, nearest))


class Part(Node):
    """``base`` has been read, up to some digits behind the point; ``places`` more of them count.

    What comes is at least ``low`` and at most ``high`` and none of ``holes``; ``begun``: a digit
    has been read behind the point.
    """

    __slots__ = ("base", "begun", "grid", "high", "holes", "low", "places")

    def __init__(
        self,
        grid: Grid,
        base: int,
        places: int,
        low: int | None,
        high: int | None,
        holes: tuple[int, ...],
        begun: bool,
        min_length: int,
    ) -> None:
        self.grid = grid
        self.base = base
        self.places = places
        self.low = low
        self.high = high
        self.holes = holes
        self.begun = begun
        super().__init__(nullable=min_length == 0, min_length=min_length, max_length=None)

    def compute_transitions(self) -> Transitions:
        return collect_transitions((mark, self._after(digit)) for digit, mark in enumerate(_DIGITS))

    def _after(self, digit: int) -> Node:
        grid, low, high = self.grid, self.low, self.high
        block = 10 ** (self.places - 1)
        come = digit * block
        if low is not None:
            low -= come
            if low >= block:
                return EMPTY
            if low < 0 or (low == 0 and not grid.low_open):
                low = None
        if high is not None:
            high -= come
            if high < 0 or (high == 0 and grid.high_open):
                return EMPTY
            if high >= block - (not grid.dense):
                high = None
        holes = tuple(hole - come for hole in self.holes if 0 <= hole - come < block)
        return _part(grid, self.base + come, self.places - 1, low, high, holes, begun=True)


def _part(
    grid: Grid,
    base: int,
    places: int,
    low: int | None,
    high: int | None,
    holes: tuple[int, ...],
    *,
    begun: bool,
) -> Node:
    if low is None and high is None and not holes:
        avoided = grid.lattice.avoided
        if grid.dense and all(-base % other >= 10**places for other in avoided):
            return repetition(DIGIT, 0 if begun else 1, None)
        grid = grid.unbounded
    base %= grid.modulus
    if places == 0:
        return _beyond(grid, base, low, high, holes, begun=begun)
    fewest = grid.fewest(
        base, places, low, high, 10**places, taken=frozenset(holes), most=places + 1
    )
    if fewest is None:
        return EMPTY
    nearest = fewest if begun else max(fewest, 1)
    return intern_node(
        (Part, grid, base, places, low, high, holes, begun),
        lambda: Part(grid, base, places, low, high, holes, begun, nearest),
    )


def _beyond(
    grid: Grid,
    base: int,
    low: int | None,
    high: int | None,
    holes: tuple[int, ...],
    *,
    begun: bool,
) -> Node:
    """Return what may follow where no more places count."""
    must_differ = low is not None or bool(holes) or base not in grid.lattice
    if high is not None or not grid.dense:
        return EMPTY if must_differ else repetition(_ZERO, 0 if begun else 1, None)
    if must_differ:
        return concatenation(ZEROS, _POSITIVE, repetition(DIGIT, 0, None))
    return repetition(DIGIT, 0 if begun else 1, None)


def magnitudes(interval: Interval, holes: Iterable[Fraction] = ()) -> Node:
    """Return the unsigned decimals of an interval, less the holes, with any trailing zeros.

    Behind whole numbers of step 1 there is at most one zero, and no point if they are plain.
    """
    step, low, high = interval.step, interval.low, interval.high
    excepted = [hole for hole in holes if hole >= 0 and hole in interval]
    if step is None:
        values = [*interval.avoided, *excepted, *(b for b in (low, high) if b is not None)]
        places = max(map(decimal_places, values), default=0)
        scale = 10**places
        lattice = Lattice(1, tuple(sorted(int(a * scale) for a in interval.avoided)))
        low_open = interval.low_open and low is not None and low >= 0
        grid = grid_of(lattice, places, True, "none", low_open, interval.high_open)
        low = max(low or Fraction(0), Fraction(0))
    else:
        places = decimal_places(step)
        scale = 10**places
        multiples = {least_common_multiple(step, avoided) for avoided in interval.avoided}
        lattice = Lattice(int(step * scale), tuple(sorted(int(a * scale) for a in multiples)))
        tail = "none" if interval.is_plain else "one zero" if step == 1 else "zeros"
        grid = grid_of(lattice, places, False, tail)
        first, last = interval.multiples()
        low = step * max(first or 0, 0)
        high = None if last is None else step * last
    if high is not None and (high < 0 or high < low):
        return EMPTY
    return _start(grid, int(low * scale), None if high is None else int(high * scale), excepted)


def _start(grid: Grid, low: int, high: int | None, holes: list[Fraction]) -> Node:
    scale = grid.scale
    least = _digits(low // scale)
    if high is not None and high < scale * 10**MAX_INTEGER_DIGITS:
        return _digits_between(grid, low, high, least, _digits(high // scale), holes)
    node = _digits_between(grid, low, None, least, MAX_INTEGER_DIGITS, holes)
    if node is EMPTY:
        largest = int(LARGEST * scale)
        high = largest if high is None else min(high, largest)
        node = _digits_between(grid, low, high, least, MAX_INTEGER_DIGITS + 1, holes)
    return node


def _digits_between(
    grid: Grid, low: int, high: int | None, least: int, most: int, holes: list[Fraction]
) -> Node:
    """Return the numbers between the bounds that have ``least`` to ``most`` integer digits."""
    scale = grid.scale
    is_bound = low > 0 or grid.low_open
    ahead = _Ahead(
        least,
        most,
        low if is_bound else None,
        high,
        tuple(sorted((_digits(int(hole)), int(hole * scale)) for hole in holes)),
    )
    if least > most:
        return EMPTY
    steps = []
    for digit, mark in enumerate(_DIGITS):
        then = ahead.after(digit, grid) if digit else ahead.after_leading_zero(grid)
        if then is not None:
            steps.append((mark, _whole(grid, digit, then)))
    return branch(steps)


def _digits(whole: int) -> int:
    return len(str(whole))
