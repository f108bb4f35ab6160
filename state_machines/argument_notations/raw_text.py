"""Raw texts: strings without quotes and escapes that parsers read as strings.

In ``<parameter=city>Oslo</parameter>`` the value ``Oslo`` is raw; as JSON it would be ``"Oslo"``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

from state_machines.argument_notations.notation import (
    INPUT,
    CompiledArguments,
    Notation,
    NotationOptions,
    Schema,
)
from state_machines.argument_notations.property_names import PropertyNames
from state_machines.caches import WeakValueLruCache
from state_machines.errors import UnsatisfiableSchemaError
from state_machines.grammar.boolean import difference, everything, intersection
from state_machines.grammar.encoding import RAW, encode_set, encoded
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EMPTY, EPSILON, Node, intern_node
from state_machines.grammar.nodes import (
    concatenation,
    literal,
    optional,
    repetition,
    symbols,
    union,
)
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet
from state_machines.grammar.text_languages import (
    contains_word,
    count_words,
    without_words,
    word_language,
)
from state_machines.grammar.until import text_without
from state_machines.json_schema.grammar.value_syntax import MemberSyntax, WhitespaceLayout
from state_machines.limits import LIMITS
from state_machines.regex import compile_pattern

SPACES = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\ufeff"
"""The characters that ``str.strip`` removes, and the byte order mark."""

_ANY = everything(ANY_CODE_POINT)
_INK = symbols(ANY_CODE_POINT & ~CodePointSet.of(SPACES))

TRIMMED = union((EPSILON, concatenation(_INK, optional(concatenation(_ANY, _INK)))))
"""Texts without white space around them."""

NOT_NULL = difference(
    _ANY, word_language(map("".join, product("nN", "uU", "lL", "lL"))), ANY_CODE_POINT
)
"""Texts other than ``null`` in any case."""

_LITERAL_NAMES = "true|false|null|NaN|Infinity|True|False|None"

NO_LITERAL = intersection(
    compile_pattern(pattern, search=True)
    for pattern in (
        # No number, bracket or quote. No comment or line continuation, which parsers skip.
        r"^([A-Za-z_<>/@$%&=?!:;|^`,]|[^\x00-\x7f\ufeff])",
        rf"^(?!({_LITERAL_NAMES})(?![0-9A-Za-z_\u0080-\u{{10ffff}}]))",
        # Python's prefixed strings.
        r"""^(?![A-Za-z]{1,2}["'])""",
        # The empty set ``set()``. Python normalises letters of other alphabets to ASCII.
        r"^(?!(set|(?=[^]{0,2}[^\x00-\x7f])[^]{3})[\s\\]*\()",
    )
)
"""Texts that begin no literal of JSON or Python."""


NOT_JSON = intersection(
    compile_pattern(pattern, search=True)
    for pattern in (
        r"^(?!(true|false|null|NaN|-?Infinity)$)",
        r"^(?!-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?$)",
        # Some texts between quotes or brackets are no JSON. They are left out as well.
        r'^(?!"[^]*"$)',
        r"^(?![\[][^]*[\]]$)",
        r"^(?![{][^]*[}]$)",
    )
)
"""Texts that are no JSON for :mod:`json`, if they have no white space around them."""


NO_NULL_NAME = compile_pattern(r"^(?!([Nn][Oo][Nn][Ee]|[Nn][Ii][Ll])$)", search=True)
"""Excludes ``none`` and ``nil`` in lower and upper case."""

_NO_NAME_OF_VALUE = intersection(
    (
        NO_LITERAL,
        NOT_NULL,
        TRIMMED,
        compile_pattern(r"^(?!\p{Nd})", search=True),
        compile_pattern(r"^(?!([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$)", search=True),
        compile_pattern(r"^(?!([Yy][Ee][Ss]|[Nn][Oo]|[Oo][Nn]|[Oo][Ff][Ff])$)", search=True),
        compile_pattern(r"^(?!([Nn][Aa][Nn]|[Ii][Nn][Ff]([Ii][Nn][Ii][Tt][Yy])?)$)", search=True),
        NO_NULL_NAME,
    )
)
_OUTER_SPACE = repetition(symbols(CodePointSet.of(SPACES)), 0, None)

NO_NAME_OF_VALUE = concatenation(
    _OUTER_SPACE, optional(concatenation(_NO_NAME_OF_VALUE, _OUTER_SPACE))
)
"""Texts that begin no literal, and are none of the names ``yes``, ``nil`` and ``inf``, also without
the white space at their ends."""


