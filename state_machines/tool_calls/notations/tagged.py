"""Arguments as tags: a name, then a value, either raw or JSON.

A property that admits strings alone has them written raw: no quotes, no escapes. Everything else is
JSON. Which of the two a text is depends on the schema, so the family's parser is to be told.

A string that a parser would read as another value, such as "null" in some, is left out of what a
property admits; a property of which nothing is left is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from state_machines.grammar.boolean import intersection
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import concatenation, literal, union
from state_machines.json_schema.terms import Term
from state_machines.json_schema.value_sets import ValueSet
from state_machines.json_schema.value_syntax import JSON_SYNTAXES, WHITESPACE_LAYOUTS, MemberSyntax
from state_machines.regex import compile_pattern
from state_machines.tool_calls.notations.json_notation import read_json
from state_machines.tool_calls.notations.notation import (
    CompiledArguments,
    Notation,
    NotationOptions,
    Schema,
    Spell,
    unique_members,
)
from state_machines.tool_calls.notations.raw_text import NO_LITERAL, TRIMMED, raw_texts, without
from state_machines.tool_calls.notations.restrictions import everywhere
from state_machines.tool_calls.notations.writing import Writing

__all__ = ["TaggedNotation"]

_NULL = literal(b"null")
_PYTHON_WORDS = {"True": True, "False": False, "None": None}


@dataclass(frozen=True)
class TaggedNotation(Notation):
    r"""Members as ``before_name NAME after_name VALUE after_value``.

    * ``markers`` are the parts of these that may be special tokens; ``closing`` is what ends a
      value, and no value contains; ``avoid`` are other such texts, the marker that ends a call
      among them. ``between`` stands between two members.
    * ``names``: a pattern of the names that can be written.
    * ``trims``: the parser strips white space from values. ``reads_null``: it reads ``null``, in
      whatever case, as null even where a string is due.
    * ``unlisted_are_strings``: it reads the values of properties that the schema does not list as
      raw strings; otherwise as literals.
    * ``guesses``: what is no literal, it reads as a raw string, also where not only strings are
      due; so such strings need no quotes.
    * ``knows_types``: the parser is told which properties are strings; one that is not guesses
      always.
    * ``python_words``: ``True``, ``False`` and ``None`` may be written for a whole value.
    * ``says_string``: ``VALUE`` stands after ``true">`` or ``false">``, which says whether it is
      a raw string, whatever the schema.
    """

    name: str
    before_name: str
    after_name: str
    after_value: str
    closing: str
    avoid: tuple[str, ...]
    names: str
    between: str = ""
    markers: tuple[str, ...] = ()
    trims: bool = False
    reads_null: bool = False
    unlisted_are_strings: bool = False
    guesses: bool = False
    knows_types: bool = True
    python_words: bool = False
    says_string: bool = False
    has_json: ClassVar[bool] = True

    def _arguments(self, schema: Schema, options: NotationOptions) -> CompiledArguments:
        return _TaggedWriting(self, schema, options).arguments()

    def spelled(self, text: str, spell: Spell) -> bytes:
        """Return the bytes of a text in which markers stand."""
        if not self.markers:
            return text.encode()
        pieces = re.split("(" + "|".join(map(re.escape, self.markers)) + ")", text)
        return b"".join(
            spell(piece) if piece in self.markers else piece.encode() for piece in pieces
        )

    @cached_property
    def name_language(self) -> Node:
        """The names that can be written, as a language of code points."""
        return compile_pattern(self.names, search=True)


class _TaggedWriting:
    """The arguments of one schema in a notation."""

    def __init__(self, notation: TaggedNotation, schema: Schema, options: NotationOptions) -> None:
        self.notation = notation
        self.spell = options.spell
        self.avoid = frozenset((notation.closing, *notation.avoid, *options.avoid))
        self.writing = Writing(schema, options, JSON_SYNTAXES[options.whitespace or "json"])
        self.is_raw = {
            name: notation.knows_types
            and not notation.says_string
            and self.writing.admits_only_strings(name, or_null=notation.reads_null)
            for name in self.writing.values_of
        }

    def arguments(self) -> CompiledArguments:
        notation, writing = self.notation, self.writing
        texts = without(self.avoid)
        inner = everywhere(texts, texts)
        raw = writing.compilation.table.evaluated(
            ValueSet(
                null=notation.reads_null,
                strings=raw_texts(self.avoid, notation.trims, notation.reads_null),
            )
        )
        names = intersection((notation.name_language, texts))
        term = writing.restricted(
            lambda name: raw if self.is_raw[name] else inner,
            names,
            raw if notation.unlisted_are_strings else inner,
            f"the notation {notation.name!r}",
        )
        members = _TaggedMembers(notation, self.spell)
        node = writing.node(term, members, self.value_node)
        kinds = {
            name: {"type": "string" if is_raw else "object"} for name, is_raw in self.is_raw.items()
        }
        return CompiledArguments(node, self.read, {"type": "object", "properties": kinds})

    def _is_raw(self, name: str | None) -> bool:
        default = self.notation.unlisted_are_strings
        return default if name is None else self.is_raw.get(name, default)

    def value_node(self, term: Term, name: str | None) -> Node:
        """Return the node of a property's values, without what stands around them."""
        notation, translator = self.notation, self.writing.translator
        values = self.writing.evaluator.values(term)
        if notation.says_string:
            return union(
                (
                    _unless_empty(b'true">', encoded(values.strings, RAW)),
                    _unless_empty(b'false">', translator.others_without(term, (), 1)),
                )
            )
        if self._is_raw(name):
            return union((encoded(values.strings, RAW), _NULL if values.null else EMPTY))
        ways = [translator.value(term, 1)]
        if notation.guesses:
            ways.append(encoded(intersection((values.strings, NO_LITERAL, TRIMMED)), RAW))
        if notation.python_words:
            ways.extend(literal(repr(value).encode()) for value in sorted(values.booleans))
            ways.extend([literal(b"None")] if values.null else [])
        return union(ways)

    def read(self, text: str) -> dict[str, Any]:
        """Return the arguments that a text writes."""
        return unique_members(self._members(text))

    def _members(self, text: str) -> list[tuple[str, Any]]:
        notation = self.notation
        found: list[tuple[str, Any]] = []
        at = 0
        while at < len(text):
            if found:
                at = _past(text, notation.between, at)
            start = _past(text, notation.before_name, at)
            end = text.find(notation.after_name, start)
            start_of_value = end + len(notation.after_name)
            end_of_value = text.find(notation.after_value, start_of_value)
            if end < 0 or end_of_value < 0:
                raise ValueError(f"not ended: {text[at : at + 40]!r}")
            name = text[start:end]
            found.append((name, self._read_value(name, text[start_of_value:end_of_value])))
            at = end_of_value + len(notation.after_value)
        return found

    def _read_value(self, name: str, text: str) -> Any:
        notation = self.notation
        if notation.says_string:
            kind, mark, text = text.partition('">')
            if not mark or kind not in ("true", "false"):
                raise ValueError(f"neither a string nor another value: {kind[:40]!r}")
            return text if kind == "true" else read_json(text)
        if notation.reads_null and text.lower() == "null":
            return None
        if self._is_raw(name):
            return text
        if notation.python_words and text in _PYTHON_WORDS:
            return _PYTHON_WORDS[text]
        try:
            return read_json(text)
        except ValueError:
            if notation.guesses:
                return text
            raise


