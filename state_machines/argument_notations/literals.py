"""Arguments as literals: a JSON object, or keyword arguments of Python.

Python's ``name=value, name=value`` has strings in double quotes that mean the same in JSON, and
lists and dicts, nested as they are. (Python Language Reference, 2.4 "Literals";
``ast.literal_eval`` reads them.)
"""

from __future__ import annotations

import ast
import json
import keyword
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from state_machines.argument_notations.argument_compiler import (
    EXACT_NUMBERS,
    ArgumentCompiler,
    values_of,
)
from state_machines.argument_notations.notation import (
    CompiledArguments,
    Notation,
    NotationOptions,
    Schema,
    unique_members,
)
from state_machines.argument_notations.raw_text import PlainMembers, texts_without
from state_machines.grammar.boolean import difference, intersection
from state_machines.grammar.encoding import PYTHON_STRING, encoded
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import concatenation, literal, union
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.grammar.text_languages import word_language
from state_machines.json_schema.algebra.value_sets import ANY_VALUE
from state_machines.json_schema.grammar.value_syntax import (
    JSON_SYNTAXES,
    QUOTATION_MARK,
    WHITESPACE_LAYOUTS,
    MemberSyntax,
    ValueSyntax,
    Whitespace,
)
from state_machines.reader_languages.numbers.number_sets import NumberSet
from state_machines.regex import compile_pattern

_DECODER = json.JSONDecoder()
_SPACES = re.compile(r'(?<=":) |(?<=[^,:]["}],) |(?<=^,) ')


@dataclass(frozen=True)
class JsonNotation(Notation):
    """JSON as :class:`~state_machines.json_schema.JsonSchemaStateMachine` writes it.

    Attributes:
        whitespace: The layout of the model family. Without the option ``whitespace``, arguments are
            written in this layout or in the compact one, each time as a whole.
    """

    name: str = "json"
    whitespace: Whitespace = "spaced"
    has_json: ClassVar[bool] = True
    plain_names: ClassVar[re.Pattern[str]] = re.compile(r"[A-Za-z0-9_.:/@$+ -]+")

    @property
    def is_spelled(self) -> bool:
        """``False``: JSON has no markers."""
        return False

    def write(self, arguments: Mapping[str, Any]) -> str:
        """Return the arguments as ``json.dumps`` writes them."""
        return json.dumps(arguments, ensure_ascii=False)

    def end(self, text: str, start: int) -> int:
        """Return the position after a JSON value; see :meth:`Notation.end`."""
        try:
            return _DECODER.raw_decode(text, start)[1]
        except RecursionError as error:
            raise ValueError("nested too deeply") from error

    def _compile(self, schema: Schema, options: NotationOptions) -> CompiledArguments:
        layout = options.whitespace or self.whitespace
        layouts: list[Whitespace] = [layout]
        if options.whitespace is None and layout != "compact":
            layouts.append("compact")
        compiler = ArgumentCompiler(schema, options, JSON_SYNTAXES[layout])
        texts = texts_without(options.avoid)
        values = values_of(texts, texts) if any(options.avoid) else None
        return compiler.compiled_values(
            values,
            texts,
            "JSON",
            read_json_object,
            also=[JSON_SYNTAXES[each] for each in layouts[1:]],
        )


def compact_json(text: str) -> str:
    """Return a part of a JSON text without the spaces after colons and commas.

    >>> compact_json('{"name": "{name}", "arguments": ')
    '{"name":"{name}","arguments":'
    """
    return _SPACES.sub("", text)


def read_json(text: str) -> Any:
    """Return the value of a JSON text; raise ``ValueError`` for any other text."""
    try:
        return json.loads(text, object_pairs_hook=unique_members)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def read_json_object(text: str) -> dict[str, Any]:
    """Return the object of a JSON text; raise ``ValueError`` for any other text."""
    value = read_json(text)
    if not isinstance(value, dict):
        raise ValueError(f"not an object: {text[:40]!r}")
    return value


JSON = JsonNotation()


@dataclass(frozen=True)
class PythonicNotation(Notation):
    """Keyword arguments, without the parentheses around them.

    Attributes:
        has_json_names: Whether null and Booleans have JSON's names beside Python's, as in families
            whose templates write nested containers in JSON.
        names: A pattern that the names match beside Python's rules.
        numbers: The numbers that the family's parser reads.
    """

    name: str
    has_json_names: bool
    names: str = ""
    numbers: NumberSet = ANY_VALUE.numbers

    @property
    def name_language(self) -> Node:
        """The names of properties that the schema does not list."""
        return intersection((_PLAIN_NAMES, compile_pattern(self.names, search=True)))

    @property
    def is_spelled(self) -> bool:
        """``False``: Python's literals have no markers."""
        return False

    def write(self, arguments: Mapping[str, Any]) -> str:
        """Return keyword arguments with double-quoted strings."""
        return ", ".join(f"{name}={python_literal(value)}" for name, value in arguments.items())

    def end(self, text: str, start: int) -> int:
        """Return the position of the parenthesis that closes the call; see :meth:`Notation.end`."""
        depth = 0
        for piece in _BRACKETS.finditer(text, start):
            if piece[0] in "([{":
                depth += 1
            elif piece[0] in ")]}":
                if not depth:
                    return piece.start()
                depth -= 1
        raise ValueError("a parenthesis is not closed")

    def _compile(self, schema: Schema, options: NotationOptions) -> CompiledArguments:
        aliases = self.property_names(schema)
        compiler = ArgumentCompiler(schema, options, _SYNTAXES[self.has_json_names], aliases)
        texts = texts_without(options.avoid)
        values = values_of(texts, texts, self.numbers)
        writable = filter(self.can_write_name, compiler.property_values)
        names = intersection((union((word_language(writable), self.name_language)), texts))
        members = PlainMembers(b"=", between=_COMMA, aliases=aliases)

        def read(text: str) -> dict[str, Any]:
            return {
                aliases.read(name): value for name, value in read_keyword_arguments(text).items()
            }

        return compiler.compiled_values(values, names, "keyword arguments of Python", read, members)

    def can_write_name(self, name: str) -> bool:
        """Return whether Python accepts a name, and the family's parser reads it."""
        return _is_keyword_name(name) and re.search(self.names, name) is not None


