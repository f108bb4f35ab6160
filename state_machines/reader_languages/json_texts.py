r"""JSON within a string, which pydantic's ``Json`` reads.

Observed with pydantic 2.14.4 (pydantic-core 2.50.5). Nested JSON is not a regular language, so
objects and arrays are nested at most some levels deep. At most one space follows a comma or colon.
Numbers are written without an exponent, with at most 15 digits before the point and behind it.
Left out, although read: other white space, ``NaN`` and ``Infinity``.
"""

from __future__ import annotations

from typing import Literal

from state_machines.grammar.node import Node
from state_machines.grammar.nodes import concatenation, optional, repetition, symbols, union
from state_machines.grammar.symbols import code_points
from state_machines.grammar.words import word_language
from state_machines.regex import compile_pattern

MAX_DEPTH = 16
"""Largest number of levels that may be asked for."""

_NUMBER = r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?"
# Without escaped surrogates: a lone one is refused.
_ESCAPE = r"\\(?:[\"\\/bfnrt]|u(?:[0-9A-CE-Fa-ce-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}))"
_STRING = rf"\"(?:[^\"\\\u{{0}}-\u{{1F}}]|{_ESCAPE})*\""

Top = Literal["any", "object", "array", "string", "number", "boolean", "null"]


def json(*, depth: int = 4, top: Top = "any") -> Node:
    """Return texts that are JSON.

    Args:
        depth: Largest number of objects and arrays within one another.
        top: The type of the value.
    """
    if not 0 <= depth <= MAX_DEPTH:
        raise ValueError(f"the depth {depth!r} is not between 0 and {MAX_DEPTH}")
    string = compile_pattern(_STRING, search=False)
    scalars = {
        "string": string,
        "number": compile_pattern(_NUMBER, search=False),
        "boolean": word_language(("true", "false")),
        "null": word_language(("null",)),
    }
    if top in scalars:
        return scalars[top]
    scalar = union(scalars.values())
    space = optional(symbols(code_points(" ")))
    comma = concatenation(symbols(code_points(",")), space)
    name = concatenation(string, symbols(code_points(":")), space)

    def within(marks: str, item: Node) -> Node:
        """Return the texts of items between two marks."""
        opening, closing = (symbols(code_points(mark)) for mark in marks)
        items = concatenation(item, repetition(concatenation(comma, item), 0, None))
        return concatenation(opening, optional(items), closing)

    value, values = scalar, {"any": scalar}
    for _ in range(depth):
        values = {"object": within("{}", concatenation(name, value)), "array": within("[]", value)}
        value = union((scalar, *values.values()))
    values["any"] = value
    if top not in values:
        raise ValueError(f"the type {top!r} is not known, or is nested deeper than {depth}")
    return values[top]
