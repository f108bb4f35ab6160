r"""``idn-hostname``: host names of U-labels (RFC 5890), as RFC 5891, 5892 and 5893 restrict them.

Enforced: the code points that are PVALID by the derivation of RFC 5892, section 2, and all
contextual rules of its appendix A; no combining mark first, no hyphen first, last, or third and
fourth; the Bidi rule of RFC 5893 over the whole name; NFC, by a rule that is a little stricter
where several combining marks follow one another. Labels of ASCII alone may be of either case. The
separators are those of RFC 3490, section 3.1.

Not regular are two things. Which labels ``xn--…`` are valid A-labels: none is admitted. And
whether a U-label's A-label is within 63 octets: U-labels are held to :data:`MAX_U_LABEL`
characters, which no valid one surpasses.

The classes of characters come from :mod:`~state_machines.json_schema.formats.unicode_labels`. They
overlap in a hundred ways and have thousands of ranges, so the language is first made over one
representative of each cell of their common refinement, and widened to the cells as it unfolds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from state_machines.grammar.boolean import complement, everything, intersection
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EPSILON, Node, intern_node
from state_machines.grammar.nodes import branch, concatenation, repetition, symbols, union
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet
from state_machines.json_schema.formats.addresses import MAX_NAME, at_most
from state_machines.json_schema.formats.unicode_labels import Cells, label_classes

__all__ = ["MAX_U_LABEL", "idn_hostname"]

MAX_U_LABEL = 58
"""Characters of a U-label: the prefix ``xn--`` and a digit for each character beyond ASCII."""

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
    """Builds the language out of the classes by name."""

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
        return at_most(MAX_NAME, concatenation(label, repetition(more, 0, None)))

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
        """Yield the labels that break a rule of RFC 5892, appendix A, one language a rule."""
        yield from self._bad_joiners()
        yield self._unless("middle dot", before="letter l", after="letter l")
        yield self._unless("keraia", after="Greek")
        yield self._unless("geresh", before="Hebrew")
        yield self._unless("gershayim", before="Hebrew")
        without = repetition(symbols(~self._members("kana or Han")), 0, None)
        yield concatenation(without, self._one("katakana middle dot"), without)
        yield _both(self._one("Arabic digit"), self._one("extended Arabic digit"))

    def _bad_joiners(self) -> Iterable[Node]:
        """Yield the labels that break appendix A.1 or A.2."""
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
        """Return the texts in which a mark lacks a neighbour it needs."""
        ways = []
        if before is not None:
            left = union((EPSILON, concatenation(_ANYTHING, symbols(~self._members(before)))))
            ways.append(concatenation(left, self._one(mark), _ANYTHING))
        if after is not None:
            right = union((EPSILON, concatenation(symbols(~self._members(after)), _ANYTHING)))
            ways.append(concatenation(_ANYTHING, self._one(mark), right))
        return union(ways)

    def _not_normalised(self) -> Iterable[Node]:
        """Yield texts of PVALID code points that hold all of those that are not in NFC (UAX 15).

        No PVALID code point changes by itself. So a text is not in NFC only where marks stand out
        of their canonical order, or where a character composes with what stands before it.
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
        """Return the labels that meet RFC 5893, section 2."""
        trailing = repetition(symbols(self._bidi("NSM")), 0, None)
        # These stand beside left-to-right letters only. To say so at once saves long searches.
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
    """Return the texts of a first, any number of inner and a last character, maybe the first."""
    longer = concatenation(symbols(first), repetition(symbols(inner), 0, None), symbols(last))
    return union((symbols(first & last), longer))


def _both(left: Node, right: Node) -> Node:
    """Return the texts that hold a character of each of two classes."""
    return union(
        concatenation(_ANYTHING, first, _ANYTHING, second, _ANYTHING)
        for first, second in ((left, right), (right, left))
    )


class _Widened(Lazy):
    """A language over representatives, each standing for its whole cell."""

    __slots__ = ("cells", "inner")

    def __init__(self, inner: Node, cells: Cells) -> None:
        super().__init__(
            nullable=inner.nullable, min_length=inner.min_length, max_length=inner.max_length
        )
        self.inner = inner
        self.cells = cells

    def expand(self) -> Node:
        """Return the inner row with its symbols widened."""
        row = (
            (self.cells.widened(s), _widened(target, self.cells))
            for s, target in self.inner.transitions
        )
        return branch(row, nullable=self.inner.nullable)


def _widened(inner: Node, cells: Cells) -> Node:
    return intern_node((_Widened, inner, cells), lambda: _Widened(inner, cells))
