"""The multiples of a floating-point step that a reader accepts.

JSON Schema compares decimals: 0.3 is a multiple of 0.1. Readers compute with doubles, in which 0.1
is 0.1000000000000000055511151231257827, and differ in the test. For a reader's test this module
returns numbers that satisfy both: the reader accepts them, and a JSON Schema describes them.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

_PRECISION = 53
"""Binary digits of a double."""

_QUOTIENT_BITS = 51
"""Binary digits up to which a quotient of doubles rounds to the exact quotient, an integer."""

_TOLERATED = 2.0**23 - 1
"""Magnitude up to which neighbouring doubles differ by less than pydantic's tolerance, 1e-9."""


@dataclass(frozen=True, slots=True)
class AcceptedMultiples:
    """Multiples of a step that a reader accepts.

    Attributes:
        step: The step.
        limit: The largest magnitude.
        values: The multiples, ascending; ``None`` for all decimal multiples up to ``limit``.
    """

    step: float
    limit: float
    values: tuple[float, ...] | None = None

    def schema(self) -> dict[str, Any]:
        """Return the keywords of a JSON Schema that describe the multiples.

        They may contain bounds, so those of a type belong in another schema of an ``allOf``.
        """
        if self.values is not None:
            return {"enum": list(self.values)}
        return {"multipleOf": self.step, "minimum": -self.limit, "maximum": self.limit}


def multiples_by_remainder(
    step: float, low: float = -math.inf, high: float = math.inf, *, max_values: int = 64
) -> AcceptedMultiples:
    """Return multiples whose remainder, ``fmod(x, step)``, is 0.

    msgspec reads these (0.22, observed). All decimal multiples are among them if the step is a
    double exactly, such as 0.25. Otherwise a number has to be a multiple of the rounded step, and a
    double, too: of 0.1 these are 0.1, 0.2, 0.4, 0.8 and so on, but neither 0.3 nor 1.

    Args:
        step: The step.
        low: The smallest multiple that is needed.
        high: The largest multiple that is needed.
        max_values: The largest number of listed multiples. The ones closest to zero are listed.

    Raises:
        ValueError: The step is not positive and finite.
    """
    odd, power = _odd_part(step)
    if _is_exact(step):
        has_limit = _PRECISION + power < sys.float_info.max_exp
        limit = math.ldexp(1, _PRECISION + power) if has_limit else sys.float_info.max
        return AcceptedMultiples(step, limit)
    positive = _products(step, odd, low, high, max_values)
    negative = [-number for number in _products(step, odd, -high, -low, max_values)]
    zero = [0.0] if low <= 0 <= high else []
    closest = sorted((*zero, *positive, *negative), key=abs)[:max_values]
    return AcceptedMultiples(step, max(map(abs, closest), default=0.0), tuple(sorted(closest)))


def multiples_within_tolerance(step: float) -> AcceptedMultiples:
    """Return multiples that are at most 1e-9 from ``round(x / step) * step``.

    pydantic reads these (2.14, observed). All decimal multiples are among them up to a limit, above
    which rounding alone exceeds the tolerance.

    Args:
        step: The step.

    Raises:
        ValueError: The step is not positive and finite.
    """
    _odd_part(step)
    if not _is_exact(step):
        # The quotient has to be finite.
        return AcceptedMultiples(step, min(_TOLERATED, step * (sys.float_info.max / 2)))
    return AcceptedMultiples(step, min(2.0**_QUOTIENT_BITS * step, sys.float_info.max))


def _products(step: float, odd: int, low: float, high: float, count: int) -> list[float]:
    """Return the smallest positive doubles from low to high that are multiples.

    Twice a multiple is a multiple, so only odd factors have to be found.
    """
    found: set[float] = set()
    largest = min(high, sys.float_info.max)
    for factor in range(1, min(2**_PRECISION // odd, 2 * count) + 1, 2):
        number = Fraction(step) * factor
        while number < low:
            number *= 2
        for _ in range(count):
            if number > largest:
                break
            found.add(float(number))
            number *= 2
    return sorted(found)[:count]


def _odd_part(step: float) -> tuple[int, int]:
    """Return the odd integer whose product with a power of two is the step, and the power."""
    if not 0 < step < math.inf:
        raise ValueError(f"a step is positive and finite, not {step!r}")
    numerator, denominator = float(step).as_integer_ratio()
    twos = (numerator & -numerator).bit_length() - 1
    return numerator >> twos, twos - denominator.bit_length() + 1


def _is_exact(step: float) -> bool:
    """Return whether a step is the decimal as which it is written."""
    return Fraction(repr(float(step))) == Fraction(step)