_BRACKETS = re.compile(
    r'''"""(?:[^\\]|\\.)*?"""|\'{3}(?:[^\\]|\\.)*?\'{3}|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\''''
    r"|[()\[\]{}]",
    re.DOTALL,
)


def python_literal(value: Any) -> str:
    """Return the Python literal of a JSON value, with double-quoted strings."""
    if isinstance(value, Mapping):
        members = (f"{python_literal(k)}: {python_literal(v)}" for k, v in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(python_literal, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _is_keyword_name(name: str) -> bool:
    """Return whether Python accepts a name as a keyword argument and does not normalise it."""
    return (
        name.isidentifier()
        and not keyword.iskeyword(name)
        and name != "__debug__"
        and unicodedata.normalize("NFKC", name) == name
    )


_LATIN = r"\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u00ff"

_PLAIN_NAMES = difference(
    # NFKC, by which Python normalises names, does not change the letters of Latin-1.
    compile_pattern(rf"[A-Za-z_{_LATIN}][A-Za-z0-9_{_LATIN}]*", search=False),
    word_language((*keyword.kwlist, "__debug__")),
    ANY_CODE_POINT,
)


class _PythonMembers(MemberSyntax):
    """The members of a dict."""

    any_name = None

    def spellings(self, name: str) -> Iterable[bytes]:
        """Return the spellings of a name. Python does not join escaped surrogate pairs."""
        spelled = super().spellings(name)
        return spelled if max(name, default="") <= "\uffff" else list(spelled)[:1]

    def names(self, language: Node) -> Node:
        """Return the spellings of a language of names."""
        return encoded(language, PYTHON_STRING, b'"')


class _PythonSyntax(ValueSyntax):
    """Values as literals of Python."""

    quotes_strings = False

    def __init__(self, has_json_names: bool) -> None:
        super().__init__(WHITESPACE_LAYOUTS["json"])
        self.members = _PythonMembers(self.layout)
        names = ((b"None", self.null), (b"True", self.true), (b"False", self.false))
        self.null, self.true, self.false = (
            union((literal(name), other if has_json_names else EMPTY)) for name, other in names
        )

    def string(self, texts: Node) -> Node:
        """Return the literals of a language of strings."""
        return concatenation(QUOTATION_MARK, encoded(texts, PYTHON_STRING, b'"'))

    def as_json(self, text: bytes) -> str:
        """Return the JSON of a literal."""
        return _PIECE.sub(lambda piece: _JSON_NAMES.get(piece[0], piece[0]), text.decode())


_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|True|False|None', re.DOTALL)
_JSON_NAMES = {"True": "true", "False": "false", "None": "null"}


_COMMA = WHITESPACE_LAYOUTS["json"].comma(0)
_SYNTAXES = {has_json_names: _PythonSyntax(has_json_names) for has_json_names in (False, True)}

_VALUES_BY_NAME = {"true": True, "false": False, "null": None}


class _JsonNames(ast.NodeTransformer):
    """Replaces the names ``true``, ``false`` and ``null`` by their values."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace one name."""
        return ast.Constant(_VALUES_BY_NAME[node.id]) if node.id in _VALUES_BY_NAME else node


def read_keyword_arguments(text: str) -> dict[str, Any]:
    """Return the keyword arguments of a text; raise ``ValueError`` for any other text."""
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
            raise ValueError("no call")
        pairs = []
        for argument in call.keywords:
            if argument.arg is None:
                raise ValueError("unpacked arguments")
            pairs.append((argument.arg, ast.literal_eval(_JsonNames().visit(argument.value))))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"no keyword arguments: {text[:40]!r}") from error
    return unique_members(pairs)


PYTHONIC = PythonicNotation("pythonic", has_json_names=False)
"""Gemma 3, Llama 4."""

PYTHONIC_JSON = PythonicNotation("pythonic-json", has_json_names=True)
"""LFM2, whose template writes nested containers in JSON."""

OLMO = PythonicNotation("olmo", has_json_names=True, names="^[A-Za-z]")
"""Olmo 3. Its parser finds calls by a pattern in which a name begins with a letter."""

CALL_LIST = PythonicNotation(
    "python-call-list", has_json_names=True, names="^[A-Za-z_][A-Za-z0-9_]*$", numbers=EXACT_NUMBERS
)
"""The content ``python-call-list`` of response templates, whose parser refuses larger integers."""
