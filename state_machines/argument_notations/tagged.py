"""Arguments as tags: a name, then a value, either raw or JSON.

A property that admits strings alone has raw values, without quotes and escapes. All other values
are JSON. Which of the two a text is depends on the schema, so the family's parser needs the schema.

Strings that the parser would read as another value, such as "null" for some families, are excluded
from a property's values. A property without remaining values is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

from state_machines.argument_notations.argument_compiler import (
    EXACT_NUMBERS,
    ArgumentCompiler,
    values_of,
)
from state_machines.argument_notations.literals import read_json
from state_machines.argument_notations.notation import (
    CompiledArguments,
    Notation,
    NotationOptions,
    Schema,
    unique_members,
)
from state_machines.argument_notations.raw_text import (
    NO_LITERAL,
    NO_NAME_OF_VALUE,
    NO_NULL_NAME,
    NOT_JSON,
    TRIMMED,
    PlainMembers,
    raw_texts,
    texts_without,
)
from state_machines.grammar.boolean import difference, intersection
from state_machines.grammar.encoding import JSON_STRING, RAW, encoded
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import concatenation, literal, union
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.grammar.text_languages import contains_word
from state_machines.grammar.tokens import Spell
from state_machines.json_schema.algebra.terms import Term
from state_machines.json_schema.algebra.value_sets import ANY_VALUE, ValueSet
from state_machines.json_schema.emptiness.evaluation import generated
from state_machines.json_schema.grammar.value_syntax import (
    JSON_SYNTAXES,
    WHITESPACE_LAYOUTS,
    ValueSyntax,
)
from state_machines.reader_languages.numbers.number_sets import NumberSet
from state_machines.regex import compile_pattern

_NULL = literal(b"null")
_LINE_FEED = literal(b"\n")
_NOT_EMPTY = compile_pattern("^[^]", search=True)
# A Boolean may be written as 0 or 1.
_NO_DIGIT = NumberSet(EXACT_NUMBERS.intervals, frozenset((Fraction(0), Fraction(1))))
_NO_OUTER_LINE_FEED = compile_pattern(r"^(?!\n)[^]*(?<!\n)$", search=True)
Form: TypeAlias = Literal["json", "raw", "nullable", "mixed"]
"""How the values of a property are written: as JSON, as raw strings, as raw strings or ``null``, or
strings raw and other values as JSON."""

_PARSER_TYPES: Mapping[Form, Any] = {
    "json": "object",
    "raw": "string",
    "nullable": ["string", "null"],
    "mixed": "object",
}
_TYPES: Mapping[type, str] = {
    type(None): "null",
    bool: "boolean",
    str: "string",
    list: "array",
    int: "number",
    float: "number",
}
_PYTHON_LITERALS = {"True": True, "False": False, "None": None}


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
        trims: Whether the parser strips white space from values. Then no raw string has white space
            at its ends.
        reads_null: Whether the parser reads ``null``, in any case, as null even for a string.
        reads_nullable: Whether ``null`` is null for a property that admits strings and null. Its
            strings are raw.
        unlisted_are_strings: Whether the parser reads the values of properties that the schema does
            not list as raw strings. Otherwise it reads them as literals.
        raw_unions: Whether the parser takes no quotes off a string of a property that also admits
            other values. Its strings are then raw. Strings that read as another value are excluded.
        guesses: Whether the parser reads a value that is no literal as a raw string, also for a
            property that is not only strings. Such strings need no quotes.
        literals: The literals that a parser that guesses reads: those of JSON alone, or also
            Python's.
        knows_types: Whether the parser gets the types of properties. Otherwise it always guesses.
        python_literals: Whether ``True``, ``False`` and ``None`` may be written for a whole value.
        kinds: The text before a value by its JSON type, if that text says whether the value is a
            raw string, whatever the schema.
        wraps_lines: Whether the parser strips one line feed from each end of a value. A string with
            a line feed at an end is then written between two more.
        converts: Whether the parser converts a string to another type that the schema of its
            property names, as transformers does. Then a property of several types has no string
            that could be converted, and its numbers survive the conversion.
        has_empty: Whether the parser finds empty values.
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
    reads_nullable: bool = False
    unlisted_are_strings: bool = False
    raw_unions: bool = False
    guesses: bool = False
    literals: Literal["json", "python"] = "python"
    knows_types: bool = True
    python_literals: bool = False
    kinds: Mapping[str, str] = field(default_factory=dict, hash=False)
    wraps_lines: bool = False
    converts: bool = False
    has_empty: bool = True
    has_json: ClassVar[bool] = True
    plain_names: ClassVar[re.Pattern[str]] = re.compile(r"[A-Za-z0-9_.:/@$+-]+")

    @property
    def is_spelled(self) -> bool:
        """Whether some of the texts may be special tokens."""
        return bool(self.markers)

    def write(self, arguments: Mapping[str, Any]) -> str:
        """Return the members as tags, with strings as they are and other values as JSON."""
        return self.between.join(
            f"{self.before_name}{name}{self.after_name}{self._written(value)}{self.after_value}"
            for name, value in arguments.items()
        )

    def _written(self, value: Any) -> str:
        kind = self.kinds[_TYPES.get(type(value), "object")] if self.kinds else ""
        if not isinstance(value, str):
            return kind + json.dumps(value, ensure_ascii=False)
        wrap = "\n" if self.wraps_lines and value != value.strip("\n") else ""
        return f"{kind}{wrap}{value}{wrap}"

    def end(self, text: str, start: int) -> int:
        """Return the position after the last member; see :meth:`Notation.end`."""
        at = start
        for member in self.members(text, start):
            at = member.end()
        return at

    def members(self, text: str, start: int) -> Iterator[re.Match[str]]:
        """Yield the members from a position on; the groups are the name and the value.

        Raises:
            ValueError: A member does not end.
        """
        at, before = start, self.before_name
        while text.startswith(before, at):
            found = self._member.match(text, at + len(before) - len(self.before_name))
            if found is None and not self.before_name:
                return
            if found is None:
                raise ValueError(f"a value does not end: {text[at : at + 40]!r}")
            yield found
            at, before = found.end(), self.between + self.before_name

    @cached_property
    def _member(self) -> re.Pattern[str]:
        before, after, end = map(re.escape, (self.before_name, self.after_name, self.after_value))
        # No name contains `end`. The group is atomic: without `end`, a match fails after one scan.
        return re.compile(f"{before}(?>((?:(?!{end}).)*?){after})(.*?){end}", re.DOTALL)

    def _compile(self, schema: Schema, options: NotationOptions) -> CompiledArguments:
        return _TaggedCompiler(self, schema, options).arguments()

    def spelled(self, text: str, spell: Spell) -> bytes:
        """Return the bytes of a text that may contain markers."""
        if not self.markers:
            return text.encode()
        pieces = re.split("(" + "|".join(map(re.escape, self.markers)) + ")", text)
        return b"".join(
            spell(piece) if piece in self.markers else piece.encode() for piece in pieces
        )

    @property
    def trimmed(self) -> TaggedNotation:
        """The notation for a parser that strips white space from values."""
        return self if self.trims else replace(self, name=f"{self.name}-trimmed", trims=True)

    def can_write_name(self, name: str) -> bool:
        """Return whether a name can be written; see :meth:`Notation.can_write_name`."""
        return contains_word(self.name_language, name)

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
        super().__init__(schema, options, syntax, notation.property_names(schema))
        self._notation = notation
        self._spell = options.spell
        # The input of a custom tool is no value that a family's parser would convert.
        self._has_input = options.input is not None
        self._reads_null = notation.reads_null and not self._has_input
        self._trims = notation.trims and not self._has_input
        self._avoid = frozenset((notation.closing, *notation.avoid, *options.avoid))
        self._forms = {name: self._form(name) for name in self.property_values}
        self._unlisted: Form = "raw" if notation.unlisted_are_strings else "json"

    def _form(self, name: str) -> Form:
        """Return how the values of a listed property are written."""
        notation = self._notation
        if (notation.knows_types or self._has_input) and not notation.kinds:
            reads_null = self._reads_null or notation.reads_nullable
            if self.admits_only_strings(name):
                return "raw"
            if reads_null and self.admits_only_strings(name, or_null=True):
                return "nullable" if notation.reads_nullable else "raw"
        values = self.property_values[name]
        has_strings = any(not each.strings.is_empty for each in values)
        return "mixed" if notation.raw_unions and has_strings else "json"

    def arguments(self) -> CompiledArguments:
        """Return the arguments of the schema."""
        notation, table = self._notation, self.terms
        texts = texts_without(self._avoid)
        values = values_of(texts, texts)
        raw, nullable = (
            table.evaluated(ValueSet(null=null, strings=raw_texts(self._avoid, self._trims, null)))
            for null in (self._reads_null, True)
        )
        unnamed = (texts, NO_NAME_OF_VALUE, *[TRIMMED] * self._trims)
        no_name = replace(ANY_VALUE, strings=intersection(unnamed))
        no_null_name = table.evaluated(replace(ANY_VALUE, strings=NO_NULL_NAME))
        writable: dict[Form, Term] = {
            "json": values,
            "raw": raw,
            "nullable": nullable,
            "mixed": table.all_of((values, table.evaluated(no_name))),
        }

        def term_of(name: str) -> Term:
            form = self._forms[name]
            has_null = any(each.null for each in self.property_values[name])
            if notation.raw_unions and has_null and form == "raw":
                return table.all_of((raw, no_null_name))
            return self._limited(writable[form], name)

        term = self.restrict(
            term_of,
            intersection((notation.name_language, texts)),
            self._limited(writable[self._unlisted]),
            f"the notation {notation.name!r}",
        )
        types = {
            self.names.write(name): {"type": _PARSER_TYPES[form]}
            for name, form in self._forms.items()
        }
        # In the spellings of a value the schema still decides which properties are raw.
        return self.compiled(
            term,
            self.read,
            lambda compiler, some: compiler.object_node(
                some, compiler._member_syntax(), compiler._value_node
            ),
            {"type": "object", "properties": types},
        )

    def _limited(self, term: Term, name: str | None = None) -> Term:
        """Return the values of a property that the parser finds, and converts to themselves.

        Args:
            term: The values that can be written.
            name: The property; ``None`` for properties that the schema does not list.
        """
        notation, limits = self._notation, ANY_VALUE
        values = () if name is None else self.property_values[name]
        if not notation.has_empty:
            limits = replace(limits, strings=_NOT_EMPTY)
        if name is not None and notation.converts and not self.admits_only_strings(name):
            limits = replace(limits, strings=intersection((limits.strings, NO_NAME_OF_VALUE)))
            if notation.knows_types:
                has_booleans = any(each.booleans for each in values)
                numbers = _NO_DIGIT if has_booleans else EXACT_NUMBERS
                limits = replace(limits, numbers=numbers)
        if limits is ANY_VALUE:
            return term
        return self.terms.all_of((term, self.terms.evaluated(limits)))

    def _member_syntax(self) -> PlainMembers:
        notation = self._notation
        before, after, end = (
            notation.spelled(text, self._spell)
            for text in (notation.before_name, notation.after_name, notation.after_value)
        )
        # No name contains the first byte of the text after it, so a name ends there.
        return PlainMembers(
            after[:1],
            before_name=literal(before),
            after_name=literal(after[1:]),
            after_value=lambda _: literal(end),
            between=literal(notation.between.encode()),
            aliases=self.names,
        )

    def _value_node(self, term: Term, name: str | None) -> Node:
        notation = self._notation
        values = generated(self.context, term)
        if notation.kinds:
            return self.values_by_kind(
                term,
                notation.kinds,
                lambda text: notation.spelled(text, self._spell),
                lambda some: self.translator.value(some, 1),
            )
        form = self._unlisted if name is None else self._forms.get(name, self._unlisted)
        if form in ("raw", "nullable"):
            return union((self._raw(values.strings), _NULL if values.null else EMPTY))
        if form == "mixed":
            strings = encoded(values.strings, RAW)
            return union((strings, self.translator.others_without(term, (), 1)))
        if notation.guesses and notation.literals == "json":
            return self._guessed_json(term, values.strings)
        forms = [self.translator.value(term, 1)]
        if notation.guesses:
            forms.append(encoded(intersection((values.strings, NO_LITERAL, TRIMMED)), RAW))
        if notation.python_literals:
            forms.extend(literal(repr(value).encode()) for value in sorted(values.booleans))
            forms.extend([literal(b"None")] if values.null else [])
        return union(forms)

    def _guessed_json(self, term: Term, strings: Node) -> Node:
        """Write texts raw, but in quotes if they read as JSON, such as ``true``."""
        raw = intersection((NOT_JSON, TRIMMED))
        quoted = encoded(difference(strings, raw, ANY_CODE_POINT), JSON_STRING, b'"')
        return union(
            (
                encoded(intersection((strings, raw)), RAW),
                EMPTY if quoted is EMPTY else concatenation(literal(b'"'), quoted),
                self.translator.others_without(term, (), 1),
            )
        )

    def _raw(self, strings: Node) -> Node:
        if not self._notation.wraps_lines:
            return encoded(strings, RAW)
        wrapped = concatenation(_LINE_FEED, encoded(strings, RAW), _LINE_FEED)
        return union((encoded(intersection((strings, _NO_OUTER_LINE_FEED)), RAW), wrapped))

    def read(self, text: str) -> dict[str, Any]:
        """Return the arguments of a text; raise ``ValueError`` for any other text."""
        found: list[tuple[str, Any]] = []
        at = 0
        for member in self._notation.members(text, 0):
            name = self.names.read(member[1])
            found.append((name, self._read_value(name, member[2])))
            at = member.end()
        if at < len(text):
            raise ValueError(f"no member: {text[at : at + 40]!r}")
        return unique_members(found)

    def _read_value(self, name: str, text: str) -> Any:
        notation = self._notation
        if notation.kinds:
            kind = next((kind for kind in notation.kinds.values() if text.startswith(kind)), None)
            if kind is None:
                raise ValueError(f"neither a string nor another value: {text[:40]!r}")
            text = text.removeprefix(kind)
            return text if kind == notation.kinds["string"] else read_json(text)
        if notation.wraps_lines:
            text = text.removeprefix("\n").removesuffix("\n")
        if self._reads_null and text.lower() == "null":
            return None
        form = self._forms.get(name, self._unlisted)
        if text == "null" and form == "nullable":
            return None
        if form in ("raw", "nullable"):
            return text
        if notation.python_literals and text in _PYTHON_LITERALS:
            return _PYTHON_LITERALS[text]
        try:
            return read_json(text)
        except ValueError:
            if notation.guesses or form == "mixed":
                return text
            raise
