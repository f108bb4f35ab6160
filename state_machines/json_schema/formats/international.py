r"""``idn-hostname``: host names of U-labels (RFC 5890), as RFC 5891, 5892 and 5893 restrict them.

Enforced: the code points that are PVALID by the derivation of RFC 5892,
section 2, and all contextual rules of its appendix A; no combining mark first, no hyphen first,
last, or third and fourth; the Bidi rule of RFC 5893 over the whole name; NFC, by a rule that is
a little stricter where several combining marks follow one another. Labels of ASCII
alone may be of either case. The separators are those of RFC 3490, section 3.1.

Not regular are two things. Which labels ``xn--…`` are valid A-labels: none is admitted. And
whether a U-label's A-label is within 63 octets: U-labels are held to :data:`MAX_U_LABEL`
characters, which no valid one surpasses.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any

import regex

from state_machines.grammar.boolean import complement, everything, intersection
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import choice, repetition, sequence, symbols
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet, code_points
from state_machines.json_schema.formats.addresses import MAX_NAME, at_most
from state_machines.regex import compile_pattern
from state_machines.regex.unicode_classes import property_set

__all__ = ["MAX_U_LABEL", "idn_hostname", "pvalid"]

MAX_U_LABEL = 58
"""Characters of a U-label: the prefix ``xn--`` and a digit for each character beyond ASCII."""

_SEPARATORS = CodePointSet.of(".\u3002\uff0e\uff61")
_ASCII_LABEL = r"(?!..--)[0-9A-Za-z](?:[0-9A-Za-z\-]{0,61}[0-9A-Za-z])?"

# RFC 5892, section 2.6.
_EXCEPTIONS_VALID = CodePointSet.of("\u00df\u03c2\u06fd\u06fe\u0f0b\u3007")
_EXCEPTIONS_DISALLOWED = CodePointSet.of(
    "\u0640\u07fa\u302e\u302f\u3031\u3032\u3033\u3034\u3035\u303b"
)
_CONTEXTUAL = CodePointSet.of("\u200c\u200d\u00b7\u0375\u05f3\u05f4\u30fb") | CodePointSet(
    [(0x660, 0x669), (0x6F0, 0x6F9)]
)
_IGNORABLE_BLOCKS = CodePointSet([(0x20D0, 0x20FF), (0x1D100, 0x1D1FF), (0x1D200, 0x1D24F)])
_OLD_HANGUL_JAMO = CodePointSet(
    [(0x1100, 0x11FF), (0xA960, 0xA97C), (0xD7B0, 0xD7C6), (0xD7CB, 0xD7FB)]
)
_COMBINING_BANDS = (0, 8, 9, 103, 255)
_JOINING = regex.compile("|".join(rf"(?P<{kind}>\p{{jt={kind}}})" for kind in "LDRT"))
_LETTERS_AND_DIGITS = ("Ll", "Lu", "Lo", "Nd", "Lm", "Mn", "Mc")


@lru_cache(maxsize=1)
def pvalid() -> CodePointSet:
    """Return the code points that are PVALID or need a context (RFC 5892, section 3)."""
    letters = _properties(*_LETTERS_AND_DIGITS)
    unwanted = _properties("Default_Ignorable_Code_Point", "White_Space", "Noncharacter_Code_Point")
    candidates = letters & ~(unwanted | _IGNORABLE_BLOCKS | _OLD_HANGUL_JAMO)
    stable = CodePointSet(
        (points[0], points[-1])
        for first, last in candidates.ranges
        for is_stable, run in groupby(range(first, last + 1), lambda c: _is_stable(chr(c)))
        if is_stable and (points := list(run))
    )
    hyphen = code_points("-")
    return (stable | _EXCEPTIONS_VALID | hyphen) & ~_EXCEPTIONS_DISALLOWED | _CONTEXTUAL


def _is_stable(character: str) -> bool:
    """Whether a character is known to ``unicodedata`` and not Unstable (section 2.2)."""
    if unicodedata.category(character) == "Cn":
        return False
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", character).casefold())
    return folded == character


def idn_hostname() -> Node:
    """Return the names whose labels are U-labels or ASCII."""
    ascii_label = compile_pattern(_ASCII_LABEL, search=False)
    u_label = _u_label()
    right_to_left = _bidi("R", "AL", "AN")
    no_right_to_left = repetition(symbols(~right_to_left), 0, None)
    plain = choice((ascii_label, intersection((u_label, no_right_to_left))))
    bidi = intersection((choice((ascii_label, u_label)), _bidi_rule()))
    return choice((_name(plain), _name(bidi)))


def _name(label: Node) -> Node:
    more = sequence(symbols(_SEPARATORS), label)
    return at_most(MAX_NAME, sequence(label, repetition(more, 0, None)))


def _u_label() -> Node:
    valid = pvalid()
    marks = _properties("Mn", "Mc", "Me")
    hyphen = code_points("-")
    any_valid = symbols(valid)
    forbidden = choice((_reserved_hyphens(), *_out_of_context(), *_not_normalised()))
    shape = sequence(
        symbols(valid & ~marks & ~hyphen),
        choice((EPSILON, sequence(repetition(any_valid, 0, None), symbols(valid & ~hyphen)))),
    )
    return intersection(
        (
            shape,
            repetition(symbols(ANY_CODE_POINT), 1, MAX_U_LABEL),
            complement(forbidden, ANY_CODE_POINT),
        )
    )


def _reserved_hyphens() -> Node:
    return sequence(
        repetition(symbols(ANY_CODE_POINT), 2, 2), _word("--"), everything(ANY_CODE_POINT)
    )


def _out_of_context() -> Iterable[Node]:
    """Yield the labels that break a rule of RFC 5892, appendix A, one language a rule."""
    yield from _bad_joiners()
    yield _unless("\u00b7", before=code_points("l"), after=code_points("l"))
    yield _unless("\u0375", after=_script("Greek"))
    yield _unless("\u05f3", before=_script("Hebrew"))
    yield _unless("\u05f4", before=_script("Hebrew"))
    with_katakana_dot = _script("Hiragana") | _script("Katakana") | _script("Han")
    without = symbols(~with_katakana_dot | code_points("\u30fb"))
    yield sequence(repetition(without, 0, None), _word("\u30fb"), repetition(without, 0, None))
    arabic, extended = symbols(code_points(0x660, 0x669)), symbols(code_points(0x6F0, 0x6F9))
    yield _around(sequence(arabic, everything(ANY_CODE_POINT), extended))
    yield _around(sequence(extended, everything(ANY_CODE_POINT), arabic))


def _bad_joiners() -> Iterable[Node]:
    """Yield the labels that break appendix A.1 or A.2."""
    virama = _classes(unicodedata.combining)[9]
    yield _unless("\u200d", before=virama)
    joining = {kind: symbols(members) for kind, members in _classes(_joining).items()}
    transparent = repetition(joining["T"], 0, None)
    anything = everything(ANY_CODE_POINT)
    joined_left = sequence(anything, choice((joining["L"], joining["D"])), transparent)
    joined_right = sequence(transparent, choice((joining["R"], joining["D"])), anything)
    after_virama = sequence(anything, symbols(virama))
    mark = _word("\u200c")
    bad_left = complement(choice((joined_left, after_virama)), ANY_CODE_POINT)
    yield sequence(bad_left, mark, anything)
    without_virama = complement(after_virama, ANY_CODE_POINT)
    yield sequence(without_virama, mark, complement(joined_right, ANY_CODE_POINT))


def _unless(
    mark: str, *, before: CodePointSet | None = None, after: CodePointSet | None = None
) -> Node:
    """Return the texts in which a mark lacks a neighbour it needs."""
    anything = everything(ANY_CODE_POINT)
    ways = []
    if before is not None:
        left = choice((EPSILON, sequence(anything, symbols(~before))))
        ways.append(sequence(left, _word(mark), anything))
    if after is not None:
        right = choice((EPSILON, sequence(symbols(~after), anything)))
        ways.append(sequence(anything, _word(mark), right))
    return choice(ways)


def _around(middle: Node) -> Node:
    anything = everything(ANY_CODE_POINT)
    return sequence(anything, middle, anything)


def _word(text: str) -> Node:
    return sequence(*(symbols(code_points(character)) for character in text))


def _not_normalised() -> Iterable[Node]:
    """Yield texts of PVALID code points that hold all of those that are not in NFC (UAX 15).

    No PVALID code point changes by itself. So a text is not in NFC only where marks stand out of
    their canonical order, or where a mark composes with what stands before it.
    """
    by_class = _classes(unicodedata.combining)
    marks = _union(members for number, members in by_class.items() if number)
    bands = [
        _union(members for number, members in by_class.items() if low < number <= high)
        for low, high in pairwise(_COMBINING_BANDS)
    ]
    pairs = [(band, _union(bands[: index + 1])) for index, band in enumerate(bands)]
    compositions = list(_compositions())
    for seconds in (marks, ~marks):
        found = [(first, second) for first, second in compositions if second in seconds]
        firsts = CodePointSet((first, first) for first, _ in found)
        pairs.append((firsts, CodePointSet((second, second) for _, second in found)))
    pairs.append((marks, pairs[-2][1]))
    for before, after in pairs:
        yield _around(sequence(symbols(before), symbols(after)))


def _compositions() -> Iterable[tuple[int, int]]:
    """Yield the pairs of PVALID code points that NFC composes into one."""
    valid = pvalid()
    for point in valid:
        parts = unicodedata.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            first, second = (int(part, 16) for part in parts)
            if first in valid and second in valid:
                yield first, second


def _bidi_rule() -> Node:
    """Return the labels that meet RFC 5893, section 2."""
    either = ("EN", "ES", "CS", "ET", "ON", "BN", "NSM")
    trailing = repetition(symbols(_bidi("NSM")), 0, None)
    rtl = _shaped(_bidi("R", "AL"), _bidi("R", "AL", "AN", *either), _bidi("R", "AL", "EN", "AN"))
    european, arabic = symbols(_bidi("EN")), symbols(_bidi("AN"))
    anything = everything(ANY_CODE_POINT)
    mixed = choice(
        (
            _around(sequence(european, anything, arabic)),
            _around(sequence(arabic, anything, european)),
        )
    )
    ltr = _shaped(_bidi("L"), _bidi("L", *either), _bidi("L", "EN"))
    right = intersection((sequence(rtl, trailing), complement(mixed, ANY_CODE_POINT)))
    return choice((right, sequence(ltr, trailing)))


def _shaped(first: CodePointSet, inner: CodePointSet, last: CodePointSet) -> Node:
    longer = sequence(symbols(first), repetition(symbols(inner), 0, None), symbols(last))
    return choice((symbols(first & last), longer))


def _bidi(*classes: str) -> CodePointSet:
    by_class = _classes(unicodedata.bidirectional)
    return _union(by_class[name] for name in classes if name in by_class)


@lru_cache(maxsize=4)
def _classes(function: Callable[[str], Any]) -> dict[Any, CodePointSet]:
    """Partition the PVALID code points by what a function says of them."""
    ranges: dict[Any, list[tuple[int, int]]] = {}
    for first, last in pvalid().ranges:
        for value, run in groupby(range(first, last + 1), lambda point: function(chr(point))):
            points = list(run)
            ranges.setdefault(value, []).append((points[0], points[-1]))
    return {value: CodePointSet(spans) for value, spans in ranges.items()}


def _joining(character: str) -> str:
    """Return the Joining_Type of a character: L, D, R, T or anything else."""
    match = _JOINING.match(character)
    return "" if match is None else str(match.lastgroup)


def _properties(*names: str) -> CodePointSet:
    return _union(property_set(name) or CodePointSet(()) for name in names)


def _script(name: str) -> CodePointSet:
    return property_set("Script", name) or CodePointSet(())


def _union(sets: Iterable[CodePointSet]) -> CodePointSet:
    return CodePointSet(span for members in sets for span in members.ranges)
