"""Find constraints that stand at the wrong place of a schema that no value satisfies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int, float),
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}
# Where the constraint of a type's parts stands, such as that of the items of an array.
_PARTS = {"array": "items", "object": "additionalProperties"}


def misplaced_hint(schema: Any) -> str:
    """Return a hint if ``enum`` or ``const`` has no value of the schema's type; else ``""``.

    >>> misplaced_hint({"type": "array", "items": {"type": "string"}, "enum": ["a"]})
    "No value of enum is of the type 'array'. Did you mean items.enum?"
    >>> misplaced_hint({"type": "integer", "const": "1"})
    "No value of const is of the type 'integer'"
    """
    if not isinstance(schema, Mapping):
        return ""
    kinds = schema.get("type")
    known = [kinds] if isinstance(kinds, str) else kinds
    if not isinstance(known, list) or not known or not all(each in _TYPES for each in known):
        return ""
    for keyword in ("enum", "const"):
        values = schema.get(keyword, []) if keyword == "enum" else [schema.get(keyword)]
        if keyword not in schema or not isinstance(values, list) or not values:
            continue
        if any(_has_type(value, kind) for value in values for kind in known):
            continue
        hint = f"No value of {keyword} is of the type {' or '.join(map(repr, known))}"
        place = next((_PARTS[kind] for kind in known if kind in _PARTS), None)
        if place is not None and _accepts(schema.get(place), values):
            hint += f". Did you mean {place}.{keyword}?"
        return hint
    return ""


def _accepts(part: Any, values: list[Any]) -> bool:
    """Return whether values may be of the type that the schema of a part names."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(kind, str) or kind not in _TYPES:
        return part is not False
    return all(_has_type(value, kind) for value in values)


def _has_type(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])
