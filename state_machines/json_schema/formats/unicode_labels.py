"""The character classes in the rules for U-labels (RFC 5892, RFC 5893).

The properties come from ``unicodedata`` and the package ``regex``. A code point that is unassigned
in either is not PVALID.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any

import regex

from state_machines.grammar.symbols import CodePointSet, code_points
from state_machines.regex.unicode_classes import property_set

# RFC 5892, section 2.6.
_EXCEPTIONS_VALID = CodePointSet.of("\u00df\u03c2\u06fd\u06fe\u0f0b\u3007")
_EXCEPTIONS_DISALLOWED = CodePointSet.of(
    "\u0640\u07fa\u302e\u302f\u3031\u3032\u3033\u3034\u3035\u303b"
)
_IGNORABLE_BLOCKS = CodePointSet([(0x20D0, 0x20FF), (0x1D100, 0x1D1FF), (0x1D200, 0x1D24F)])
_OLD_HANGUL_JAMO = CodePointSet(
    [(0x1100, 0x11FF), (0xA960, 0xA97C), (0xD7B0, 0xD7C6), (0xD7CB, 0xD7FB)]
)
_LETTERS_AND_DIGITS = ("Ll", "Lu", "Lo", "Nd", "Lm", "Mn", "Mc")
_IGNORABLE = ("Default_Ignorable_Code_Point", "White_Space", "Noncharacter_Code_Point")

_CONTEXTUAL = {
    "non-joiner": code_points("\u200c"),
    "joiner": code_points("\u200d"),
    "middle dot": code_points("\u00b7"),
    "keraia": code_points("\u0375"),
    "geresh": code_points("\u05f3"),
    "gershayim": code_points("\u05f4"),
    "katakana middle dot": code_points("\u30fb"),
    "Arabic digit": code_points(0x660, 0x669),
    "extended Arabic digit": code_points(0x6F0, 0x6F9),
}
"""The code points that are valid in certain contexts only (RFC 5892, appendix A)."""

_VIRAMA = 9
_COMBINING_BANDS = (0, _VIRAMA - 1, _VIRAMA, 103, 255)
"""Bounds of bands of canonical combining classes; consecutive marks must be in ascending bands."""

_JOINING = regex.compile("|".join(rf"(?P<{kind}>\p{{jt={kind}}})" for kind in "LDRT"))


@lru_cache(maxsize=1)
def pvalid() -> CodePointSet:
    """Return the code points that are PVALID, CONTEXTJ or CONTEXTO (RFC 5892, section 3)."""
    letters = _properties(*_LETTERS_AND_DIGITS)
    unwanted = _properties(*_IGNORABLE) | _IGNORABLE_BLOCKS | _OLD_HANGUL_JAMO
    stable = _classes(_is_stable, letters & ~unwanted)[True]
    valid = stable | _EXCEPTIONS_VALID | code_points("-")
    return (valid & ~_EXCEPTIONS_DISALLOWED) | _union(_CONTEXTUAL.values())


def _is_stable(character: str) -> bool:
    """Return whether a character is assigned, and not Unstable (RFC 5892, section 2.2)."""
    if unicodedata.category(character) == "Cn":
        return False
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", character).casefold())
    return folded == character


def label_classes() -> dict[str, CodePointSet]:
    """Return the classes by name; all but ``ascii`` and ``separator`` contain valid code points."""
    valid = pvalid()
    combining = _classes(unicodedata.combining, valid)
    kana_or_han = _union(_script(name) for name in ("Hiragana", "Katakana", "Han"))
    classes = {
        **_CONTEXTUAL,
        "separator": CodePointSet.of(".\u3002\uff0e\uff61"),
        "ascii": CodePointSet([(0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)]),
        "valid": valid,
        "hyphen": code_points("-"),
        "mark": _properties("Mn", "Mc", "Me"),
        "letter l": code_points("l"),
        "Greek": _script("Greek"),
        "Hebrew": _script("Hebrew"),
        "kana or Han": kana_or_han & ~_CONTEXTUAL["katakana middle dot"],
        "virama": combining[_VIRAMA],
    }
    for kind, members in _classes(_joining_type, valid).items():
        classes[f"joining {kind}"] = members
    for kind, members in _classes(unicodedata.bidirectional, valid).items():
        classes[f"bidi {kind}"] = members
    for kind in ("R", "AL", "AN", "L", "EN", "ES", "CS", "ET", "ON", "BN", "NSM"):
        classes.setdefault(f"bidi {kind}", CodePointSet(()))
    for low, high in pairwise(_COMBINING_BANDS):
        band = (members for number, members in combining.items() if low < number <= high)
        classes[f"combining {high:03}"] = _union(band)
    marks = _union(members for number, members in combining.items() if number)
    for name, seconds in (("mark", marks), ("letter", valid & ~marks)):
        pairs = [(first, second) for first, second in _compositions(valid) if second in seconds]
        classes[f"composes with a {name}"] = CodePointSet((first, first) for first, _ in pairs)
        classes[f"composing {name}"] = CodePointSet((second, second) for _, second in pairs)
    return classes


def _compositions(valid: CodePointSet) -> Iterable[tuple[int, int]]:
    """Yield the pairs of valid code points that NFC composes into one."""
    for point in valid:
        parts = unicodedata.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            first, second = (int(part, 16) for part in parts)
            if first in valid and second in valid:
                yield first, second


def _classes(function: Callable[[str], Any], points: CodePointSet) -> dict[Any, CodePointSet]:
    """Partition code points by the value of a function."""
    ranges: dict[Any, list[tuple[int, int]]] = {}
    for first, last in points.ranges:
        for value, run in groupby(range(first, last + 1), lambda point: function(chr(point))):
            members = list(run)
            ranges.setdefault(value, []).append((members[0], members[-1]))
    return {value: CodePointSet(spans) for value, spans in ranges.items()}


def _joining_type(character: str) -> str:
    """Return the Joining_Type of a character; all types but L, D, R and T are returned as U."""
    match = _JOINING.match(character)
    return "U" if match is None else str(match.lastgroup)


def _properties(*names: str) -> CodePointSet:
    return _union(property_set(name) or CodePointSet(()) for name in names)


def _script(name: str) -> CodePointSet:
    return property_set("Script", name) or CodePointSet(())


def _union(sets: Iterable[CodePointSet]) -> CodePointSet:
    return CodePointSet(span for members in sets for span in members.ranges)


class Cells:
    """The common refinement of sets: each cell is inside or outside of every set."""

    def __init__(self, sets: Iterable[CodePointSet]) -> None:
        toggles: dict[int, int] = {}
        for index, members in enumerate(sets):
            for first, last in members.ranges:
                toggles[first] = toggles.get(first, 0) ^ 1 << index
                toggles[last + 1] = toggles.get(last + 1, 0) ^ 1 << index
        spans: dict[int, list[tuple[int, int]]] = {}
        inside = 0
        for start, end in pairwise(sorted(toggles)):
            inside ^= toggles[start]
            if inside:
                spans.setdefault(inside, []).append((start, end - 1))
        self._cells = {cell[0][0]: cell for cell in spans.values()}
        self._widened: dict[CodePointSet, CodePointSet] = {}

    def representatives(self, members: CodePointSet) -> CodePointSet:
        """Return the representatives, which are the first code points, of the cells in a set."""
        return CodePointSet((point, point) for point in self._cells if point in members)

    def widened(self, members: CodePointSet) -> CodePointSet:
        """Return the union of the cells of some representatives."""
        found = self._widened.get(members)
        if found is None:
            spans = (s for point, cell in self._cells.items() if point in members for s in cell)
            found = self._widened[members] = CodePointSet(spans)
        return found
