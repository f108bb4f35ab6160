"""Parts of schemas that the readers of several libraries write."""

from __future__ import annotations

from typing import Any

from state_machines.type_readers.marks import Schema

JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
"""The JSON types of Python's types."""

_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")

_DISTINCT_STEP, _DISTINCT_LIMIT = 1e-6, 1e9
"""Multiples of the step below the limit have at most 15 digits: each is another double."""


def language(name: str, **arguments: Any) -> Schema:
    """Return the schema of strings in a language; arguments that are ``None`` are left out."""
    given = {key: value for key, value in arguments.items() if value is not None}
    return {"type": "string", "x-reader-language": {"language": name, **given}}


def distinct_numbers(schema: Schema) -> Schema:
    """Return the numbers of a schema for which different texts are different doubles."""
    bounds = (schema.get(keyword) for keyword in _BOUNDS)
    if any(bound is not None and abs(bound) >= _DISTINCT_LIMIT for bound in bounds):
        grid: Schema = {"type": "integer", "minimum": -(2**53), "maximum": 2**53}
    else:
        limits = {"minimum": -_DISTINCT_LIMIT, "maximum": _DISTINCT_LIMIT}
        grid = {"multipleOf": _DISTINCT_STEP, **limits}
    return {**schema, "allOf": [grid]}


def listed(values: list[Any]) -> Schema:
    """Return the schema of listed values, with their type if they have one type."""
    schema: Schema = {"const": values[0]} if len(values) == 1 else {"enum": values}
    kinds = {type(value) for value in values}
    name = JSON_TYPES.get(kinds.pop()) if len(kinds) == 1 else None
    return schema if name is None else {"type": name, **schema}
