"""Keywords that ``jsonschema`` decides by another dialect of patterns, or in quadratic time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import jsonschema
from jsonschema.protocols import Validator

from state_machines.regex import compile_pattern

Errors = Iterator[jsonschema.ValidationError]
Keyword = Callable[[Validator, Any, Any, Mapping[str, Any]], Any]
"""A keyword's function; its parameters are the validator, the keyword's value, the instance and
the schema."""


def finds(pattern: str, text: str) -> bool:
    """Return whether a pattern of ECMA-262 matches somewhere in a text.

    Raises:
        PatternError: The pattern is invalid, or its language cannot be computed.
    """
    language = compile_pattern(pattern, search=True)
    for character in text:
        point = ord(character)
        for members, target in language.transitions:
            if point in members:
                language = target
                break
        else:
            return False
    return language.nullable


def _pattern(validator: Any, expected: Any, instance: Any, schema: Any) -> Errors:
    if isinstance(instance, str) and not finds(expected, instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {expected!r}")


def _pattern_properties(validator: Any, expected: Any, instance: Any, schema: Any) -> Errors:
    if isinstance(instance, dict):
        for pattern, subschema in expected.items():
            for name, value in instance.items():
                if finds(pattern, name):
                    yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, expected: Any, instance: Any, schema: Any) -> Errors:
    if not isinstance(instance, dict):
        return
    patterns = schema.get("patternProperties", {})
    for name in instance.keys() - schema.get("properties", {}).keys():
        if any(finds(pattern, name) for pattern in patterns):
            continue
        if expected is False:
            yield jsonschema.ValidationError(f"the property {name!r} is not allowed")
        else:
            yield from validator.descend(instance[name], expected, path=name)


def _unique_items(validator: Any, expected: Any, instance: Any, schema: Any) -> Errors:
    is_unique = expected is True and isinstance(instance, list)
    if is_unique and len(set(map(_identity, instance))) < len(instance):
        yield jsonschema.ValidationError("two items are equal")


def _identity(value: Any) -> Hashable:
    """Return a key that equal JSON values share."""
    if isinstance(value, list):
        return ("array", *map(_identity, value))
    if isinstance(value, dict):
        return frozenset((name, _identity(part)) for name, part in value.items())
    return (isinstance(value, bool), value)


KEYWORDS: dict[str, Keyword] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
}
"""The keywords by name."""
