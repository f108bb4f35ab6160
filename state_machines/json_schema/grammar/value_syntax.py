"""How JSON values are written: whitespace, brackets, names and strings.

:class:`ValueSyntax`, :class:`MemberSyntax` and :class:`ItemSyntax` write JSON. Notations of the
arguments of tool calls subclass them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Literal

from state_machines.grammar.boolean import everything
from state_machines.grammar.encoding import JSON_STRING, encoded
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import (
    concatenation,
    literal,
    optional,
    repetition,
    symbols,
    union,
)
from state_machines.grammar.symbols import ANY_CODE_POINT, byte_set

QUOTATION_MARK = literal(b'"')
_COLON, _COMMA = literal(b":"), literal(b",")
_BRACKETS = literal(b"["), literal(b"]")
_BRACES = literal(b"{"), literal(b"}")

Whitespace = Literal["compact", "json", "spaced", "indented"]


class WhitespaceLayout:
    """What separates the parts of containers, and names from values.

    All layouts of JSON are bounded, because a model may repeat unbounded whitespace forever.

    Args:
        colon: The separator between a name and its value.
        comma: The separator between two parts.
        opening: The text between a bracket and the first part.
        closing: The text between the last part and the closing bracket.
        is_indented: Whether every part starts a new line, in place of the last three.
    """

    def __init__(
        self,
        colon: Node = _COLON,
        comma: Node = _COMMA,
        opening: Node = EPSILON,
        closing: Node = EPSILON,
        *,
        is_indented: bool = False,
    ) -> None:
        self.colon = colon
        self.is_indented = is_indented
        self._comma, self._opening, self._closing = comma, opening, closing

    def comma(self, depth: int) -> Node:
        """Return the separator between two parts at nesting level ``depth``."""
        return literal(b",\n" + b"  " * depth) if self.is_indented else self._comma

    def opening(self, depth: int) -> Node:
        """Return the text before the first part."""
        return literal(b"\n" + b"  " * depth) if self.is_indented else self._opening

    def closing(self, depth: int) -> Node:
        """Return the text after the last part."""
        return literal(b"\n" + b"  " * (depth - 1)) if self.is_indented else self._closing


def _with_spaces(space: Node, *, is_indented: bool = False) -> WhitespaceLayout:
    """Return a layout with spaces after ``,`` and ``:``."""
    return WhitespaceLayout(
        concatenation(_COLON, space), concatenation(_COMMA, space), is_indented=is_indented
    )


WHITESPACE_LAYOUTS: dict[Whitespace, WhitespaceLayout] = {
    "compact": WhitespaceLayout(),
    "json": _with_spaces(optional(literal(b" "))),
    "spaced": _with_spaces(literal(b" ")),
    "indented": _with_spaces(literal(b" "), is_indented=True),
}
"""``"compact"``: no whitespace. ``"json"``: an optional space after ``,`` and ``:``, so that
compact text matches as well as the default output of ``json.dumps``. ``"spaced"``: exactly the
default output of ``json.dumps``, so that more text is forced. ``"indented"``: the output of
``json.dumps(indent=2)``.
"""


_SPACE_BYTES = byte_set(map(ord, " \n\r\t"))


def white_space(max_chars: int | None) -> Node:
    """Return runs of JSON's white space."""
    return repetition(symbols(_SPACE_BYTES), 0, max_chars)


class ItemSyntax:
    """How the items of an array are written; the default brackets are JSON's.

    Args:
        layout: What separates the items.
        begin: The text before all items.
        end: The text after all items.
    """

    def __init__(
        self,
        layout: WhitespaceLayout,
        begin: Node = _BRACKETS[0],
        end: Node = _BRACKETS[1],
    ) -> None:
        self.begin, self.end = begin, end
        self.opening, self.comma, self.closing = layout.opening, layout.comma, layout.closing


class MemberSyntax(ItemSyntax):
    """How the members of an object are written; this class writes JSON.

    Attributes:
        colon: The text between the terminator of a name and the value.
        name_begin: The text before a name. A name's terminator is part of its spelling.
        any_name: The spellings of all names with their terminators; ``None`` if names are not JSON
            strings.
    """

    name_begin: Node = QUOTATION_MARK
    any_name: Node | None = encoded(everything(ANY_CODE_POINT), JSON_STRING, b'"')

    def __init__(
        self,
        layout: WhitespaceLayout,
        begin: Node = _BRACES[0],
        end: Node = _BRACES[1],
    ) -> None:
        super().__init__(layout, begin, end)
        self.colon = layout.colon

    def value_end(self, name: str | None) -> Node:
        """Return the text after a value; ``None`` for a name that the schema does not list."""
        del name
        return EPSILON

    def spellings(self, name: str) -> Iterable[bytes]:
        """Yield the spellings of a name with its terminator; no spelling is a prefix of another."""
        yield encode_basestring(name).encode()[1:]
        if not name.isascii():
            yield encode_basestring_ascii(name).encode()[1:]

    def names(self, language: Node) -> Node:
        """Return the spellings of a language of names, each with its terminator."""
        return encoded(language, JSON_STRING, b'"')

    def read_name(self, text: bytes) -> str:
        """Return the name that a spelling with its terminator stands for."""
        if b"\\" not in text:
            return text[:-1].decode()
        name: str = json.loads(b'"' + text)
        return name


class ValueSyntax:
    """How values are written; this class writes JSON.

    Attributes:
        null: The spelling of ``null``.
        true: The spelling of ``true``.
        false: The spelling of ``false``.
        quotes_strings: Whether strings and names are JSON strings.
        plain_integers: Whether integers are written without a point, see
            :func:`~state_machines.reader_languages.numbers.number_text.number_language`.
    """

    null: Node = literal(b"null")
    true: Node = literal(b"true")
    false: Node = literal(b"false")
    quotes_strings: bool = True

    def __init__(self, layout: WhitespaceLayout, *, plain_integers: bool = True) -> None:
        self.layout = layout
        self.members = MemberSyntax(layout)
        self.items = ItemSyntax(layout)
        self.plain_integers = plain_integers

    def booleans(self, values: Iterable[bool]) -> Node:
        """Return the spellings of Booleans."""
        return union(self.true if value else self.false for value in sorted(values))

    def scalar(self, spellings: Node) -> Node:
        """Return how ``null``, Booleans and numbers are written, given their spellings."""
        return spellings

    def string(self, texts: Node) -> Node:
        """Return the spellings, with quotes, of a language of code points."""
        return concatenation(QUOTATION_MARK, encoded(texts, JSON_STRING, b'"'))

    def as_json(self, text: bytes) -> str:
        """Return the JSON text of a value that is spelled ``text``."""
        return text.decode()


JSON_SYNTAXES: dict[Whitespace, ValueSyntax] = {
    # The other layouts write what `json.dumps` writes.
    name: ValueSyntax(layout, plain_integers=name != "json")
    for name, layout in WHITESPACE_LAYOUTS.items()
}
