r"""``idn-hostname``: internationalized host names (RFC 5890 to 5893).

A name is a sequence of U-labels and ASCII labels with the separators of RFC 3490, section 3.1.
These rules are enforced:

* Code points are PVALID (RFC 5892, section 2) and satisfy the contextual rules (appendix A).
* A label does not start with a combining mark, does not start or end with a hyphen, and does not
  have hyphens in the third and fourth position (RFC 5891, section 4.2.3).
* The name satisfies the Bidi rule (RFC 5893, section 2).
* The name is in NFC. The rule here is slightly stricter for sequences of combining marks.

Two requirements are not regular. The valid A-labels ``xn--…`` are not accepted. The A-label of a
U-label must have at most 63 octets; U-labels are limited to :data:`MAX_U_LABEL` characters instead,
which no valid U-label exceeds.

The properties of characters come from ``unicodedata`` and the package ``regex``. A code point that
is unassigned in either is not PVALID. The character classes overlap and have thousands of ranges.
So the language is built over one representative of each cell of their common refinement, and each
representative is replaced by its cell when a state is unfolded.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any

import regex

from state_machines.grammar.boolean import complement, everything, intersection
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EPSILON, Node, intern_node
from state_machines.grammar.nodes import branch, concatenation, repetition, symbols, union
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet, code_points
from state_machines.json_schema.formats.addresses import MAX_NAME
from state_machines.json_schema.formats.primitives import max_characters
from state_machines.regex.unicode_classes import property_set

MAX_U_LABEL = 58
"""Characters of a U-label: an A-label has 63 octets, 4 of them ``xn--``, and Punycode is longer."""

_MAX_ASCII_LABEL = 63
_ANYTHING = everything(ANY_CODE_POINT)
_BIDI_EITHER = ("EN", "ES", "CS", "ET", "ON", "BN", "NSM")

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


def idn_hostname() -> Node:
    """Return the names whose labels are U-labels or ASCII."""
    classes = label_classes()
    cells = Cells(classes.values())
    narrow = {name: cells.representatives(members) for name, members in classes.items()}
    return _widened(_Labels(narrow).names(), cells)


class _Labels:
    """Builds the language from character classes.

    Args:
        classes: The character classes by name.
    """

    def __init__(self, classes: Mapping[str, CodePointSet]) -> None:
        self._classes = classes

    def names(self) -> Node:
        ascii_label, u_label = self._ascii_label(), self._u_label()
        no_right_to_left = repetition(symbols(~self._bidi("R", "AL", "AN")), 0, None)
        plain = union((ascii_label, intersection((u_label, no_right_to_left))))
        bidi = intersection((union((ascii_label, u_label)), self._bidi_rule()))
        return union((self._name(plain), self._name(bidi)))

    def _name(self, label: Node) -> Node:
        more = concatenation(self._one("separator"), label)
        return max_characters(MAX_NAME, concatenation(label, repetition(more, 0, None)))

    def _one(self, *names: str) -> Node:
        return symbols(self._members(*names))

    def _members(self, *names: str) -> CodePointSet:
        return CodePointSet(span for name in names for span in self._classes[name].ranges)

    def _bidi(self, *kinds: str) -> CodePointSet:
        return self._members(*(f"bidi {kind}" for kind in kinds))

    def _ascii_label(self) -> Node:
        letter, hyphen = self._one("ascii"), self._one("hyphen")
        inner = repetition(union((letter, hyphen)), 0, _MAX_ASCII_LABEL - 2)
        label = concatenation(letter, union((EPSILON, concatenation(inner, letter))))
        return intersection((label, complement(self._reserved_hyphens(), ANY_CODE_POINT)))

    def _u_label(self) -> Node:
        valid, hyphen = self._members("valid"), self._members("hyphen")
        marks = self._members("mark")
        shape = concatenation(
            symbols(valid & ~marks & ~hyphen),
            union(
                (
                    EPSILON,
                    concatenation(repetition(symbols(valid), 0, None), symbols(valid & ~hyphen)),
                )
            ),
        )
        forbidden = union(
            (self._reserved_hyphens(), *self._out_of_context(), *self._not_normalised())
        )
        return intersection(
            (
                shape,
                repetition(symbols(ANY_CODE_POINT), 1, MAX_U_LABEL),
                complement(forbidden, ANY_CODE_POINT),
            )
        )

    def _reserved_hyphens(self) -> Node:
        hyphen = self._one("hyphen")
        two = repetition(symbols(ANY_CODE_POINT), 2, 2)
        return concatenation(two, hyphen, hyphen, _ANYTHING)

    def _out_of_context(self) -> Iterable[Node]:
        """Yield, for each rule of RFC 5892, appendix A, the labels that violate it."""
        yield from self._bad_joiners()
        yield self._unless("middle dot", before="letter l", after="letter l")
        yield self._unless("keraia", after="Greek")
        yield self._unless("geresh", before="Hebrew")
        yield self._unless("gershayim", before="Hebrew")
        without = repetition(symbols(~self._members("kana or Han")), 0, None)
        yield concatenation(without, self._one("katakana middle dot"), without)
        yield _both(self._one("Arabic digit"), self._one("extended Arabic digit"))

    def _bad_joiners(self) -> Iterable[Node]:
        """Yield the labels that violate the rules of joiners (RFC 5892, appendices A.1 and A.2)."""
        yield self._unless("joiner", before="virama")
        joining = {kind: self._one(f"joining {kind}") for kind in "LDRT"}
        transparent = repetition(joining["T"], 0, None)
        left = concatenation(_ANYTHING, union((joining["L"], joining["D"])), transparent)
        right = concatenation(transparent, union((joining["R"], joining["D"])), _ANYTHING)
        virama = concatenation(_ANYTHING, self._one("virama"))
        mark = self._one("non-joiner")
        yield concatenation(complement(union((left, virama)), ANY_CODE_POINT), mark, _ANYTHING)
        no_virama = complement(virama, ANY_CODE_POINT)
        yield concatenation(no_virama, mark, complement(right, ANY_CODE_POINT))

    def _unless(self, mark: str, *, before: str | None = None, after: str | None = None) -> Node:
        """Return the labels in which a mark lacks a required preceding or following character."""
        violations = []
        if before is not None:
            left = union((EPSILON, concatenation(_ANYTHING, symbols(~self._members(before)))))
            violations.append(concatenation(left, self._one(mark), _ANYTHING))
        if after is not None:
            right = union((EPSILON, concatenation(symbols(~self._members(after)), _ANYTHING)))
            violations.append(concatenation(_ANYTHING, self._one(mark), right))
        return union(violations)

    def _not_normalised(self) -> Iterable[Node]:
        """Yield languages that contain all labels of PVALID code points not in NFC (UAX 15).

        A single PVALID code point is in NFC. So a label is not in NFC only if marks are not in
        canonical order, or if a character composes with a preceding one.
        """
        bands = sorted(name for name in self._classes if name.startswith("combining "))
        pairs: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
            ((band,), tuple(bands[: index + 1])) for index, band in enumerate(bands)
        ]
        pairs.append((("composes with a mark", *bands), ("composing mark",)))
        pairs.append((("composes with a letter",), ("composing letter",)))
        for before, after in pairs:
            yield concatenation(_ANYTHING, self._one(*before), self._one(*after), _ANYTHING)

    def _bidi_rule(self) -> Node:
        """Return the labels that satisfy the Bidi rule (RFC 5893, section 2)."""
        trailing = repetition(symbols(self._bidi("NSM")), 0, None)
        # These occur only next to left-to-right letters; excluding them here saves long searches.
        misplaced = self._members("katakana middle dot", "middle dot", "keraia")
        inner = self._bidi("R", "AL", "AN", *_BIDI_EITHER) & ~misplaced
        right = concatenation(
            _shaped(self._bidi("R", "AL"), inner, self._bidi("R", "AL", "EN", "AN")), trailing
        )
        mixed = _both(symbols(self._bidi("EN")), symbols(self._bidi("AN")))
        letters = self._bidi("L")
        left = concatenation(
            _shaped(letters, self._bidi("L", *_BIDI_EITHER), self._bidi("L", "EN")), trailing
        )
        return union((intersection((right, complement(mixed, ANY_CODE_POINT))), left))


def _shaped(first: CodePointSet, inner: CodePointSet, last: CodePointSet) -> Node:
    """Return the texts with a first, inner and last character class; the first may be the last."""
    longer = concatenation(symbols(first), repetition(symbols(inner), 0, None), symbols(last))
    return union((symbols(first & last), longer))


def _both(left: Node, right: Node) -> Node:
    """Return the texts that contain a character of each of two classes."""
    return union(
        concatenation(_ANYTHING, first, _ANYTHING, second, _ANYTHING)
        for first, second in ((left, right), (right, left))
    )


class _Widened(Lazy):
    """A language over representatives, in which each representative means its whole cell."""

    __slots__ = ("cells", "inner")

    def __init__(self, inner: Node, cells: Cells) -> None:
        super().__init__(
            nullable=inner.nullable, min_length=inner.min_length, max_length=inner.max_length
        )
        self.inner = inner
        self.cells = cells

    def expand(self) -> Node:
        """Return the inner state with the cells on its transitions."""
        transitions = (
            (self.cells.widened(members), _widened(target, self.cells))
            for members, target in self.inner.transitions
        )
        return branch(transitions, nullable=self.inner.nullable)


def _widened(inner: Node, cells: Cells) -> Node:
    return intern_node((_Widened, inner, cells), lambda: _Widened(inner, cells))


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
