"""Multiples of a step, and the part of a language of decimals that all of its states share."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm
from weakref import WeakValueDictionary

from state_machines.budgets import spend
from state_machines.grammar.node import EPSILON
from state_machines.grammar.nodes import concatenation, optional, repetition, symbols
from state_machines.grammar.symbols import code_points

_POINT = symbols(code_points("."))
_ZERO = symbols(code_points("0"))

_TAILS = {
    "none": EPSILON,
    "one zero": optional(concatenation(_POINT, _ZERO)),
    "zeros": optional(concatenation(_POINT, repetition(_ZERO, 1, None))),
}
"""Languages of zeros after the integer digits of a number without decimal places."""


@dataclass(frozen=True, slots=True)
class Multiples:
    """The integers that are multiples of ``step`` and of none of ``excluded_steps``.

    Each excluded step is itself a multiple of ``step``.
    """

    step: int = 1
    excluded_steps: tuple[int, ...] = ()

    @property
    def modulus(self) -> int:
        """Numbers that are congruent modulo this are all members, or none is."""
        return lcm(self.step, *self.excluded_steps)

    def __contains__(self, number: int) -> bool:
        return number % self.step == 0 and all(number % step for step in self.excluded_steps)

    def has_member(self, base: int, first: int, last: int, unit: int) -> bool:
        """Return whether ``base + x`` is a member for some x in ``first`` to ``last``.

        The sums that are multiples of the step form an arithmetic progression. Each excluded step
        removes every q-th of its terms for some q > 1. By Jacobsthal's function a short run of the
        progression then holds a member, so the loop is short.

        Args:
            base: A multiple of ``unit``; may be reduced by :attr:`modulus`.
            first: The smallest x.
            last: The largest x.
            unit: x is a multiple of it.
        """
        stride, shared, inverse = _progression(self.step, unit)
        if any(stride % step == 0 for step in self.excluded_steps):
            return False
        x = -base // shared * inverse * unit
        x += -((x - first) // stride) * stride
        while x <= last:
            if all((base + x) % step for step in self.excluded_steps):
                return True
            spend()
            x += stride
        return False


@lru_cache(maxsize=4096)
def _progression(step: int, unit: int) -> tuple[int, int, int]:
    """Return lcm and gcd of step and unit, and the inverse of unit/gcd modulo step/gcd."""
    shared = gcd(step, unit)
    return lcm(step, unit), shared, pow(unit // shared, -1, step // shared)


def decimal_places(number: Fraction) -> int:
    """Return the number of digits after the point of a decimal fraction."""
    denominator = number.denominator
    twos = (denominator & -denominator).bit_length() - 1
    fives, rest = 0, denominator >> twos
    while rest > 1:
        fives, rest = fives + 1, rest // 5
    return max(twos, fives)


@dataclass(eq=False)
class Grid:
    """What all states of one language of decimals share; equal grids are one object.

    Numbers are integers in units of 10 ** -``places``.

    Attributes:
        multiples: The numbers of the language, but for bounds.
        places: Digits after the point that are compared and divided.
        dense: Whether any digits may follow these; if one of them is not zero, the number is no
            multiple of an excluded step. Otherwise only zeros may follow.
        low_open: Whether the lower bound is excluded.
        high_open: Whether the upper bound is excluded.
        low_rest: The digits of the lower bound behind these places.
        high_rest: The digits of the upper bound behind these places.
        tail_name: The key of ``tail`` in :data:`_TAILS`.
        tail: Language after the integer digits, if ``places`` is 0 and the grid is not dense.
        scale: 10 ** ``places``.
        modulus: Modulus of ``multiples``.
        integer_modulus: The same for integer digits, before any digit after the point.
        cost: Steps charged for one membership question.
        excludes_low: Whether a number whose places equal those of the lower bound needs a digit
            behind them that is not zero.
        excludes_high: Whether no number has the places of the upper bound.
        is_trivial: Whether every number is in the language, but for bounds.
        unbounded: The grid without bounds.
    """

    multiples: Multiples
    places: int
    dense: bool
    tail_name: str
    low_open: bool = False
    high_open: bool = False
    low_rest: str = ""
    high_rest: str = ""

    def __post_init__(self) -> None:
        self.modulus = self.multiples.modulus
        self.tail = _TAILS[self.tail_name]
        self.scale = 10**self.places
        # A division of 1,024 bits takes about a microsecond.
        self.cost = 1 + (self.modulus.bit_length() + self.scale.bit_length()) // 4096
        self.integer_modulus = self.modulus // gcd(self.modulus, self.scale)
        self.is_trivial = self.multiples == Multiples() and (self.dense or not self.places)
        self.excludes_low = self.low_open or bool(self.low_rest)
        self.excludes_high = self.high_open and not self.high_rest
        self.unbounded: Grid = self
        if self.excludes_low or self.high_open or self.high_rest:
            self.unbounded = grid_of(self.multiples, self.places, self.dense, self.tail_name)

    def fewest_digits(
        self,
        base: int,
        places: int,
        low: int | None,
        high: int | None,
        room: int,
        *,
        max_digits: int,
    ) -> int | None:
        """Return the fewest digits after the point that complete a number of the language.

        The number is ``base + x`` with 0 <= x < ``room`` and ``low`` <= x <= ``high``; the last
        ``places`` digits of x are those after the point.

        Returns:
            ``places`` + 1 if the number needs a digit after these that is not zero; ``None`` if no
            number can be reached with ``max_digits`` digits.
        """
        first = 0 if low is None else low + self.excludes_low
        last = room - 1 if high is None else high - self.excludes_high

        def is_reachable(digits: int) -> bool:
            spend(self.cost)
            unit = 10 ** (places - digits)
            return self.multiples.has_member(base, first, last, unit)

        found = min(places, max_digits)
        if not is_reachable(found):
            end = room if high is None else high + bool(self.high_rest)
            inside = self.dense and (low or 0) < end
            return places + 1 if inside and max_digits > places else None
        if is_reachable(0):
            return 0
        below = 0
        while found - below > 1:
            middle = (below + found) // 2
            below, found = (below, middle) if is_reachable(middle) else (middle, found)
        return found


_GRIDS: WeakValueDictionary[tuple[object, ...], Grid] = WeakValueDictionary()


def grid_of(
    multiples: Multiples,
    places: int,
    dense: bool,
    tail: str,
    low_open: bool = False,
    high_open: bool = False,
    low_rest: str = "",
    high_rest: str = "",
) -> Grid:
    """Return the grid; ``tail`` is a key of :data:`_TAILS`."""
    key = (multiples, places, dense, tail, low_open, high_open, low_rest, high_rest)
    grid = _GRIDS.get(key)
    if grid is None:
        grid = _GRIDS[key] = Grid(*key)
    return grid
