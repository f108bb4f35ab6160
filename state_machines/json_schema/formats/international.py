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

The character classes of :mod:`~state_machines.json_schema.formats.unicode_labels` overlap and have
thousands of ranges. So the language is built over one representative of each cell of their common
refinement, and each representative is replaced by its cell when a state is unfolded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from state_machines.grammar.boolean import complement, everything, intersection
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EPSILON, Node, intern_node
from state_machines.grammar.nodes import branch, concatenation, repetition, symbols, union
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet
from state_machines.json_schema.formats.addresses import MAX_NAME
from state_machines.json_schema.formats.primitives import max_characters
from state_machines.json_schema.formats.unicode_labels import Cells, label_classes

MAX_U_LABEL = 58
"""Characters of a U-label: an A-label has 63 octets, 4 of them ``xn--``, and Punycode is longer."""

_MAX_ASCII_LABEL = 63
_ANYTHING = everything(ANY_CODE_POINT)
_BIDI_EITHER = ("EN", "ES", "CS", "ET", "ON", "BN", "NSM")


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
