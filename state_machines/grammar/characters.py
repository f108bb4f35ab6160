"""The spellings of characters: UTF-8, and the escapes of JSON strings.

UTF-8 and hexadecimal escapes are positional notations. A range of numbers is divided by its first
digit; all numbers below a digit are one node, so the nodes of a range are few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from state_machines.budgets import spend
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import branch, concatenation, literal
from state_machines.grammar.symbols import (
    RANGES_PER_STEP,
    CodePointSet,
    byte_range,
    byte_set,
    code_points,
)

SHORT_ESCAPES = {0x22: b'"', 0x5C: b"\\", 8: b"b", 12: b"f", 10: b"n", 13: b"r", 9: b"t"}
"""Characters with an escape of two bytes, and its second byte."""

NEEDS_ESCAPE = CodePointSet([(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)])
"""The characters that have no other spelling than escapes."""

BY_HEXADECIMAL = CodePointSet([(0, 7), (11, 11), (14, 0x1F), (0x7F, 0x10FFFF)])
"""The characters that may be written as ``\\uXXXX``."""

_Cell = tuple[int, int, Node]
"""The first and last number of a range, and the node that follows them."""

_DigitBytes = Callable[[int, int, bool], int]
"""The bytes of a range of digits, as a set; whether they lead a number."""


def spellings_of(point: int, escapes: bool, pairs: bool) -> list[bytes]:
    """Return the spellings of a character, with hexadecimal digits in lower case.

    Args:
        point: The character.
        escapes: Whether it is in a string with escapes.
        pairs: Whether a character beyond the basic plane may be written as two surrogates.
    """
    if not escapes:
        return [chr(point).encode()]
    found = [] if point in NEEDS_ESCAPE else [chr(point).encode()]
    if point in SHORT_ESCAPES:
        found.append(b"\\" + SHORT_ESCAPES[point])
    if point in BY_HEXADECIMAL and (point < 0x10000 or pairs):
        units = chr(point).encode("utf-16-be").hex()
        found.append("".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)).encode())
    return found


def utf8(characters: CodePointSet) -> list[Node]:
    """Return the UTF-8 forms, one node for each length."""
    nodes: list[Node] = []
    for width, first, last, mark in (
        (1, 0, 0x7F, 0),
        (2, 0x80, 0x7FF, 0xC0),
        (3, 0x800, 0xFFFF, 0xE0),
        (4, 0x10000, 0x10FFFF, 0xF0),
    ):
        cells: list[_Cell] = [
            (max(low, first), min(high, last), EPSILON)
            for low, high in characters.ranges
            if low <= last and high >= first
        ]
        if cells:
            nodes.append(_positional(cells, width, 64, _utf8_digits(mark)))
    return nodes


def _utf8_digits(mark: int) -> _DigitBytes:
    def digit_bytes(first: int, last: int, leading: bool) -> int:
        base = mark if leading else 0x80
        return byte_range(base + first, base + last)

    return digit_bytes


def hexadecimal(characters: CodePointSet, *, pairs: bool) -> list[Node]:
    """Return the ``XXXX`` of ``\\uXXXX``, the digits in either case.

    Args:
        characters: The characters.
        pairs: Whether one beyond the basic plane is written as two surrogates; else it is left out.
    """
    basic = _positional(_cells(characters & code_points(0, 0xFFFF)), 4, 16, _hex_digits)
    if not pairs:
        return [basic]
    cells: list[_Cell] = []
    for low, high in _by_high_surrogate(characters & code_points(0x10000, 0x10FFFF)):
        tail = _positional(_cells(low, offset=0xDC00), 4, 16, _hex_digits)
        then = concatenation(literal(b"\\u"), tail)
        cells.extend((0xD800 + first, 0xD800 + last, then) for first, last in high)
    cells.sort(key=lambda cell: cell[0])
    return [basic, _positional(cells, 4, 16, _hex_digits)]


def _hex_digits(first: int, last: int, leading: bool) -> int:
    del leading
    text = "0123456789abcdef"[first : last + 1]
    return byte_set((text + text.upper()).encode())


def _by_high_surrogate(
    astral: CodePointSet,
) -> list[tuple[tuple[tuple[int, int], ...], list[tuple[int, int]]]]:
    """Group a set beyond U+FFFF: (ranges of low ten bits, ranges of high ten bits)."""
    lows: dict[int, list[tuple[int, int]]] = {}
    whole: list[tuple[int, int]] = []
    spend(len(astral.ranges) // RANGES_PER_STEP)
    for first, last in astral.ranges:
        start, end = first - 0x10000, last - 0x10000
        while start <= end:
            high = start >> 10
            if start & 0x3FF == 0 and end >> 10 > high:
                whole.append((high, (end >> 10) - 1))
                start = end >> 10 << 10
                continue
            stop = min(end, high << 10 | 0x3FF)
            lows.setdefault(high, []).append((start & 0x3FF, stop & 0x3FF))
            start = stop + 1
    groups: dict[tuple[tuple[int, int], ...], list[tuple[int, int]]] = {}
    for high, ranges in lows.items():
        groups.setdefault(tuple(ranges), []).append((high, high))
    if whole:
        groups.setdefault(((0, 0x3FF),), []).extend(whole)
    return list(groups.items())


def _cells(characters: CodePointSet | Sequence[tuple[int, int]], offset: int = 0) -> list[_Cell]:
    ranges: Iterable[tuple[int, int]] = (
        characters.ranges if isinstance(characters, CodePointSet) else characters
    )
    return [(first + offset, last + offset, EPSILON) for first, last in ranges]


def _positional(cells: list[_Cell], width: int, radix: int, digit_bytes: _DigitBytes) -> Node:
    """Return the numbers of the cells' ranges in positional notation of ``width`` digits.

    Each number is followed by the node of its cell. The cells must be sorted and disjoint.
    """
    return _digits(cells, width - 1, radix, digit_bytes, True)


def _digits(
    cells: list[_Cell], place: int, radix: int, digit_bytes: _DigitBytes, lead: bool
) -> Node:
    spend(1 + len(cells) // RANGES_PER_STEP)
    unit = radix**place
    below: dict[int, list[_Cell]] = {}
    transitions: dict[Node, int] = {}
    whole: dict[Node, Node] = {}

    def add(first: int, last: int, target: Node) -> None:
        transitions[target] = transitions.get(target, 0) | digit_bytes(first, last, lead)

    for first, last, then in cells:
        # The digits from ``start`` to before ``end`` take all numbers below them.
        start, end = -(-first // unit), (last + 1) // unit
        if start < end:
            if place and then not in whole:
                whole[then] = _digits([(0, unit - 1, then)], place - 1, radix, digit_bytes, False)
            add(start, end - 1, whole[then] if place else then)
        if start > end:
            below.setdefault(end, []).append((first - end * unit, last - end * unit, then))
            continue
        if first < start * unit:
            begin = (start - 1) * unit
            below.setdefault(start - 1, []).append((first - begin, unit - 1, then))
        if last >= end * unit:
            below.setdefault(end, []).append((0, last - end * unit, then))
    for digit, inner in below.items():
        add(digit, digit, _digits(inner, place - 1, radix, digit_bytes, False))
    return branch((members, target) for target, members in transitions.items())
