"""Members of objects whose names have no quotes."""

from __future__ import annotations

from collections.abc import Iterable

from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.node import EPSILON, Node
from state_machines.json_schema.value_syntax import WHITESPACE_LAYOUTS, MemberSyntax


class PlainMembers(MemberSyntax):
    """Members with names that are written as they are.

    Args:
        terminator: The byte that ends a name. No name contains it.
        begin: The text before all members.
        before_name: The text before a name.
        after_name: The text between the terminator of a name and the value.
        after_value: The text after a value.
        between: The text between two members.
        end: The text after all members.
    """

    any_name = None

    def __init__(
        self,
        terminator: bytes,
        *,
        begin: Node = EPSILON,
        before_name: Node = EPSILON,
        after_name: Node = EPSILON,
        after_value: Node = EPSILON,
        between: Node = EPSILON,
        end: Node = EPSILON,
    ) -> None:
        super().__init__(WHITESPACE_LAYOUTS["compact"])
        self.begin, self.end = begin, end
        self.name_begin, self.colon, self.value_end = before_name, after_name, after_value
        self._terminator = terminator
        self._between = between

    def comma(self, depth: int) -> Node:
        """Return the text between two members."""
        del depth
        return self._between

    def spellings(self, name: str) -> Iterable[bytes]:
        """Return the name and its terminator."""
        return (name.encode() + self._terminator,)

    def names(self, words: Node) -> Node:
        """Return the spellings of a language of names."""
        return encoded(words, RAW, self._terminator)

    def read_name(self, text: bytes) -> str:
        """Return the name of a spelling."""
        return text[: -len(self._terminator)].decode()
