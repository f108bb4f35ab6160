r"""Cohere's notation: nested elements that say their type.

A member is ``<cofl:value name="NAME" type="TYPE">VALUE</cofl:value>``, an item of an array the same
without a name. The type is ``raw`` for a string, which is written as it is, ``dict`` and ``list``
for objects and arrays of further elements, and ``json`` for other values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from state_machines.argument_notations.argument_compiler import (
    ArgumentCompiler,
    values_of,
)
from state_machines.argument_notations.literals import read_json, read_json_object
from state_machines.argument_notations.nested import MAX_ELEMENT_DEPTH
from state_machines.argument_notations.notation import (
    CompiledArguments,
    Notation,
    NotationOptions,
    Schema,
)
from state_machines.argument_notations.raw_text import PlainMembers, texts_without
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import concatenation, literal
from state_machines.grammar.tokens import SPECIAL_MARK, Spell
from state_machines.json_schema.grammar.value_syntax import (
    WHITESPACE_LAYOUTS,
    ItemSyntax,
    ValueSyntax,
    WhitespaceLayout,
    white_space,
)

_BEGIN, _END = "<cofl:value", "</cofl:value>"
_TAG = re.compile(rf'\s*{_BEGIN}(?: name="([^"]*)")? type="(raw|json|dict|list)">')

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
_ESCAPING = str.maketrans(_ESCAPES)


@dataclass(frozen=True)
class CoflNotation(Notation):
    """Members and items as elements that say the type of their value.

    Attributes:
        max_whitespace: The greatest number of consecutive white space characters between elements
            and around values other than strings; ``None`` if there is no bound.
        avoid: Texts that no string contains, beside the closing tag.
    """

    name: str = "cofl"
    max_whitespace: int | None = 0
    avoid: tuple[str, ...] = ()

    def write(self, arguments: Mapping[str, Any]) -> str:
        """Return the members as elements."""
        return "".join(_element(value, name) for name, value in arguments.items())

    def end(self, text: str, start: int) -> int:
        """Return the position after the last element; see :meth:`Notation.end`."""
        return _as_json(text, start, is_object=True)[1]

    def _compile(self, schema: Schema, options: NotationOptions) -> CompiledArguments:
        space = white_space(self.max_whitespace)
        syntax = _CoflSyntax(space, options.spell)
        compiler = ArgumentCompiler(schema, options, syntax)
        names = texts_without(options.avoid)
        values = values_of(texts_without((_END, *self.avoid, *options.avoid)), names)
        members = _members(space, options.spell)
        return compiler.compiled_values(
            values, names, f"the notation {self.name!r}", _read, members
        )


def _element(value: Any, name: str | None = None) -> str:
    kind, text = "json", ""
    if isinstance(value, str):
        kind, text = "raw", value
    elif isinstance(value, Mapping):
        kind, text = "dict", "".join(_element(each, key) for key, each in value.items())
    elif isinstance(value, list):
        kind, text = "list", "".join(map(_element, value))
    else:
        text = json.dumps(value)
    attribute = "" if name is None else f' name="{name.translate(_ESCAPING)}"'
    return f'{_BEGIN}{attribute} type="{kind}">{text}{_END}'


def _unescaped(text: str) -> str:
    for letter, entity in reversed(_ESCAPES.items()):
        text = text.replace(entity, letter)
    return text


def _read(text: str) -> dict[str, Any]:
    found, end = _as_json(text, 0, is_object=True)
    if text[end:].strip():
        raise ValueError(f"no element: {text[end : end + 40]!r}")
    return read_json_object(found)


def _as_json(text: str, at: int, *, is_object: bool, depth: int = 1) -> tuple[str, int]:
    """Return the JSON of the elements from a position on, and the position after the last one."""
    if depth > MAX_ELEMENT_DEPTH:
        raise ValueError("nested too deeply")
    parts = []
    while tag := _TAG.match(text, at):
        name, kind = tag.groups()
        if (name is not None) != is_object:
            raise ValueError(f"a name is for members of objects: {tag[0][:40]!r}")
        if kind in ("raw", "json"):
            end = text.find(_END, tag.end())
            if end < 0:
                raise ValueError(f"a value does not end: {text[at : at + 40]!r}")
            value = text[tag.end() : end]
            value = json.dumps(value) if kind == "raw" else value.strip()
            if kind == "json":
                read_json(value)
            at = end + len(_END)
        else:
            value, at = _as_json(text, tag.end(), is_object=kind == "dict", depth=depth + 1)
            at = len(text) - len(text[at:].lstrip())
            if not text.startswith(_END, at):
                raise ValueError(f"{_END!r} was expected, not {text[at : at + 40]!r}")
            at += len(_END)
        parts.append(value if name is None else f"{json.dumps(_unescaped(name))}: {value}")
    begin, end_mark = "{}" if is_object else "[]"
    return f"{begin}{', '.join(parts)}{end_mark}", at


def _members(space: Node, spell: Spell, begin: Node = EPSILON, end: Node = EPSILON) -> PlainMembers:
    """Return members with names, in the content of an element or as arguments."""
    before = concatenation(space, literal(spell(f'{_BEGIN} name="')))
    return PlainMembers(
        b'"',
        begin=begin,
        before_name=before,
        end=concatenation(space, end),
        escapes=tuple(_ESCAPES.items()),
    )


class _CoflSyntax(ValueSyntax):
    """Values from the type of their element to its end."""

    quotes_strings = False

    def __init__(self, space: Node, spell: Spell) -> None:
        super().__init__(WHITESPACE_LAYOUTS["compact"])

        def begin(kind: str) -> Node:
            return literal(spell(f' type="{kind}">'))

        self._end = literal(spell(_END))
        self._raw, self._json, self._space = begin("raw"), begin("json"), space
        self.members = _members(space, spell, begin("dict"), self._end)
        tag = literal(spell(_BEGIN))
        self.items = ItemSyntax(
            WhitespaceLayout(comma=tag, opening=tag),
            concatenation(begin("list"), space),
            concatenation(space, self._end),
        )

    def scalar(self, spellings: Node) -> Node:
        """Return elements of the type ``json``."""
        if spellings is EMPTY:
            return EMPTY
        return concatenation(self._json, self._space, spellings, self._space, self._end)

    def string(self, texts: Node) -> Node:
        """Return elements of the type ``raw``."""
        return concatenation(self._raw, encoded(texts, RAW), self._end)

    def as_json(self, text: bytes) -> str:
        """Return the JSON of a value."""
        plain = text.replace(SPECIAL_MARK, b"").decode()
        return _as_json(_BEGIN + plain, 0, is_object=False)[0][1:-1]


COFL = CoflNotation(
    # The parser searches for these texts before it reads the elements, tags with any white space.
    avoid=(
        *("<cofl:tool_calls>", "</cofl:tool_calls>", "</cofl:value", "cofl:value>"),
        *("<|START_TEXT|>", "<|END_TEXT|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"),
        *("<|START_THINKING|>", "<|END_THINKING|>"),
    )
)
"""Cohere's Command 5."""
