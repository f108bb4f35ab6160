"""View languages of bytes as languages of code points.

Grammars denote byte languages. Inside a JSON string their texts are escaped by character, and next
to excluded strings they are intersected by character. A :class:`DecodedText` has the same texts
over code points, so :func:`~state_machines.grammar.encoding.encoded` spells them in any way,
context-free languages included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from state_machines.budgets import spend
from state_machines.grammar.node import (
    EMPTY,
    EPSILON,
    Node,
    Transitions,
    collect_transitions,
    intern_node,
)
from state_machines.grammar.symbols import RANGES_PER_STEP, CodePointSet, byte_ranges

_Ranges = list[tuple[int, int]]

# For each length of a UTF-8 form (RFC 3629): its lead bytes, and its code points.
_FORMS = (
    (1, 0x00, 0x7F, 0x00, 0x7F),
    (2, 0xC0, 0xDF, 0x80, 0x7FF),
    (3, 0xE0, 0xEF, 0x800, 0xFFFF),
    (4, 0xF0, 0xF7, 0x10000, 0x10FFFF),
)
_CONTINUATION = ((1 << 64) - 1) << 0x80


class DecodedText(Node):
    """The words of ``body``, a language of UTF-8 texts, over code points.

    Words of ``body`` that are not UTF-8 are left out.
    """

    __slots__ = ("body",)

    def __init__(self, body: Node) -> None:
        super().__init__(
            nullable=body.nullable,
            min_length=(body.min_length + 3) // 4,
            max_length=body.max_length,
            boolean=body.boolean,
        )
        self.body = body
        self.shared_derivatives = body.shared_derivatives

    @property
    def is_empty(self) -> bool:
        return self.body.is_empty

    def compute_transitions(self) -> Transitions:
        return collect_transitions(
            (CodePointSet(ranges), decoded_text(target)) for ranges, target in _steps(self.body)
        )

    def character_derivative(self, point: int) -> Node:
        """Return the derivative by a code point."""
        if 0xD800 <= point <= 0xDFFF:
            return EMPTY
        target = self.body.compute_word_derivative(chr(point).encode())
        return EMPTY if target.boolean and target.is_empty else decoded_text(target)

    def release(self) -> Iterable[Node]:
        return (*super().release(), self.body)


class AsciiText(DecodedText):
    """The words of ``body`` that are ASCII.

    In JSON all other characters can be escaped. Each character of a free name leads to another
    state, and there are a million characters.
    """

    __slots__ = ()

    def compute_transitions(self) -> Transitions:
        ascii_bytes = (1 << 0x80) - 1
        return collect_transitions(
            (CodePointSet(byte_ranges(leads)), ascii_text(target))
            for symbols, target in self.body.transitions
            if (leads := symbols & ascii_bytes)
        )

    def character_derivative(self, point: int) -> Node:
        """Return the derivative by a code point."""
        return ascii_text(self.body.derivative(point)) if point < 0x80 else EMPTY


def ascii_text(body: Node) -> Node:
    """Return the ASCII texts of a byte language as a language of code points."""
    if body is EMPTY or body is EPSILON:
        return body
    return intern_node((AsciiText, id(body)), lambda: AsciiText(body))


def decoded_text(body: Node) -> Node:
    """Return the texts of a byte language as a language of code points."""
    if body is EMPTY or body is EPSILON:
        return body
    return intern_node((DecodedText, id(body)), lambda: DecodedText(body))


def _steps(body: Node) -> Iterator[tuple[_Ranges, Node]]:
    """Yield disjoint sets of first characters, each with the bytes that follow them."""
    for symbols, target in body.transitions:
        for length, first_lead, last_lead, lowest, highest in _FORMS:
            leads = symbols & ((1 << (last_lead + 1)) - (1 << first_lead))
            if leads:
                values = [(a - first_lead, b - first_lead) for a, b in byte_ranges(leads)]
                for ranges, rest in _continued(values, target, length - 1):
                    within = [(max(a, lowest), min(b, highest)) for a, b in ranges]
                    valid = [(a, b) for a, b in within if a <= b]
                    if valid:
                        yield valid, rest


def _continued(values: _Ranges, node: Node, length: int) -> Iterator[tuple[_Ranges, Node]]:
    """Yield the numbers that ``length`` continuation bytes add to the digits in ``values``."""
    if not length:
        yield values, node
        return
    for symbols, target in node.transitions:
        digits = symbols & _CONTINUATION
        if digits == _CONTINUATION:
            longer = [(a << 6, b << 6 | 0x3F) for a, b in values]
        elif digits:
            ranges = [(a - 0x80, b - 0x80) for a, b in byte_ranges(digits)]
            count = sum(b - a + 1 for a, b in values)
            spend(count * len(ranges) // RANGES_PER_STEP)
            longer = [
                (value << 6 | a, value << 6 | b)
                for first, last in values
                for value in range(first, last + 1)
                for a, b in ranges
            ]
        else:
            continue
        yield from _continued(longer, target, length - 1)
