"""Arguments as tags: a name, then a value, either raw or JSON.

A property that admits strings alone has raw values, without quotes and escapes. All other values
are JSON. Which of the two a text is depends on the schema, so the family's parser needs the schema.

Strings that the parser would read as another value, such as "null" for some families, are excluded
from a property's values. A property without remaining values is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from state_machines.grammar.boolean import intersection
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import concatenation, literal, union
from state_machines.json_schema.terms import Term
from state_machines.json_schema.value_sets import ValueSet
from state_machines.json_schema.value_syntax import (
    JSON_SYNTAXES,
    WHITESPACE_LAYOUTS,
    MemberSyntax,
    ValueSyntax,
)
from state_machines.regex import compile_pattern
from state_machines.root.parts import Spell
from state_machines.tool_calls.notations.argument_compiler import ArgumentCompiler, values_of
from state_machines.tool_calls.notations.json_notation import read_json
from state_machines.tool_calls.notations.notation import (
    CompiledArguments,
    Notation,
    NotationOptions,
    Schema,
    unique_members,
)
from state_machines.tool_calls.notations.raw_text import (
    NO_LITERAL,
    TRIMMED,
    raw_texts,
    texts_without,
)

_NULL = literal(b"null")
_PYTHON_WORDS = {"True": True, "False": False, "None": None}


@dataclass(frozen=True)
class TaggedNotation(Notation):
    r"""Members as ``before_name NAME after_name VALUE after_value``.

    Attributes:
        before_name: The text before a name.
        after_name: The text between a name and its value.
        after_value: The text after a value.
        closing: The text that ends a value for the parser, so that no value contains it.
        avoid: Other texts that no value contains, such as the marker that ends a call.
        names: A pattern of the names that can be written.
        between: The text between two members.
        markers: The parts of these texts that may be special tokens.
        trims: Whether the parser strips white space from values.
        reads_null: Whether the parser reads ``null``, in any case, as null even for a string.
        unlisted_are_strings: Whether the parser reads the values of properties that the schema does
            not list as raw strings. Otherwise it reads them as literals.
        guesses: Whether the parser reads a value that is no literal as a raw string, also for a
            property that is not only strings. Such strings need no quotes.
        knows_types: Whether the parser gets the types of properties. Otherwise it always guesses.
        python_words: Whether ``True``, ``False`` and ``None`` may be written for a whole value.
        says_string: Whether ``true">`` or ``false">`` precedes the value and says if it is a raw
            string, whatever the schema.
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

    def write(self, arguments: Mapping[str, Any]) -> str:
        """Return the members as tags, with strings as they are and other values as JSON."""
        return self.between.join(
            f"{self.before_name}{name}{self.after_name}{self._written(value)}{self.after_value}"
            for name, value in arguments.items()
        )

    def _written(self, value: Any) -> str:
        is_string = isinstance(value, str)
        kind = f'{json.dumps(is_string)}">' if self.says_string else ""
        return kind + (value if is_string else json.dumps(value, ensure_ascii=False))

    def end(self, text: str, start: int) -> int:
        """Return the position after the last member; see :meth:`Notation.end`."""
        at, before = start, self.before_name
        while text.startswith(before, at):
            end = text.find(self.after_value, at)
            if end < 0:
                raise ValueError("a value does not end")
            at, before = end + len(self.after_value), self.between + self.before_name
        return at

    def _compile(self, schema: Schema, options: NotationOptions) -> CompiledArguments:
        return _TaggedCompiler(self, schema, options).compile()

    def spelled(self, text: str, spell: Spell) -> bytes:
        """Return the bytes of a text that may contain markers."""
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


# Parsers read an argument of type integer with `int`, which refuses a point.
_OPTIONAL_SPACES = ValueSyntax(WHITESPACE_LAYOUTS["json"])


