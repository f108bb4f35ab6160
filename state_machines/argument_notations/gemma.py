"""Gemma's notations: names without quotes, and raw strings between two markers.

Gemma 4 nests objects and arrays in the same notation. FunctionGemma's parser searches for the first
``}`` and the first ``,``, so its arguments are scalars, and no text contains a closing brace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from state_machines.argument_notations.argument_compiler import ArgumentCompiler, values_of
from state_machines.argument_notations.literals import read_json_object
from state_machines.argument_notations.notation import (
    CompiledArguments,
    Notation,
    NotationOptions,
    Schema,
)
from state_machines.argument_notations.property_names import PropertyNames
from state_machines.argument_notations.raw_text import PlainMembers, texts_without
from state_machines.grammar.boolean import intersection
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import concatenation, literal, union
from state_machines.grammar.text_languages import contains_word, word_language
from state_machines.grammar.tokens import Spell
from state_machines.json_schema.algebra.terms import Term
from state_machines.json_schema.algebra.value_sets import ANY_VALUE, ValueSet
from state_machines.json_schema.grammar.value_syntax import WHITESPACE_LAYOUTS, ValueSyntax
from state_machines.regex import compile_pattern


@dataclass(frozen=True)
class MarkedNotation(Notation):
    """Objects as ``{name:value,…}`` with strings between two markers; all else as in JSON.

    Attributes:
        marker: The marker before a string.
        names: A pattern of the names that can be written.
        nests: Whether arrays and objects can be written as values, and closing braces in strings.
        avoid: Texts that no string may contain, beside the marker.
        end_marker: The marker after a string; empty if it is the same.
        name_quote: The text around names.
    """

    name: str
    marker: str
    names: str
    nests: bool
    avoid: tuple[str, ...] = ()
    end_marker: str = ""
    name_quote: Literal["", '"'] = ""

    @property
    def writes_plain(self) -> bool:
        """Whether containers can be written."""
        return self.nests

    def write(self, arguments: Mapping[str, Any]) -> str:
        """Return the object with its names as they are and its strings between markers."""
        return self._written(arguments)

    def _written(self, value: Any) -> str:
        if isinstance(value, str):
            return f"{self.marker}{value}{self.closing}"
        if isinstance(value, Mapping):
            quote = self.name_quote
            members = (
                f"{quote}{name}{quote}:{self._written(each)}" for name, each in value.items()
            )
            return f"{{{','.join(members)}}}"
        if isinstance(value, list):
            return f"[{','.join(map(self._written, value))}]"
        return json.dumps(value)

    def end(self, text: str, start: int) -> int:
        """Return the position after the brace that ends the object; see :meth:`Notation.end`."""
        depth = 0
        pattern = f"{self._string.pattern}|[{{}}]"
        for piece in re.compile(pattern, re.DOTALL).finditer(text, start):
            depth += {"{": 1, "}": -1}.get(piece[0], 0)
            if depth <= 0:
                return piece.end()
        raise ValueError("a brace is not closed")

    def _compile(self, schema: Schema, options: NotationOptions) -> CompiledArguments:
        aliases = self.property_names(schema)
        syntax = _MarkedSyntax(self, options.spell, aliases)
        compiler = ArgumentCompiler(schema, options, syntax, aliases)
        # The input of a custom tool is read here alone, and braces in it are no brackets.
        braces = () if self.nests or options.input is not None else ("}",)
        texts = texts_without((self.closing, *braces, *self.avoid, *options.avoid))
        names = intersection((self.name_language, texts))
        notation = f"the notation {self.name!r}"
        values: Term = values_of(texts, union((names, word_language(aliases.aliases))))
        if not self.nests:
            scalars = ValueSet(True, ANY_VALUE.booleans, ANY_VALUE.numbers, texts)
            values = compiler.terms.evaluated(scalars)
        return compiler.compiled_values(
            values, names, notation, lambda text: read_json_object(self.as_json(text, aliases))
        )

    @property
    def renames_nested(self) -> bool:  # type: ignore[override]
        """Whether nested objects can be written, whose names are restricted as well."""
        return self.nests

    def can_write_name(self, name: str) -> bool:
        """Return whether a name can be written; see :meth:`Notation.can_write_name`."""
        return contains_word(self.name_language, name)

    def as_json(self, text: str, names: PropertyNames) -> str:
        """Return the JSON of a text, which must be of the notation.

        Args:
            text: The text.
            names: The properties that are written under other names.
        """

        def quoted(name: re.Match[str]) -> str:
            return f"{json.dumps(names.read(name[1].strip(self.name_quote)))}:"

        # Strings are at odd indices.
        pieces = self._string.split(text)
        if any(self.marker in piece for piece in pieces[::2]):
            raise ValueError("unterminated string")
        pieces[1::2] = map(json.dumps, pieces[1::2])
        pieces[::2] = (_BARE_NAME.sub(quoted, piece) for piece in pieces[::2])
        return "".join(pieces)

    @property
    def closing(self) -> str:
        """The marker after a string."""
        return self.end_marker or self.marker

    @cached_property
    def _string(self) -> re.Pattern[str]:
        begin, end = map(re.escape, (self.marker, self.closing))
        return re.compile(f"{begin}(.*?){end}", re.DOTALL)

    @cached_property
    def name_language(self) -> Node:
        """The names that can be written, as a language of code points."""
        return compile_pattern(self.names, search=True)


_BARE_NAME = re.compile(r"(?<=[{,])([^{},:]*):")


class _MarkedSyntax(ValueSyntax):
    """Values with strings between markers."""

    quotes_strings = False

    def __init__(self, notation: MarkedNotation, spell: Spell, aliases: PropertyNames) -> None:
        super().__init__(WHITESPACE_LAYOUTS["compact"])
        begin, between, end = map(literal, (b"{", b",", b"}"))
        quote = notation.name_quote.encode()
        self.members = PlainMembers(
            quote or b":",
            begin=begin,
            before_name=literal(quote),
            after_name=literal(b":" if quote else b""),
            between=between,
            end=end,
            aliases=aliases,
        )
        self._notation, self._aliases = notation, aliases
        self._spelled = {spell(each): each for each in (notation.marker, notation.closing)}
        self._markers = [literal(spell(each)) for each in (notation.marker, notation.closing)]

    def string(self, texts: Node) -> Node:
        """Return the strings of a language between markers."""
        begin, end = self._markers
        return concatenation(begin, encoded(texts, RAW), end)

    def as_json(self, text: bytes) -> str:
        """Return the JSON of a value."""
        for spelled, marker in self._spelled.items():
            text = text.replace(spelled, marker.encode())
        return self._notation.as_json(text.decode(), self._aliases)


GEMMA4 = MarkedNotation(
    "gemma4",
    marker='<|"|>',
    # The parser reads a name as ``\w+``.
    names=r"^[\p{L}\p{Nd}_]+$",
    nests=True,
    avoid=("<tool_call|>",),
)
"""Gemma 4."""

FUNCTION_GEMMA = MarkedNotation(
    "function-gemma",
    marker="<escape>",
    names=r"^[^:{},<>]+$",
    nests=False,
    avoid=("<end_function_call>",),
)
"""FunctionGemma."""
