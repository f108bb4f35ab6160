"""Members of objects whose names have no quotes."""

from __future__ import annotations

from collections.abc import Iterable

from state_machines.grammar.encoding import RAW, encode_set, encoded
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EMPTY, EPSILON, Node, intern_node
from state_machines.grammar.nodes import concatenation, literal, union
from state_machines.grammar.symbols import CodePointSet
from state_machines.json_schema.value_syntax import WHITESPACE_LAYOUTS, MemberSyntax


class PlainMembers(MemberSyntax):
    """Members with names that are written as they are, but for escaped characters.

    Args:
        terminator: The byte that ends a name. No spelling of a name contains it.
        begin: The text before all members.
        before_name: The text before a name.
        after_name: The text between the terminator of a name and the value.
        after_value: The text after a value.
        between: The text between two members.
        end: The text after all members.
        escapes: Characters and how names have them, the character that begins an escape first.
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
        escapes: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(WHITESPACE_LAYOUTS["compact"])
        self.begin, self.end = begin, end
        self.name_begin, self.colon, self.value_end = before_name, after_name, after_value
        self._terminator = terminator
        self._between = between
        self._escapes = escapes

    def comma(self, depth: int) -> Node:
        """Return the text between two members."""
        del depth
        return self._between

    def spellings(self, name: str) -> Iterable[bytes]:
        """Return the name and its terminator."""
        for letter, written in self._escapes:
            name = name.replace(letter, written)
        return (name.encode() + self._terminator,)

    def names(self, words: Node) -> Node:
        """Return the spellings of a language of names."""
        if not self._escapes:
            return encoded(words, RAW, self._terminator)
        return _escaped_names(words, self._escapes, self._terminator)

    def read_name(self, text: bytes) -> str:
        """Return the name of a spelling."""
        name = text[: -len(self._terminator)].decode()
        for letter, written in reversed(self._escapes):
            name = name.replace(written, letter)
        return name


class _EscapedNames(Lazy):
    """The spellings of a language of names with escaped characters."""

    __slots__ = ("escapes", "names", "terminator")

    def __init__(
        self, names: Node, escapes: tuple[tuple[str, str], ...], terminator: bytes
    ) -> None:
        super().__init__(min_length=names.min_length + len(terminator))
        self.names = names
        self.escapes = escapes
        self.terminator = terminator
        self.transient = names.transient

    def expand(self) -> Node:
        """Return the union of the spellings of first characters, each with the rest of the name."""
        escaped = CodePointSet.of("".join(letter for letter, _ in self.escapes))
        found = [literal(self.terminator)] if self.names.nullable else []
        for characters, target in self.names.transitions:
            rest = _escaped_names(target, self.escapes, self.terminator)
            found.append(concatenation(encode_set(characters & ~escaped, RAW), rest))
            found.extend(
                concatenation(literal(written.encode()), rest)
                for letter, written in self.escapes
                if ord(letter) in characters
            )
        return union(found)


def _escaped_names(names: Node, escapes: tuple[tuple[str, str], ...], terminator: bytes) -> Node:
    if names.is_empty:
        return EMPTY
    return intern_node(
        (_EscapedNames, id(names), escapes, terminator),
        lambda: _EscapedNames(names, escapes, terminator),
    )
