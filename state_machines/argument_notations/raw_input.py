"""The input of a custom tool as it is, without anything around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from state_machines.argument_notations.notation import (
    INPUT,
    CompiledArguments,
    Notation,
    NotationOptions,
    Schema,
)
from state_machines.argument_notations.raw_text import texts_without
from state_machines.errors import UnsatisfiableSchemaError
from state_machines.grammar.boolean import intersection
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import literal
from state_machines.grammar.words import count_words


@dataclass(frozen=True)
class RawInputNotation(Notation):
    """The text of the argument ``input``. Other arguments cannot be written.

    Attributes:
        closing: The text after the input. No input contains it.
    """

    name: str
    closing: str

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
            encoded(texts, RAW), _read, {}, _spellings, partial(count_words, texts)
        )


def _read(text: str) -> dict[str, Any]:
    return {INPUT: text}


def _spellings(arguments: Mapping[str, Any]) -> Node:
    return literal(str(arguments[INPUT]).encode())


RAW_INPUT = RawInputNotation("raw-input", closing="<|call|>")
"""gpt-oss."""
