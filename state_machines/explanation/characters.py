"""Sets of characters in words."""

from __future__ import annotations

from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet

MAX_RANGES = 8
"""Ranges of a set that are written out."""

_EXCEPTIONS = 6
"""Characters up to which a set is described by what it lacks."""

_NAMES = {" ": "space", "\t": r"\t", "\n": r"\n", "\r": r"\r"}


def characters_in_words(members: CodePointSet) -> str:
    """Return a set of characters in words, such as ``"one of A–Z, _"``."""
    absent = ANY_CODE_POINT & ~members
    if not absent:
        return "any character"
    if len(absent) <= _EXCEPTIONS:
        return f"any character except {_ranges(absent)}"
    if members.ranges and members.ranges[0][0] >= ord("0") and members.ranges[-1][1] <= ord("9"):
        return f"a digit {_ranges(members)}"
    return f"one of {_ranges(members)}"


def character_name(character: str) -> str:
    """Return a character for display; whitespace and control characters by name."""
    if character in _NAMES:
        return _NAMES[character]
    return character if character.isprintable() else f"U+{ord(character):04X}"


def _ranges(members: CodePointSet) -> str:
    shown = [_range(*limits) for limits in members.ranges[:MAX_RANGES]]
    if len(members.ranges) > MAX_RANGES:
        shown.append("…")
    return ", ".join(shown)


def _range(first: int, last: int) -> str:
    if last - first < 2:
        return ", ".join(character_name(chr(point)) for point in range(first, last + 1))
    return f"{character_name(chr(first))}–{character_name(chr(last))}"
