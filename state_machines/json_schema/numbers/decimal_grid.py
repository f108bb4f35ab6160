"""What is the same in all states of a language of decimals: the lattice, and the scale of it."""

from __future__ import annotations

from collections.abc import Container
from math import gcd
from weakref import WeakValueDictionary

from state_machines.budgets import spend
from state_machines.grammar.node import EPSILON
from state_machines.grammar.nodes import concatenation, optional, repetition, symbols
from state_machines.grammar.symbols import code_points
from state_machines.json_schema.numbers.lattices import Lattice

__all__ = ["Grid", "grid_of"]

_POINT = symbols(code_points("."))
_ZERO = symbols(code_points("0"))

_TAILS = {
    "none": EPSILON,
    "one zero": optional(concatenation(_POINT, _ZERO)),
    "zeros": optional(concatenation(_POINT, repetition(_ZERO, 1, None))),
}
"""What may follow the digits of a number of a lattice without decimal places."""


class Grid:
    """What the states of one language have in common; equal ones are one object.

    ``dense``: digits beyond ``places`` are free, so that a number is on the lattice, which then
    only leaves numbers out, as soon as one of these is not zero. Otherwise they are all zero.
    """

    __slots__ = (
        "__weakref__",
        "cost",
        "dense",
        "high_open",
        "is_trivial",
        "lattice",
        "low_open",
        "modulus",
        "places",
        "scale",
        "tail",
        "unbounded",
        "whole_modulus",
    )

    def __init__(
        self,
        lattice: Lattice,
        places: int,
        dense: bool,
        tail: str,
        low_open: bool,
        high_open: bool,
    ) -> None:
        self.lattice = lattice
        self.places = places
        self.dense = dense
        self.low_open = low_open
        self.high_open = high_open
        self.tail = _TAILS[tail]
        self.scale = 10**places
        self.modulus = lattice.modulus
        # Steps charged for one question; 1,024 bits are divided in about a microsecond.
        self.cost = 1 + (self.modulus.bit_length() + self.scale.bit_length()) // 4096
        self.whole_modulus = self.modulus // gcd(self.modulus, self.scale)
        # Then every number with a whole part of the right length is in, but for bounds.
        self.is_trivial = lattice == Lattice() and (dense or not places)
        is_open = low_open or high_open
        self.unbounded = grid_of(lattice, places, dense, tail) if is_open else self

    def fewest(
        self,
        base: int,
        places: int,
        low: int | None,
        high: int | None,
        room: int,
        *,
        taken: Container[int],
        most: int,
    ) -> int | None:
        """Return the fewest digits behind the point that lead to a number, at most ``most``.

        The number is ``base`` and some more, less than ``room`` and within the bounds and not
        ``taken``, of which the last ``places`` digits are to come behind the point. ``None``: no
        number is reached.
        """
        first = 0 if low is None else low + self.low_open
        last = room - 1 if high is None else high - self.high_open

        def reachable(count: int) -> bool:
            spend(self.cost)
            unit = 10 ** (places - count)
            return self.lattice.has_member(base, first, last, unit=unit, taken=taken)

        found = min(places, most)
        if not reachable(found):
            inside = self.dense and (low or 0) < (room if high is None else high)
            return places + 1 if inside and most > places else None
        if reachable(0):
            return 0
        below = 0
        while found - below > 1:
            middle = (below + found) // 2
            below, found = (below, middle) if reachable(middle) else (middle, found)
        return found


_LIVING: WeakValueDictionary[tuple[object, ...], Grid] = WeakValueDictionary()


def grid_of(
    lattice: Lattice,
    places: int,
    dense: bool,
    tail: str,
    low_open: bool = False,
    high_open: bool = False,
) -> Grid:
    """Return the grid; ``tail`` is what may follow whole numbers: none, one zero or zeros."""
    key = (lattice, places, dense, tail, low_open, high_open)
    grid = _LIVING.get(key)
    if grid is None:
        grid = _LIVING[key] = Grid(*key)
    return grid
