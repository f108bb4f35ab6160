"""Where the subschemas of a schema stand, whatever the draft."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["Path", "at", "replaced", "subschemas"]

Path = tuple[str | int, ...]

_ONE = (
    *("additionalItems", "additionalProperties", "contains", "else", "if", "items", "not"),
    *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
)
_LISTS = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
_MAPPINGS = (
    *("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties"),
    "properties",
)


def subschemas(schema: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the schema and all schemas in it with their paths, outer ones first."""
    stack = [(path, schema)]
    while stack:
        here, part = stack.pop()
        if not isinstance(part, dict | bool):
            continue
        yield here, part
        if isinstance(part, dict):
            stack.extend(_children(here, part))


def _children(path: Path, schema: dict[str, Any]) -> Iterator[tuple[Path, Any]]:
    for keyword, value in schema.items():
        if keyword in _ONE and isinstance(value, dict | bool):
            yield (*path, keyword), value
        elif keyword in _LISTS and isinstance(value, list):
            yield from (((*path, keyword, index), item) for index, item in enumerate(value))
        elif keyword in _MAPPINGS and isinstance(value, dict):
            yield from (((*path, keyword, name), item) for name, item in value.items())


def at(value: Any, path: Path) -> Any:
    """Return what stands at a path."""
    for part in path:
        value = value[part]
    return value


def replaced(value: Any, path: Path, part: Any) -> Any:
    """Return a copy of a value with another part at a path; other parts are shared."""
    if not path:
        return part
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], part)
    return copy