def texts_without(avoid: Iterable[str]) -> Node:
    """Return the texts that contain none of the strings in ``avoid``; empty strings are ignored."""
    strings = frozenset(filter(None, avoid))
    return text_without(strings) if strings else _ANY


_RAW_TEXTS: WeakValueLruCache[tuple[frozenset[str], bool, bool], Node] = WeakValueLruCache(
    LIMITS.held_languages
)


def raw_texts(avoid: frozenset[str], trimmed: bool, not_null: bool) -> Node:
    """Return the texts without ``avoid``, optionally without outer white space and ``null``."""
    parts = (*[TRIMMED] * trimmed, *[NOT_NULL] * not_null)
    return _RAW_TEXTS.get(
        (avoid, trimmed, not_null), lambda: intersection((texts_without(avoid), *parts))
    )


class PlainMembers(MemberSyntax):
    """Members with names that are written as they are, but for escaped characters.

    Args:
        terminator: The byte that ends a name. No spelling of a name contains it.
        begin: The text before all members.
        before_name: The text before a name.
        after_name: The text between the terminator of a name and the value.
        after_value: Returns the text after the value of a name.
        between: The text between two members.
        end: The text after all members.
        escapes: Characters and how names have them, the character that begins an escape first.
        aliases: The properties that are written under other names.
    """

    any_name = None

    def __init__(
        self,
        terminator: bytes,
        *,
        begin: Node = EPSILON,
        before_name: Node = EPSILON,
        after_name: Node = EPSILON,
        after_value: Callable[[str | None], Node] = lambda _: EPSILON,
        between: Node = EPSILON,
        end: Node = EPSILON,
        escapes: tuple[tuple[str, str], ...] = (),
        aliases: PropertyNames | None = None,
    ) -> None:
        super().__init__(WhitespaceLayout(after_name, between), begin, end)
        self._names = aliases or PropertyNames()
        self.name_begin, self._after_value = before_name, after_value
        self._terminator = terminator
        self._escapes = escapes

    def value_end(self, name: str | None) -> Node:
        """Return the text after a value."""
        return self._after_value(name)

    def spellings(self, name: str) -> Iterable[bytes]:
        """Return the name and its terminator."""
        name = self._names.write(name)
        for letter, written in self._escapes:
            name = name.replace(letter, written)
        return (name.encode() + self._terminator,)

    def names(self, language: Node) -> Node:
        """Return the spellings of a language of names."""
        if self._names:
            language = self._with_aliases(language)
        if not self._escapes:
            return encoded(language, RAW, self._terminator)
        return _escaped_names(language, self._escapes, self._terminator)

    def read_name(self, text: bytes) -> str:
        """Return the name of a spelling."""
        name = text[: -len(self._terminator)].decode()
        for letter, written in reversed(self._escapes):
            name = name.replace(written, letter)
        return self._names.read(name)

    def _with_aliases(self, language: Node) -> Node:
        """Return a language of names in which aliases replace renamed properties."""
        aliases = self._names.aliases
        plain = without_words(language, (*aliases, *aliases.values()))
        written = (alias for name, alias in aliases.items() if contains_word(language, name))
        return union((plain, word_language(written)))


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
        self.shared_derivatives = names.shared_derivatives

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


@dataclass(frozen=True)
class RawInputNotation(Notation):
    """The text of the argument ``input``, as it is. Other arguments cannot be written.

    Attributes:
        closing: The text after the input. No input contains it.
    """

    name: str
    closing: str

    @property
    def writes_plain(self) -> bool:
        """``False``: only inputs can be written."""
        return False

    def write(self, arguments: Mapping[str, Any]) -> str:
        """Return the input."""
        return str(arguments[INPUT])

    def end(self, text: str, start: int) -> int:
        """Return the position of the closing text; see :meth:`Notation.end`."""
        end = text.find(self.closing, start)
        return len(text) if end < 0 else end

    def _compile(self, schema: Schema, options: NotationOptions) -> CompiledArguments:
        texts = texts_without((self.closing, *options.avoid))
        if options.input is not None:
            texts = intersection((options.input, texts))
        if texts.is_empty:
            raise UnsatisfiableSchemaError(
                f"every input contains {self.closing!r}, which ends the call", pointer=""
            )
        return CompiledArguments(
            encoded(texts, RAW),
            lambda text: {INPUT: text},
            {},
            lambda arguments: literal(self.write(arguments).encode()),
            partial(count_words, texts),
        )


RAW_INPUT = RawInputNotation("raw-input", closing="<|call|>")
"""gpt-oss."""
