r"""Numbers and constants as text: keys of objects, decimals, strings that are read as numbers.

Observed with pydantic 2.14.4 (pydantic-core 2.50.5) and msgspec 0.22.

=============  ===============================================================================
language       texts
=============  ===============================================================================
``int``        ``-?`` digits without leading zeros, at most 308
``float``      what ``repr`` writes without an exponent, at most 15 significant digits
``bool``       ``true``, ``false``
``decimal``    plain decimals without leading zeros
``fraction``   digits, and a denominator or digits behind a point
``complex``    a real part, an imaginary part with ``j``, or both
``bytesize``   digits, or a number, a space or none, and a unit (``MB``, ``KiB``, ``kbit``, ``G``)
=============  ===============================================================================

Left out, although read: white space around a number, ``+``, ``_`` between digits, leading zeros,
``1.0`` as an integer, exponents, ``1`` and ``yes`` as Booleans, and digits of other scripts.

Different texts of ``int``, ``float`` and ``bool`` are different values, and are written back as
they are. Of the others this is so with ``canonical``. Neither library reads ``None`` from a key.
"""

from __future__ import annotations

from math import gcd

from state_machines.grammar.boolean import intersection
from state_machines.grammar.lazy import reference
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import branch, concatenation, union
from state_machines.grammar.symbols import code_points
from state_machines.grammar.text_languages import word_language
from state_machines.reader_languages.digits import MAX_DIGITS, MINUS, Number, exact, signed, tighter
from state_machines.reader_languages.numbers.decimal_grid import decimal_places as places_of
from state_machines.regex import compile_pattern

_SIGNIFICANT_DIGITS = 15
"""Decimals with up to 15 digits are different doubles, and are written back unchanged."""

_DECIMAL_PLACES = 28
"""Digits behind the point of a decimal without a limit; also the precision of its division."""

_SHORTEST_FLOATS = (
    r"-?(?:0\.0|(?!-?(?:\.?[0-9]){16})[1-9][0-9]*\.(?:0|[0-9]*[1-9])|0\.(?!0000)[0-9]{0,14}[1-9])"
)
_WRITTEN_DECIMAL = r"-?(?:[1-9][0-9]*(?:\.[0-9]*[1-9])?|0(?:\.(?!000000)[0-9]*[1-9])?)"


def int_(
    *,
    ge: Number | None = None,
    gt: Number | None = None,
    le: Number | None = None,
    lt: Number | None = None,
    multiple_of: Number | None = None,
) -> Node:
    """Return the canonical texts of integers, such as ``-7``.

    Args:
        ge: Lower bound.
        gt: Lower bound that is excluded.
        le: Upper bound.
        lt: Upper bound that is excluded.
        multiple_of: The integers are multiples of it.
    """
    return _numbers(0, ge, gt, le, lt, multiple_of)


def float_(
    *,
    ge: Number | None = None,
    gt: Number | None = None,
    le: Number | None = None,
    lt: Number | None = None,
    multiple_of: Number | None = None,
) -> Node:
    """Return the texts of doubles that are written back unchanged.

    Such a text is the shortest one of its double. So the order of the texts' numbers is that of
    the doubles, and bounds hold for both.

    Args:
        ge: Lower bound.
        gt: Lower bound that is excluded.
        le: Upper bound.
        lt: Upper bound that is excluded.
        multiple_of: The numbers are multiples of it.
    """
    numbers = _numbers(_SIGNIFICANT_DIGITS, ge, gt, le, lt, multiple_of)
    return intersection((numbers, compile_pattern(_SHORTEST_FLOATS, search=False)))


def _numbers(
    places: int,
    ge: Number | None,
    gt: Number | None,
    le: Number | None,
    lt: Number | None,
    multiple_of: Number | None,
) -> Node:
    low, low_open = tighter(exact(ge), exact(gt), is_low=True)
    high, high_open = tighter(exact(le), exact(lt), is_low=False)
    step = exact(multiple_of)
    return signed(low, high, places, step, low_open=low_open, high_open=high_open)


def bool_() -> Node:
    """Return the texts of Booleans."""
    return word_language(("true", "false"))