class _TaggedCompiler(ArgumentCompiler):
    """Compiles and reads the arguments of one schema."""

    def __init__(self, notation: TaggedNotation, schema: Schema, options: NotationOptions) -> None:
        syntax = JSON_SYNTAXES[options.whitespace] if options.whitespace else _OPTIONAL_SPACES
        super().__init__(schema, options, syntax)
        self._notation = notation
        self._spell = options.spell
        self._avoid = frozenset((notation.closing, *notation.avoid, *options.avoid))
        self._raw_properties = {
            name: notation.knows_types
            and not notation.says_string
            and self.admits_only_strings(name, or_null=notation.reads_null)
            for name in self.property_values
        }

    def compile(self) -> CompiledArguments:
        notation = self._notation
        texts = texts_without(self._avoid)
        values = values_of(texts, texts)
        raw = self.compilation.table.evaluated(
            ValueSet(
                null=notation.reads_null,
                strings=raw_texts(self._avoid, notation.trims, notation.reads_null),
            )
        )
        term = self.restrict(
            lambda name: raw if self._raw_properties[name] else values,
            intersection((notation.name_language, texts)),
            raw if notation.unlisted_are_strings else values,
            f"the notation {notation.name!r}",
        )
        node = self.object_node(term, _TaggedMembers(notation, self._spell), self._value_node)
        types = {
            name: {"type": "string" if is_raw else "object"}
            for name, is_raw in self._raw_properties.items()
        }
        return CompiledArguments(node, self.read, {"type": "object", "properties": types})

    def _is_raw(self, name: str | None) -> bool:
        default = self._notation.unlisted_are_strings
        return default if name is None else self._raw_properties.get(name, default)

    def _value_node(self, term: Term, name: str | None) -> Node:
        notation = self._notation
        values = self.evaluator.values(term)
        if notation.says_string:
            return union(
                (
                    _unless_empty(b'true">', encoded(values.strings, RAW)),
                    _unless_empty(b'false">', self.translator.others_without(term, (), 1)),
                )
            )
        if self._is_raw(name):
            return union((encoded(values.strings, RAW), _NULL if values.null else EMPTY))
        forms = [self.translator.value(term, 1)]
        if notation.guesses:
            forms.append(encoded(intersection((values.strings, NO_LITERAL, TRIMMED)), RAW))
        if notation.python_words:
            forms.extend(literal(repr(value).encode()) for value in sorted(values.booleans))
            forms.extend([literal(b"None")] if values.null else [])
        return union(forms)

    def read(self, text: str) -> dict[str, Any]:
        """Return the arguments of a text; raise ``ValueError`` for any other text."""
        return unique_members(self._members(text))

    def _members(self, text: str) -> list[tuple[str, Any]]:
        notation = self._notation
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
                raise ValueError(f"unterminated: {text[at : at + 40]!r}")
            name = text[start:end]
            found.append((name, self._read_value(name, text[start_of_value:end_of_value])))
            at = end_of_value + len(notation.after_value)
        return found

    def _read_value(self, name: str, text: str) -> Any:
        notation = self._notation
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
    """Members as tags, without brackets around them."""

    begin = EPSILON
    end = EPSILON
    any_name = None

    def __init__(self, notation: TaggedNotation, spell: Spell) -> None:
        super().__init__(WHITESPACE_LAYOUTS["compact"])
        after_name = notation.spelled(notation.after_name, spell)
        # No name contains the first byte, so a name ends there.
        self._terminator = after_name[:1]
        self.colon = literal(after_name[1:])
        self.name_begin = literal(notation.spelled(notation.before_name, spell))
        self.value_end = literal(notation.spelled(notation.after_value, spell))
        self._between = literal(notation.between.encode())

    def comma(self, depth: int) -> Node:
        """Return the text between two members."""
        del depth
        return self._between

    def spellings(self, name: str) -> tuple[bytes, ...]:
        """Return the name and the byte that ends it."""
        return (name.encode() + self._terminator,)

    def names(self, words: Node) -> Node:
        """Return the spellings of a language of names."""
        return encoded(words, RAW, self._terminator)

    def read_name(self, text: bytes) -> str:
        """Return the name of a spelling."""
        return text[:-1].decode()


# The notations of model families.

_SPACE = r"\s\x1c-\x1f\x85"

QWEN_CODER = TaggedNotation(
    "qwen-coder",
    before_name="<parameter=",
    after_name=">\n",
    after_value="\n</parameter>\n",
    closing="</parameter>",
    avoid=("</tool_call>",),
    names=rf"^[^<>{_SPACE}]+$",
    reads_null=True,
    unlisted_are_strings=True,
    python_words=True,
)
"""Qwen3-Coder and Qwen3.5."""

MINIMAX = TaggedNotation(
    "minimax",
    before_name='<parameter name="',
    after_name='">',
    after_value="</parameter>\n",
    closing="</parameter>",
    avoid=("</invoke>", "</minimax:tool_call>"),
    names=r'^[^<>"]*$',
    trims=True,
    reads_null=True,
    unlisted_are_strings=True,
)
"""MiniMax M2."""


def _by_pairs(name: str, prefix: str, call: str, gap: str) -> TaggedNotation:
    key, end_key = f"<{prefix}arg_key>", f"</{prefix}arg_key>"
    value, end_value = f"<{prefix}arg_value>", f"</{prefix}arg_value>"
    return TaggedNotation(
        name,
        before_name=key,
        after_name=f"{end_key}{gap}{value}",
        after_value=f"{end_value}{gap}",
        closing=end_value,
        avoid=(f"</{call}>",),
        names=rf"^([^<>{_SPACE}]([^<>]*[^<>{_SPACE}])?)?$",
        markers=(key, end_key, value, end_value),
        trims=True,
        guesses=True,
    )


GLM = _by_pairs("glm", "", "tool_call", "\n")
"""GLM 4.5 and 4.6: a line each for name and value."""

GLM_COMPACT = _by_pairs("glm-compact", "", "tool_call", "")
"""GLM 4.7 and 5: no white space between the tags."""

LONGCAT = _by_pairs("longcat", "longcat_", "longcat_tool_call", "\n")
"""LongCat Flash."""

_DSML = "｜DSML｜"

DSML = TaggedNotation(
    "dsml",
    before_name=f'<{_DSML}parameter name="',
    after_name='" string="',
    after_value=f"</{_DSML}parameter>",
    closing=f"</{_DSML}parameter>",
    avoid=(f"</{_DSML}invoke>", f"</{_DSML}function_calls>"),
    names=r'^[^<>"]+$',
    between="\n",
    markers=(_DSML,),
    says_string=True,
)
"""DeepSeek V3.2."""

MINICPM = TaggedNotation(
    "minicpm",
    before_name='<param name="',
    after_name='">',
    after_value="</param>",
    closing="</param>",
    # A value that looks like a CDATA section would be unwrapped.
    avoid=("</function>", "<![CDATA["),
    names=r'^[^<>"]*$',
    trims=True,
    reads_null=True,
    unlisted_are_strings=True,
)
"""MiniCPM5."""

ATEM = TaggedNotation(
    "atem",
    before_name='<atem:parameter name="',
    after_name='">',
    after_value="</atem:parameter>\n",
    closing="</atem:parameter>",
    avoid=("</atem:invoke>", "</atem:function_calls>"),
    names=r'^[^<>"]+$',
    trims=True,
    guesses=True,
    knows_types=False,
)
"""Muse Spark."""
