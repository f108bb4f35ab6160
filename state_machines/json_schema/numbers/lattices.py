"""Whole numbers in arithmetic progression, some left out: is there one between two bounds?"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm

from state_machines.budgets import spend

__all__ = ["Lattice", "decimal_places", "least_common_multiple"]


@dataclass(frozen=True, slots=True)
class Lattice:
    """The multiples of ``step`` that are multiples of none of ``avoided``.

    Each of ``avoided`` is itself a multiple of ``step``.
    """

    step: int = 1
    avoided: tuple[int, ...] = ()

    @property
    def modulus(self) -> int:
        """What numbers may be reduced by without changing whether they are members."""
        return lcm(self.step, *self.avoided)

    def __contains__(self, number: int) -> bool:
        return number % self.step == 0 and all(number % avoided for avoided in self.avoided)

    def has_member(
        self, base: int, first: int, last: int, *, unit: int = 1, taken: Container[int] = ()
    ) -> bool:
        """Whether ``base + x`` is a member for a multiple x of ``unit``, first <= x <= last.

        None of ``taken`` counts as such an x. ``base`` stands for a multiple of ``unit``, and may
        be reduced by :attr:`modulus`.

        The sums that are multiples of the step are those of one greater step. Of these, each of
        ``avoided`` leaves out every q-th for some q > 1, so by Jacobsthal's function a short run
        of them holds a member, and nothing is searched for long.
        """
        stride, shared, inverse = _common(self.step, unit)
        if not self.avoided and not taken and last - first + 1 >= stride:
            return True
        if any(stride % avoided == 0 for avoided in self.avoided):
            return False
        x = -base // shared * inverse * unit
        x += -((x - first) // stride) * stride
        while x <= last:
            spend()
            if x not in taken and all((base + x) % avoided for avoided in self.avoided):
                return True
            x += stride
        return False


@lru_cache(maxsize=4096)
def _common(step: int, unit: int) -> tuple[int, int, int]:
    """Return the common multiple, the common divisor, and what makes a ``unit`` a divisor."""
    shared = gcd(step, unit)
    return lcm(step, unit), shared, pow(unit // shared, -1, step // shared)


def decimal_places(number: Fraction) -> int:
    """Return how many digits a decimal fraction has behind the point."""
    denominator = number.denominator
    twos = (denominator & -denominator).bit_length() - 1
    fives, rest = 0, denominator >> twos
    while rest > 1:
        fives, rest = fives + 1, rest // 5
    return max(twos, fives)


def least_common_multiple(a: Fraction, b: Fraction) -> Fraction:
    """Return the least number that is a whole multiple of both."""
    return Fraction(lcm(a.numerator, b.numerator), gcd(a.denominator, b.denominator))
