"""Free text no line of which begins with a word of a language.

Such a word is a *heading*: the beginning of something that is no text, such as a call in JSON. With
the heading ``{"name": "weather"``, the line ``{"name": "w`` is still text, but cannot continue to
``{"name": "weather"``. A line is followed from its start while it may be a heading. A
line feed within such a beginning starts no other line, so at most one heading is followed at a
time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from state_machines.budgets import spend
from state_machines.grammar.encoding import EncodedText, encoded
from state_machines.grammar.node import (
    EMPTY,
    EPSILON,
    Node,
    Symbols,
    Transitions,
    collect_transitions,
    intern_node,
)
from state_machines.grammar.nodes import Concatenation, Union, concatenation, symbols, union
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet
from state_machines.grammar.until import UntilText

_LINE_FEED = CodePointSet.of("\n")
_NEW_LINE = ord("\n")


class TextWithoutHeadings(Node):
    """The rest of a text, over code points.

    Attributes:
        text: The text, with headings; ``EPSILON`` where a text without a wanted string has reached
            its upper bound at the start of a line.
        headings: The headings. None is empty.
        line: The headings that the current line can continue as: ``headings`` at the start of a
            line behind the first; ``EMPTY`` if the line is none.
        ends_lines: Whether the text ends only at the start of a line.
    """

    __slots__ = ("ends_lines", "headings", "line", "text")

    def __init__(self, text: Node, headings: Node, line: Node, *, ends_lines: bool) -> None:
        super().__init__(
            nullable=text.nullable and (line is headings or not ends_lines),
            min_length=text.min_length,
            max_length=text.max_length,
        )
        self.text = text
        self.headings = headings
        self.line = line
        self.ends_lines = ends_lines
        self.shared_derivatives = text.shared_derivatives

    @property
    def wanted(self) -> str | None:
        """The string that the text ends with, as for :class:`UntilText`."""
        return self.text.wanted if isinstance(self.text, UntilText) else None

    @property
    def min_chars(self) -> int:
        """The lower bound of the text."""
        return self.text.min_chars if isinstance(self.text, UntilText) else 0

    @property
    def max_chars(self) -> int | None:
        """The upper bound of the text."""
        return self.text.max_chars if isinstance(self.text, UntilText) else 0

    def character_derivative(self, point: int) -> Node:
        """Return the derivative by a code point."""
        line = self.line.character_derivative(point)
        if line is EMPTY and point == _NEW_LINE:
            line = self.headings
        return self._with(self.text.character_derivative(point), line)

    def compute_transitions(self) -> Transitions:
        lines = list(self._line_transitions())
        found: list[tuple[Symbols, Node]] = []
        for letters, text in self.text.transitions:
            spend(1 + len(lines) // 8)
            for others, line in lines:
                if common := letters & others:
                    found.append((common, self._with(text, line)))
        return collect_transitions(found)

    def _line_transitions(self) -> Iterator[tuple[CodePointSet, Node]]:
        rest = ANY_CODE_POINT
        for letters, line in self.line.transitions:
            rest = rest & ~letters
            yield letters, line
        if _NEW_LINE in rest:
            rest = rest & ~_LINE_FEED
            yield _LINE_FEED, self.headings
        yield rest, EMPTY

    def _with(self, text: Node, line: Node) -> Node:
        if text is EPSILON and self.wanted is not None:
            return EMPTY if line.nullable else EPSILON
        return _without(text, self.headings, line, ends_lines=self.ends_lines)

    def near(self, length: int) -> TextWithoutHeadings:
        """Return a text with the same beginnings up to ``length``; see :meth:`UntilText.near`."""
        return self._of(lambda text: text.near(length))

    def without_min_chars(self) -> TextWithoutHeadings:
        """Return the text without its lower bound."""
        return self._of(UntilText.without_min_chars)

    def without_end(self) -> TextWithoutHeadings:
        """Return the texts of any length that end anywhere, without any of the strings."""
        return self._of(UntilText.without_end, ends_lines=False)

    def ends_with(self, text: bytes) -> bool:
        """Whether bytes end with the wanted string, given that no beginning of them does."""
        return isinstance(self.text, UntilText) and self.text.ends_with(text)

    def shortest(self) -> Node:
        """Return the rest of the text with the fewest characters."""
        if not self.ends_lines:
            text = self.text.shortest() if isinstance(self.text, UntilText) else EPSILON
            return EPSILON if text is EPSILON else self._with(text, self.line)
        if self.nullable:
            return EPSILON
        after = self.character_derivative(_NEW_LINE)
        return symbols(_LINE_FEED) if after.nullable else self

    def _of(
        self, change: Callable[[UntilText], UntilText], *, ends_lines: bool | None = None
    ) -> TextWithoutHeadings:
        text = change(self.text) if isinstance(self.text, UntilText) else self.text
        ends_lines = self.ends_lines if ends_lines is None else ends_lines
        return _interned(text, self.headings, self.line, ends_lines=ends_lines)


def with_shortest_text(node: Node) -> Node:
    """Return a node whose free text, if it begins with one, has the fewest characters left."""
    if isinstance(node, EncodedText) and isinstance(node.text, UntilText | TextWithoutHeadings):
        return encoded(node.text.shortest(), node.spelling, node.terminator)
    if isinstance(node, Concatenation):
        return concatenation(node.head, with_shortest_text(node.tail))
    if isinstance(node, Union):
        return union(map(with_shortest_text, node.members))
    return node


def without_headings(text: Node, headings: Node, first: Node | None = None) -> Node:
    """Return the texts no line of which begins with a heading.

    Args:
        text: A text of :mod:`state_machines.grammar.until`.
        headings: The headings, none of which is empty; :data:`EMPTY` if there are none.
        first: The headings of the first line, if they are others.
    """
    return _without(text, headings, headings if first is None else first, ends_lines=False)


def is_line_start(node: Node) -> bool:
    """Whether a text without headings, as bytes, is at the start of a line, or of the text."""
    if not isinstance(node, EncodedText):
        return False
    text = node.text
    return isinstance(text, TextWithoutHeadings) and text.line is text.headings


def ending_with_line(node: Node) -> Node:
    """Return the words of a text without headings, as bytes, that end at the start of a line.

    A line feed within the beginning of a heading does not count as an end.
    """
    if isinstance(node, Concatenation):
        return concatenation(node.head, ending_with_line(node.tail))
    if isinstance(node, Union):
        return union(map(ending_with_line, node.members))
    if not isinstance(node, EncodedText) or not isinstance(node.text, TextWithoutHeadings):
        return EMPTY
    found = node.text
    text = _without(found.text, found.headings, found.line, ends_lines=True)
    return encoded(text, node.spelling)


def _without(text: Node, headings: Node, line: Node, *, ends_lines: bool) -> Node:
    if line.nullable:
        return EMPTY
    if line is headings is EMPTY:
        return text
    if not isinstance(text, UntilText):
        if text is EPSILON and line is headings:
            return EPSILON if ends_lines else _interned(text, headings, line, ends_lines=False)
        return EMPTY if ends_lines else text
    if ends_lines and not (line is headings and text.nullable) and not _reaches_line(text, line):
        return EMPTY
    return _interned(text, headings, line, ends_lines=ends_lines)


def _reaches_line(text: UntilText, line: Node) -> bool:
    """Whether more of a text may be written and end with a line."""
    if text.max_chars is not None and text.max_chars < 2:
        is_in_heading = line.character_derivative(_NEW_LINE) is not EMPTY
        return text.character_derivative(_NEW_LINE).nullable and not is_in_heading
    # A character that occurs in none of the strings may come first. It ends any heading.
    automaton = text.automaton
    return automaton.found[automaton.next_state(0, "\n")] is None


def _interned(text: Node, headings: Node, line: Node, *, ends_lines: bool) -> TextWithoutHeadings:
    key = ("TextWithoutHeadings", id(text), id(headings), id(line), ends_lines)
    return intern_node(
        key, lambda: TextWithoutHeadings(text, headings, line, ends_lines=ends_lines)
    )
