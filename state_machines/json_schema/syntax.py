"""How values are written: JSON, or a notation that differs from it in its strings and names.

Arrays and objects have the brackets and commas of JSON everywhere below the whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from json.encoder import encode_basestring, encode_basestring_ascii

from state_machines.grammar.boolean import everything
from state_machines.grammar.encoding import JSON_STRING, encoded
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import concatenation, literal, union
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.json_schema.layout import LAYOUTS, Layout, Whitespace

__all__ = ["JSON_SYNTAXES", "MemberSyntax", "Syntax"]

QUOTE = literal(b'"')


class MemberSyntax:
    """How the members of an object are written: as JSON does.

    ``name_begin`` stands before a name, ``value_end`` after a value; the terminator of a name is
    part of its spelling, ``begin`` and ``end`` stand around all members.
    """

    begin: Node = literal(b"{")
    end: Node = literal(b"}")
    name_begin: Node = QUOTE
    value_end: Node = EPSILON

    any_name: Node | None = encoded(everything(ANY_CODE_POINT), JSON_STRING, b'"')
    """Any name and its terminator, where names are JSON strings."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.colon = layout.colon

    def opening(self, depth: int) -> Node:
        """What stands before the first member."""
        return self.layout.opening(depth)

    def comma(self, depth: int) -> Node:
        """What stands between two members."""
        return self.layout.comma(depth)

    def closing(self, depth: int) -> Node:
        """What stands after the last member."""
        return self.layout.closing(depth)

    def spellings(self, name: str) -> Iterable[bytes]:
        """Return how a name may be written, terminator included; none begins another."""
        yield encode_basestring(name).encode()[1:]
        if not name.isascii():
            yield encode_basestring_ascii(name).encode()[1:]

    def names(self, words: Node) -> Node:
        """Return the spellings of a language of names, each with its terminator."""
        return encoded(words, JSON_STRING, b'"')

    def read_name(self, text: bytes) -> str:
        """Return the name of a spelling, terminator included."""
        name: str = json.loads(b'"' + text)
        return name


class Syntax:
    """How values are written: as JSON does."""

    null: Node = literal(b"null")
    true: Node = literal(b"true")
    false: Node = literal(b"false")

    quotes_strings: bool = True
    """Whether strings and names are JSON strings, of which other modules know the spelling."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.members = MemberSyntax(layout)

    def booleans(self, values: Iterable[bool]) -> Node:
        """Return how Booleans are written."""
        return union(self.true if value else self.false for value in sorted(values))

    def string(self, words: Node) -> Node:
        """Return how the strings of a language of code points are written, quotes included."""
        return concatenation(QUOTE, encoded(words, JSON_STRING, b'"'))

    def as_json(self, text: bytes) -> str:
        """Return the JSON of a value that is written as ``text``."""
        return text.decode()


JSON_SYNTAXES: dict[Whitespace, Syntax] = {name: Syntax(LAYOUTS[name]) for name in LAYOUTS}
