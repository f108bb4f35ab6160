"""The decimals that are multiples of a step, as a language of code points.

A step is a decimal fraction: P / 10^s with whole P. A decimal is a multiple exactly when, shifted
by s places, it is a whole multiple of P. So a state is a remainder modulo P, with the number of
digits read since the point.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd

from state_machines.grammar.node import EMPTY, Node, Row, collect, intern_node
from state_machines.grammar.nodes import branch, optional, sequence, symbols
from state_machines.grammar.symbols import code_points

__all__ = ["multiples"]

_POINT = code_points(".")
_DIGITS = [code_points(ord("0") + digit) for digit in range(10)]


def multiples(step: Fraction) -> Node:
    """Return the plain decimals, signed and with any trailing zeros, that are multiples of a step.

    Leading zeros are not looked at: intersect with a language that forbids them.
    """
    places = 0
    while (step * 10**places).denominator != 1:
        places += 1
    start = _state(int(step * 10**places), places, 0, None)
    digits = branch((s, target) for s, target in start.row if s is not _POINT)
    return sequence(optional(symbols(code_points("-"))), digits)


class Remainder(Node):
    """The digits read so far, as a whole number, leave ``rest`` modulo ``modulus``.

    ``places`` digits of the fraction count (more may only be zeros); ``fraction`` is the number
    of them read, ``None`` before the point. Every state is live.
    """

    __slots__ = ("fraction", "modulus", "places", "rest")

    def __init__(self, modulus: int, places: int, rest: int, fraction: int | None) -> None:
        self.modulus = modulus
        self.places = places
        self.rest = rest
        self.fraction = fraction
        ends = fraction != 0 and rest * 10 ** (places - (fraction or 0)) % modulus == 0
        super().__init__(
            nullable=ends,
            min_length=0 if ends else self._nearest(),
            max_length=None,
        )

    def _nearest(self) -> int:
        """Return a lower bound on the characters to the nearest multiple; exact for whole ones."""
        if self.fraction is not None:
            return 1
        whole = self.modulus // gcd(self.modulus, 10**self.places)
        digits = 1
        while -self.rest * 10**digits % whole >= 10**digits:
            digits += 1
        return min(digits, 2) if self.places else digits

    def _make_row(self) -> Row:
        steps = [(_DIGITS[digit], self._after(digit)) for digit in range(10)]
        if self.fraction is None:
            steps.append((_POINT, _state(self.modulus, self.places, self.rest, 0)))
        return collect(steps)

    def _after(self, digit: int) -> Node:
        fraction = self.fraction
        if fraction is not None and fraction >= self.places:
            return EMPTY if digit else _state(1, 0, 0, 1)
        rest = (self.rest * 10 + digit) % self.modulus
        return _state(self.modulus, self.places, rest, None if fraction is None else fraction + 1)


def _state(modulus: int, places: int, rest: int, fraction: int | None) -> Node:
    if fraction is not None:
        left = max(places - fraction, 0)
        if -rest * 10**left % modulus >= 10**left:
            return EMPTY
        if not left:
            # Only zeros may follow, so nothing else is left to tell apart.
            modulus, places, rest, fraction = 1, 0, 0, min(fraction, 1)
    return intern_node(
        (Remainder, modulus, places, rest, fraction),
        lambda: Remainder(modulus, places, rest, fraction),
    )
