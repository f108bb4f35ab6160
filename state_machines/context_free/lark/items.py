"""Read the items of a Lark grammar: strings, expressions, names and inline languages."""

from __future__ import annotations

import json
import re
from typing import Any

from state_machines.budgets import spend
from state_machines.context_free.lark import Boolean, Inline
from state_machines.context_free.source import (
    Source,
    group,
    hexadecimal,
    named_tokens,
    string,
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
from state_machines.grammar.quote_sources import words_of
from state_machines.grammar.substring import substring_language
from state_machines.grammar.symbols import MAX_CODE_POINT, code_points
from state_machines.json_schema.machine import JsonSchemaStateMachine
from state_machines.regex import rust_lexemes
from state_machines.regex.unicode_classes import case_closure
from state_machines.syntax_tree import (
    HEXADECIMAL_ESCAPES,
    Characters,
    Expression,
    Reference,
    Repeat,
    Series,
    String,
)

SPACE = re.compile(r"(?:\s++|(?://|#)[^\n]*+)*+")
"""White space, comments and the ends of lines."""

_NAME = re.compile(
    r"_?(?:[a-z][a-z0-9_]*(?:-(?!>)[a-z0-9_]*)*|[A-Z][A-Z0-9_]*(?:-(?!>)[A-Z0-9_]*)*)"
    r"(?![A-Za-z0-9_])"
)
_REGEX = re.compile(r"/((?:[^/\\\n]|\\.|\n)+)/([a-z]*)")
_SPECIAL = re.compile(r"<[^<>\s]+>")
_ESCAPES = {'"': 34, "\\": 92, "/": 47, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "'": 39}
_LOW_SURROGATE = re.compile(r"\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}")
_DECODER = json.JSONDecoder()
_JSON_SPACE = re.compile(r"[ \t\r\n]*")
_JSON_SEPARATORS = re.compile(r"[ \t\r\n:,]*")
_SUBSTRINGS = ("substring_chars", "substring_words", "substring_chunks")
_HINTS = {
    "'": 'Texts stand in "double quotes"',
    ":": "A name and its : stand at the start of a line",
    ";": "A definition ends with its line",
    "{": "A count stands behind what it repeats",
    "=": "A definition is written name: …",
    ".": 'Any character is /./; a range of characters is "a".."z"',
    "-": 'A difference is written A & ~B; texts stand in "quotes"',
}


def item(source: Source, start: int) -> tuple[int, Expression]:
    """Read one item with the ``~`` before it, except for ``%lark``."""
    match source.text[start : start + 1]:
        case "":
            raise source.invalid("unexpected end", start)
        case "~":
            position = source.skip(start + 1, SPACE)
            if source.at(position, "~"):
                raise source.invalid("a negation of a negation", start)
            end, body = source.notation.item(source, position)
            return end, Boolean((body,), True, source.place(start))
        case '"':
            return _string_or_range(source, start)
        case "/":
            return _pattern(source, start)
        case "(":
            return group(source, start, ")")
        case "[":
            end, body = group(source, start, "]")
            return end, Repeat(body, 0, 1)
        case "<":
            if not _SPECIAL.match(source.text, start):
                hint = "It has no white space inside"
                raise source.invalid("a token was expected: <name> or <[number]>", start, hint)
            return named_tokens(source, start)
        case "%":
            return _inline_language(source, start)
        case "@":
            hint = "Nest it: %lark { … } or %json { … }"
            raise source.unsupported("a reference to another grammar", start, hint)
    found = _NAME.match(source.text, start)
    if found is None:
        raise _unexpected(source, start)
    if source.at(found.end(), "::"):
        raise source.unsupported("a parameter of a rule", start, "Write a rule for each value")
    return found.end(), Reference(found[0], source.place(start))


def _unexpected(source: Source, start: int) -> GrammarError:
    character = source.text[start]
    if character in "*+?":
        return source.invalid(f"nothing precedes {character}", start)
    hint = _HINTS.get(character, "")
    if character.isalpha():
        hint = "A rule's name is lower case, a terminal's name upper case"
    return source.invalid(f"{character!r} was not expected here", start, hint)


# Strings and expressions


def _string_or_range(source: Source, start: int) -> tuple[int, Inline]:
    end, first = string(source, start)
    body: Expression = String(first)
    if source.at(end, ".."):
        last_start = end + 2
        if not source.at(last_start, '"'):
            raise source.invalid("a character was expected behind ..", last_start)
        end, last = string(source, last_start)
        for name, text, where in (("start", first, start), ("end", last, last_start)):
            if len(text) != 1:
                raise source.invalid(f"the {name} of a range is one character", where)
        if last < first:
            raise source.invalid("a range that is out of order", start)
        body = Characters(code_points(first, last))
    elif source.at(end, "i"):
        end += 1
        spend(len(first))
        body = Series(tuple(Characters(case_closure(code_points(each))) for each in first))
    return end, Inline(body, source.text[start:end], source.place(start))


def string_character(source: Source, start: int) -> tuple[int, int]:
    """Read an escape of a string."""
    if not source.at(start, "\\"):
        raise source.invalid("a control character in a string", start, r"Write \n, \t or \u00HH")
    letter = source.text[start + 1 : start + 2]
    if letter in _ESCAPES:
        return start + 2, _ESCAPES[letter]
    if not letter:
        raise source.invalid("unexpected end", start + 1)
    if letter not in HEXADECIMAL_ESCAPES:
        raise source.invalid(f"\\{letter} has no meaning in a string", start, r"Write \\ for \ ")
    end, point = hexadecimal(source, start)
    if 0xD800 <= point <= 0xDBFF and _LOW_SURROGATE.match(source.text, end):
        end, low = hexadecimal(source, end)
        return end, 0x10000 + ((point - 0xD800) << 10) + low - 0xDC00
    if point > MAX_CODE_POINT or 0xD800 <= point <= 0xDFFF:
        raise source.invalid("no character", start)
    return end, point


def _pattern(source: Source, start: int) -> tuple[int, Inline]:
    r"""Read ``/…/flags``. ``\/`` is a slash, which the parser of expressions reads as such."""
    found = _REGEX.match(source.text, start)
    if found is None:
        raise source.invalid("missing / behind a regular expression", start)
    unknown = set(found[2]) - set("imsux")
    if unknown:
        raise source.unsupported(
            f"the flag {min(unknown)} of a regular expression",
            found.start(2),
            "Flags are i, m, s, u and x",
        )
    try:
        body = rust_lexemes.parse(found[1], found[2])
    except PatternError as error:
        failed = source.unsupported
        if isinstance(error, InvalidPatternError):
            failed = source.invalid
        what, where = f"in the regular expression: {error.what}", start + 1 + error.position
        raise failed(what, where, error.hint) from error
    return found.end(), Inline(body, found[0], source.place(start))


# Inline languages


def _inline_language(source: Source, start: int) -> tuple[int, Inline]:
    for name, read in (("%json", _json_schema), ("%regex", _substring)):
        if source.at(start, name):
            end, language = read(source, start + len(name))
            return end, Inline(language, name, source.place(start))
    hint = "Known are %json, %regex and %lark"
    raise source.invalid("an inline language was expected", start, hint)


def json_object(source: Source, position: int, name: str) -> tuple[int, Any, int]:
    """Read a JSON object behind a directive; return its end, its value and where it begins."""
    start = _behind(_JSON_SPACE, source.text, position)
    if not source.at(start, "{"):
        raise source.invalid(f"a JSON object was expected behind {name}", start)
    try:
        value, end = _DECODER.raw_decode(source.text, start)
    except json.JSONDecodeError as error:
        where = min(error.pos, len(source.text))
        raise source.invalid(f"in the JSON behind {name}: {error.msg}", where) from error
    spend((end - start) // 64)
    return end, value, start


def _json_schema(source: Source, position: int) -> tuple[int, JsonSchemaStateMachine]:
    end, schema, start = json_object(source, position, "%json")
    try:
        return end, JsonSchemaStateMachine(schema)
    except SchemaError as error:
        kind: type[GrammarError] = UnsupportedGrammarError
        if isinstance(error, InvalidSchemaError):
            kind = GrammarSyntaxError
        elif isinstance(error, UnsatisfiableSchemaError):
            kind = UnsatisfiableGrammarError
        place = source.place(_value_position(source.text, start, error.pointer))
        what = f"in the schema behind %json, at #{error.pointer}: {error.what}"
        raised = kind.at(place, what, source.rule, error.hint)
        raised.pointer = error.pointer
        raise raised from error


def _value_position(text: str, position: int, pointer: str) -> int:
    """Return the position of a value that a pointer names, or of its closest ancestor.

    Args:
        text: A text with valid JSON.
        position: Where the JSON begins.
        pointer: A JSON Pointer into it (RFC 6901), as a URI fragment without ``#``.
    """
    for name in pointer.split("/")[1:]:
        child = _child(text, position, name.replace("~1", "/").replace("~0", "~"))
        if child is None:
            break
        position = child
    return position


def _child(text: str, start: int, name: str) -> int | None:
    """Return the position of the member or item ``name`` of the value at ``start``."""
    if text[start] not in "{[":
        return None
    position, index = _behind(_JSON_SEPARATORS, text, start + 1), 0
    while text[position] not in "]}":
        key = str(index)
        if text[start] == "{":
            key, position = _DECODER.raw_decode(text, position)
            position = _behind(_JSON_SEPARATORS, text, position)
        if key == name:
            return position
        _, position = _DECODER.raw_decode(text, position)
        position, index = _behind(_JSON_SEPARATORS, text, position), index + 1
    return None


def _behind(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Return the end of a match of a pattern that matches everywhere."""
    found = pattern.match(text, position)
    assert found is not None, "the pattern matches the empty text"
    return found.end()


def _substring(source: Source, position: int) -> tuple[int, Any]:
    end, options, start = json_object(source, position, "%regex")
    known = ", ".join(_SUBSTRINGS)
    unknown = [name for name in options if name not in _SUBSTRINGS]
    if unknown:
        raise source.unsupported(
            f"the member {unknown[0]!r} of %regex", start, f"Known are {known}"
        )
    if len(options) != 1:
        raise source.invalid("%regex has exactly one member", start, f"One of {known}")
    ((name, text),) = options.items()
    is_list = isinstance(text, list) and all(isinstance(each, str) for each in text)
    if not (is_list if name == "substring_chunks" else isinstance(text, str)):
        kind = "a list of strings" if name == "substring_chunks" else "a string"
        raise source.invalid(f"{name!r} is {kind}", start)
    try:
        return end, substring_language(words_of(text) if name == "substring_words" else text)
    except InvalidArgumentError as error:
        what = f"the text of %regex: {error.what}"
        raise source.unsupported(what, start, error.hint) from error
