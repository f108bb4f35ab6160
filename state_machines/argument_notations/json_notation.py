"""Arguments as a JSON object."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from state_machines.argument_notations.argument_compiler import ArgumentCompiler, values_of
from state_machines.argument_notations.notation import (
    CompiledArguments,
    Notation,
    NotationOptions,
    Schema,
    unique_members,
)
from state_machines.argument_notations.raw_text import texts_without
from state_machines.grammar.nodes import union
from state_machines.json_schema.value_syntax import JSON_SYNTAXES, Whitespace

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
        spellings = [self._in_layout(layout, schema, options) for layout in layouts]
        return replace(
            spellings[0],
            node=union(each.node for each in spellings),
            spellings=lambda arguments: union(each.spellings(arguments) for each in spellings),
        )

    def _in_layout(
        self, layout: Whitespace, schema: Schema, options: NotationOptions
    ) -> CompiledArguments:
        syntax = JSON_SYNTAXES[layout]
        compiler = ArgumentCompiler(schema, options, syntax)
        texts = texts_without(options.avoid)
        values = values_of(texts, texts) if any(options.avoid) else None
        return compiler.compiled_values(values, texts, "JSON", read_json_object)


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