def decimal(
    *,
    ge: Number | None = None,
    gt: Number | None = None,
    le: Number | None = None,
    lt: Number | None = None,
    multiple_of: Number | None = None,
    max_digits: int | None = None,
    decimal_places: int | None = None,
    canonical: bool = False,
) -> Node:
    """Return the texts of decimals.

    Args:
        ge: Lower bound, exact.
        gt: Lower bound that is excluded.
        le: Upper bound.
        lt: Upper bound that is excluded.
        multiple_of: The numbers are multiples of it. pydantic divides with 28 digits, so the
            quotients have at most 28.
        max_digits: Largest number of digits. A zero before the point does not count.
        decimal_places: Largest number of digits behind the point.
        canonical: Whether there are no zeros at the end of a fraction, and at most five in front
            of it, which ``str`` writes without an exponent.
    """
    low, low_open = tighter(exact(ge), exact(gt), is_low=True)
    high, high_open = tighter(exact(le), exact(lt), is_low=False)
    step = exact(multiple_of)
    places = _DECIMAL_PLACES if decimal_places is None else decimal_places
    if decimal_places is None and step is None:
        places = max(
            places, *(places_of(bound) + 1 for bound in (low, high) if bound is not None), 0
        )
    if step is not None:
        # The precision holds the quotient, and the digits of the number itself.
        limit = step * 10**_DECIMAL_PLACES - step
        places = min(places, places_of(step))
        low = -limit if low is None or low < -limit else low
        high = limit if high is None or high > limit else high
    parts = [
        signed(low, high, places, step, low_open=low_open, high_open=high_open),
        *_digit_limits(max_digits, decimal_places),
    ]
    if canonical:
        parts.append(compile_pattern(_WRITTEN_DECIMAL, search=False))
    return intersection(parts)


def _digit_limits(digits: int | None, places: int | None) -> list[Node]:
    """Return the languages of decimals with a largest number of digits."""
    if digits is None:
        return []
    below_one = rf"-?0(?:\.[0-9]{{1,{digits}}})?"
    if places is None:
        whole = compile_pattern(rf"-?[1-9](?:\.?[0-9]){{0,{digits - 1}}}", search=False)
        return [union((whole, compile_pattern(below_one, search=False)))]
    if digits <= places:
        # pydantic counts the digit of a zero as one before the point.
        return [compile_pattern(rf"-?0\.(?!0+$)[0-9]{{1,{digits}}}", search=False)]
    fraction = rf"(?:\.[0-9]{{1,{places}}})?" if places else ""
    return [
        compile_pattern(rf"-?(?:0|[1-9][0-9]{{0,{digits - places - 1}}}){fraction}", search=False)
    ]


def fraction(*, canonical: bool = False) -> Node:
    """Return the texts of fractions.

    Args:
        canonical: Whether the fractions are integers, or in lowest terms with a denominator of
            :data:`_DENOMINATORS`.
    """
    whole = signed(None, None, 0)
    if not canonical:
        rest = rf"(?:/[1-9][0-9]{{0,{MAX_DIGITS - 1}}}|\.[0-9]{{1,{_DECIMAL_PLACES}}})?"
        return concatenation(whole, compile_pattern(rest, search=False))
    reduced = (
        union((fractions, concatenation(MINUS, fractions)))
        for fractions in map(_reduced, _DENOMINATORS)
    )
    return union((whole, *reduced))


_DENOMINATORS = (*range(2, 13), 15, 16, 20, 25, 50, 100, 1000)
_NUMERATOR_DIGITS = 15


def _reduced(denominator: int) -> Node:
    """Return the positive fractions in lowest terms with a denominator."""
    return branch(
        (
            code_points(str(digit)),
            _numerator(denominator, digit % denominator, _NUMERATOR_DIGITS - 1),
        )
        for digit in range(1, 10)
    )


def _numerator(denominator: int, residue: int, left: int) -> Node:
    """Return the rest of a fraction.

    Args:
        denominator: The denominator.
        residue: The numerator so far, modulo the denominator.
        left: Largest number of digits that may follow.
    """
    is_reduced = gcd(residue, denominator) == 1
    if left == 0 and not is_reduced:
        return EMPTY

    def make() -> Node:
        steps = []
        if is_reduced:
            steps.append((code_points("/"), word_language((str(denominator),))))
        if left:
            steps += [
                (
                    code_points(str(digit)),
                    _numerator(denominator, (residue * 10 + digit) % denominator, left - 1),
                )
                for digit in range(10)
            ]
        return branch(steps)

    return reference(("numerator", denominator, residue, left), make, min_length=2)


def complex_(*, canonical: bool = False) -> Node:
    """Return the texts of complex numbers.

    Args:
        canonical: Whether both parts are written as ``repr`` writes them.
    """
    if not canonical:
        number = r"(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,30})?"
        return compile_pattern(rf"-?{number}|-?(?:{number}[+\-])?{number}j", search=False)
    number = r"(?:(?!(?:\.?[0-9]){16})[1-9][0-9]*(?:\.[0-9]*[1-9])?|0\.(?!0000)[0-9]{0,14}[1-9])"
    return compile_pattern(
        rf"-?{number}\+0j|(?:-?{number}[+\-])?{number}j|-{number}j|0j", search=False
    )


def byte_size(*, canonical: bool = False) -> Node:
    """Return the texts of ``pydantic.ByteSize``.

    Args:
        canonical: Whether the texts are numbers of bytes alone.
    """
    whole = "(?:0|[1-9][0-9]{0,17})"
    if canonical:
        return compile_pattern(whole, search=False)
    unit = "(?:[KMGTPEkmgtpe]i?(?:[Bb](?:it)?)|[KMGTPEkmgtpe]|[Bb](?:it)?)"
    return compile_pattern(rf"{whole}(?:(?:\.[0-9]{{1,9}})? ?{unit})?", search=False)
