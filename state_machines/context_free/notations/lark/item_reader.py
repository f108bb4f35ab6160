"""Read the items of a Lark grammar: strings, expressions, names and inline languages."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from typing import Any, NoReturn, TypeVar

from state_machines.budgets import spend
from state_machines.context_free.notations.grammar_reader import GrammarReader, read_named_tokens
from state_machines.context_free.notations.lark.syntax import (
    InlineTerminal,
    Language,
    NestedJson,
    NotExpression,
    SpecialToken,
)
from state_machines.errors import (
    GrammarError,
    GrammarSyntaxError,
    InvalidArgumentError,
    InvalidPatternError,
    InvalidSchemaError,
    PatternError,
    SchemaError,
    UnsatisfiableGrammarError,
    UnsatisfiableSchemaError,
    UnsupportedGrammarError,
)
from state_machines.grammar.chunks import words_of
from state_machines.grammar.substring import substring_language
from state_machines.grammar.symbols import MAX_CODE_POINT, code_points
from state_machines.json_schema.machine import JsonSchemaStateMachine
from state_machines.regex import rust_lexemes
from state_machines.regex.unicode_classes import case_closure
from state_machines.syntax_tree import Characters, Expression, Reference, Repeat, Series, String
from state_machines.text_reader import HEXADECIMAL_ESCAPES

_NAME = re.compile(
    r"_?(?:[a-z][a-z0-9_]*(?:-(?!>)[a-z0-9_]*)*|[A-Z][A-Z0-9_]*(?:-(?!>)[A-Z0-9_]*)*)"
    r"(?![A-Za-z0-9_])"
)
_REGEX = re.compile(r"/((?:[^/\\\n]|\\.|\n)+)/([a-z]*)")
_SPECIAL = re.compile(r"<[^<>\s]+>")
_ESCAPES = {'"': 34, "\\": 92, "/": 47, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "'": 39}
_DECODER = json.JSONDecoder()
_JSON_SPACE = re.compile(r"[ \t\r\n]*")
_SUBSTRINGS = ("substring_chars", "substring_words", "substring_chunks")

_Raised = TypeVar("_Raised", bound=GrammarError)


class ItemReader(GrammarReader):
    """Reads items. Nested grammars are read by the subclass."""

    plain_text = re.compile(r'[^"\\\x00-\x1f\x7f\ud800-\udfff]+')

    @abstractmethod
    def nested(self, start: int) -> Expression:
        """Read a grammar after ``%lark``."""

    @abstractmethod
    def skip_lines(self) -> None:
        """Skip white space, comments and the ends of lines."""

    def item(self) -> Expression:
        """Read one item with the ``~`` before it."""
        start = self.position
        match self.text[start : start + 1]:
            case "":
                self.invalid("unexpected end")
            case "~":
                self.position += 1
                self.skip_lines()
                if self.peek("~"):
                    self.invalid("a negation of a negation", start)
                return NotExpression(self.item(), self.source_position(start))
            case '"':
                return self.string_or_range()
            case "/":
                return self.pattern()
            case "(":
                return self.group(")")
            case "[":
                return Repeat(self.group("]"), 0, 1)
            case "<":
                return self.special_token()
            case "%":
                return self.inline_language()
            case "@":
                self.unsupported(
                    "a reference to another grammar", start, "Nest it: %lark { … } or %json { … }"
                )
        return self.name(start)

    def name(self, start: int) -> Reference:
        found = _NAME.match(self.text, start)
        if found is None:
            self.unexpected(start)
        self.position = found.end()
        if self.peek("::"):
            self.unsupported("a parameter of a rule", start, "Write a rule for each value")
        return Reference(found[0], self.source_position(start))

    def unexpected(self, start: int) -> NoReturn:
        character = self.text[start]
        hint = {
            "'": 'Texts stand in "double quotes"',
            ":": "A name and its : stand at the start of a line",
            ";": "A definition ends with its line",
            "{": "A count stands behind what it repeats",
            "=": "A definition is written name: …",
            ".": 'Any character is /./; a range of characters is "a".."z"',
            "-": 'A difference is written A & ~B; texts stand in "quotes"',
        }.get(character, "")
        if character in "*+?":
            self.invalid(f"nothing precedes {character}", start)
        if character.isalpha():
            hint = "A rule's name is lower case, a terminal's name upper case"
        self.invalid(f"{character!r} was not expected here", start, hint)

    # Strings and expressions

    def string_or_range(self) -> Expression:
        start = self.position
        first = self.string()
        end = self.position
        if self.take(".."):
            last_start = self.position
            if not self.peek('"'):
                self.invalid("a character was expected behind ..", last_start)
            return self.character_range(first, self.string(), start, last_start)
        ignores_case = self.take("i")
        source = self.text[start:end] + "i" * ignores_case
        body: Expression = String(first)
        if ignores_case:
            spend(len(first))
            body = Series(tuple(Characters(case_closure(code_points(c))) for c in first))
        return InlineTerminal(body, source, self.source_position(start))

    def character_range(self, first: str, last: str, start: int, last_start: int) -> InlineTerminal:
        for name, text, where in (("start", first, start), ("end", last, last_start)):
            if len(text) != 1:
                self.invalid(f"the {name} of a range is one character", where)
        if last < first:
            self.invalid("a range that is out of order", start)
        source = self.text[start : self.position]
        return InlineTerminal(
            Characters(code_points(first, last)), source, self.source_position(start)
        )

    def option_string(self) -> str:
        """Read a string that is the value of an option."""
        if not self.peek('"'):
            self.invalid('a text in "quotes" was expected', self.position)
        return self.string()

    def string_character(self, start: int) -> int:
        if self.peek("\n"):
            self.invalid('missing "', start)
        if not self.peek("\\"):
            self.invalid("a control character in a string", None, r"Write \n, \t or \u00HH")
        return self.escape()

    def escape(self) -> int:
        start = self.position
        self.position += 1
        letter = self.next_character()
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if letter not in HEXADECIMAL_ESCAPES:
            self.invalid(f"\\{letter} has no meaning in a string", start, r"Write \\ for \ ")
        point = self.hexadecimal(HEXADECIMAL_ESCAPES[letter], start)
        if 0xD800 <= point <= 0xDBFF and self.take("\\u"):
            low = self.hexadecimal(4, start)
            if 0xDC00 <= low <= 0xDFFF:
                return 0x10000 + ((point - 0xD800) << 10) + low - 0xDC00
        if point > MAX_CODE_POINT or 0xD800 <= point <= 0xDFFF:
            self.invalid("no character", start)
        return point

    def pattern(self) -> InlineTerminal:
        r"""Read ``/…/flags``. ``\/`` is a slash, which the parser of expressions reads as such."""
        start = self.position
        found = _REGEX.match(self.text, start)
        if found is None:
            self.invalid("missing / behind a regular expression", start)
        self.position = found.end()
        unknown = set(found[2]) - set("imsux")
        if unknown:
            self.unsupported(
                f"the flag {min(unknown)} of a regular expression",
                found.start(2),
                "Flags are i, m, s, u and x",
            )
        try:
            body = rust_lexemes.parse(found[1], found[2])
        except PatternError as error:
            where = start + 1 + error.position
            invalid = isinstance(error, InvalidPatternError)
            fail = self.invalid if invalid else self.unsupported
            fail(f"in the regular expression: {error.what}", where, error.hint)
        return InlineTerminal(body, found[0], self.source_position(start))

    def special_token(self) -> SpecialToken:
        start = self.position
        found = _SPECIAL.match(self.text, start)
        if found is None:
            self.invalid(
                "a token was expected: <name> or <[number]>", start, "It has no white space inside"
            )
        tokens = read_named_tokens(self)
        return SpecialToken(tokens, found[0], tokens.position)

    # Inline languages

    def inline_language(self) -> Expression:
        start = self.position
        if self.take("%json"):
            return self.json_schema(start)
        if self.take("%regex"):
            return self.substring(start)
        if not self.take("%lark"):
            self.invalid(
                "an inline language was expected", start, "Known are %json, %regex and %lark"
            )
        return self.nested(start)

    def json_value(self, name: str) -> tuple[Any, int]:
        """Read JSON after a directive; return its value and where it begins."""
        while not self.at_end and self.text[self.position] in " \t\r\n":
            self.position += 1
        start = self.position
        if not self.peek("{"):
            self.invalid(f"a JSON object was expected behind {name}", start)
        try:
            value, self.position = _DECODER.raw_decode(self.text, start)
        except json.JSONDecodeError as error:
            self.invalid(f"in the JSON behind {name}: {error.msg}", min(error.pos, len(self.text)))
        spend((self.position - start) // 64)
        return value, start

    def json_schema(self, start: int) -> NestedJson:
        schema, begin = self.json_value("%json")
        try:
            machine = JsonSchemaStateMachine(schema)
        except SchemaError as error:
            kind: type[GrammarError] = UnsupportedGrammarError
            if isinstance(error, InvalidSchemaError):
                kind = GrammarSyntaxError
            elif isinstance(error, UnsatisfiableSchemaError):
                kind = UnsatisfiableGrammarError
            where = _value_offset(self.text, begin, error.pointer)
            line, column = self.source_position(where)
            raise kind(
                f"in the schema behind %json, at #{error.pointer}: {error.what}",
                line=line,
                column=column,
                rule=self.rule,
                pointer=error.pointer,
                hint=error.hint,
            ) from error
        return NestedJson(machine, self.source_position(start))

    def substring(self, start: int) -> InlineTerminal:
        options, begin = self.json_value("%regex")
        given = [name for name in _SUBSTRINGS if name in options]
        unknown = [name for name in options if name not in _SUBSTRINGS]
        if unknown:
            self.unsupported(
                f"the member {unknown[0]!r} of %regex", begin, f"Known are {', '.join(_SUBSTRINGS)}"
            )
        if len(given) != 1:
            self.invalid("%regex has exactly one member", begin, f"One of {', '.join(_SUBSTRINGS)}")
        source = options[given[0]]
        is_list = given[0] == "substring_chunks"
        if not (_is_text_list(source) if is_list else isinstance(source, str)):
            kind = "a list of strings" if is_list else "a string"
            self.invalid(f"{given[0]!r} is {kind}", begin)
        try:
            language = substring_language(words_of(source) if "words" in given[0] else source)
        except InvalidArgumentError as error:
            self.unsupported(f"the text of %regex: {error.what}", begin, error.hint)
        return InlineTerminal(Language(language), "%regex", self.source_position(start))


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _value_offset(text: str, start: int, pointer: str) -> int:
    """Return the offset of a value that a pointer names, or of its closest ancestor.

    Args:
        text: A text with valid JSON.
        start: Where the JSON begins.
        pointer: A JSON Pointer into it (RFC 6901), as a URI fragment without ``#``.
    """
    offset = start
    for name in pointer.split("/")[1:]:
        found = _child(text, offset, name.replace("~1", "/").replace("~0", "~"))
        if found is None:
            break
        offset = found
    return offset


def _child(text: str, start: int, name: str) -> int | None:
    """Return the offset of the member or item ``name`` of the value at ``start``."""
    if text[start] not in "{[":
        return None
    position = _after_space(text, start + 1)
    index = 0
    while text[position] not in "]}":
        key = str(index)
        if text[start] == "{":
            key, position = _DECODER.raw_decode(text, position)
            position = _after_space(text, _after_space(text, position) + 1)
        if key == name:
            return position
        _, position = _DECODER.raw_decode(text, position)
        position = _after_space(text, position)
        if text[position] == ",":
            position = _after_space(text, position + 1)
        index += 1
    return None


def _after_space(text: str, position: int) -> int:
    found = _JSON_SPACE.match(text, position)
    assert found is not None, "the pattern matches the empty text"
    return found.end()
