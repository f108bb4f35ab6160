r"""Reads complete and incomplete escapes of JSON strings.

The escapes are those of :data:`state_machines.grammar.encoding.JSON_STRING`: ``\"``, ``\\``, the
short forms of control characters, and ``\uXXXX`` for other controls and for everything beyond
printable ASCII, as a surrogate pair beyond the basic plane.
"""

from __future__ import annotations

from state_machines.grammar.encoding import BY_HEXADECIMAL, SHORT_ESCAPES
from state_machines.grammar.symbols import CodePointSet, code_points

_BY_MARK = {mark: point for point, mark in SHORT_ESCAPES.items()}
_HEXADECIMAL = frozenset(b"0123456789abcdefABCDEF")


def written_escape(text: bytes) -> int | None:
    """Return the character of an escape; ``None`` if the text is not a complete escape."""
    if len(text) == 2:
        return _BY_MARK.get(text[1:])
    if len(text) == 6 and begun_escape(text[:5]) is not None:
        value = _number(text[2:])
        return value if value is not None and value in BY_HEXADECIMAL else None
    if len(text) == 12 and begun_escape(text[:11]) is not None:
        low = _number(text[8:])
        high = _number(text[2:6])
        if low is not None and high is not None and 0xDC00 <= low <= 0xDFFF:
            return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)
    return None


def begun_escape(text: bytes) -> CodePointSet | None:
    """Return the characters of the escapes that begin with a text; ``None`` if there are none."""
    if text == b"\\":
        return BY_HEXADECIMAL | CodePointSet([(point, point) for point in SHORT_ESCAPES])
    if not b"\\u".startswith(text[:2]):
        return None
    digits, rest = text[2:6], text[6:]
    if any(digit not in _HEXADECIMAL for digit in digits):
        return None
    first, last = _bounds(digits)
    if len(digits) < 4:
        found = BY_HEXADECIMAL & code_points(first, last) | _astral(first, last, 0xDC00, 0xDFFF)
        return found or None
    if not 0xD800 <= first <= 0xDBFF or not b"\\u".startswith(rest[:2]):
        return None
    if any(digit not in _HEXADECIMAL for digit in rest[2:]) or len(rest) > 5:
        return None
    return _astral(first, last, *_bounds(rest[2:])) or None


def _bounds(digits: bytes) -> tuple[int, int]:
    """Return the range of the numbers of four hexadecimal digits that begin with these."""
    width = 4 * (4 - len(digits))
    first = (int(digits, 16) if digits else 0) << width
    return first, first + (1 << width) - 1


def _number(digits: bytes) -> int | None:
    return int(digits, 16) if all(digit in _HEXADECIMAL for digit in digits) else None


def _astral(high: int, high_last: int, low: int, low_last: int) -> CodePointSet:
    """Return the characters beyond the basic plane whose surrogates are within the bounds."""
    highs = range(max(high, 0xD800), min(high_last, 0xDBFF) + 1)
    low, low_last = max(low, 0xDC00), min(low_last, 0xDFFF)
    if not highs or low > low_last:
        return CodePointSet([])
    bases = [0x10000 + ((unit - 0xD800) << 10) for unit in highs]
    return CodePointSet([(base + low - 0xDC00, base + low_last - 0xDC00) for base in bases])