def _unless_empty(before: bytes, node: Node) -> Node:
    return EMPTY if node is EMPTY else concatenation(literal(before), node)


def _past(text: str, expected: str, at: int) -> int:
    if not text.startswith(expected, at):
        raise ValueError(f"{expected!r} was expected, not {text[at : at + 40]!r}")
    return at + len(expected)


class _TaggedMembers(MemberSyntax):
    """Members as tags, nothing around them."""

    begin = EPSILON
    end = EPSILON
    any_name = None

    def __init__(self, notation: TaggedNotation, spell: Spell) -> None:
        super().__init__(WHITESPACE_LAYOUTS["compact"])
        after_name = notation.spelled(notation.after_name, spell)
        # No name contains the first byte, so that tells where one ends.
        self._terminator = after_name[:1]
        self.colon = literal(after_name[1:])
        self.name_begin = literal(notation.spelled(notation.before_name, spell))
        self.value_end = literal(notation.spelled(notation.after_value, spell))
        self._between = literal(notation.between.encode())

    def comma(self, depth: int) -> Node:
        """What stands between two members."""
        del depth
        return self._between

    def spellings(self, name: str) -> tuple[bytes, ...]:
        """Return how a name is written, with the byte that ends it."""
        return (name.encode() + self._terminator,)

    def names(self, words: Node) -> Node:
        """Return the spellings of a language of names."""
        return encoded(words, RAW, self._terminator)

    def read_name(self, text: bytes) -> str:
        """Return the name of a spelling."""
        return text[:-1].decode()
