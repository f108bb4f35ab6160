"""Keywords of JSON Schemas, read leniently for descriptions in prompts.

A schema may be malformed here: a description never fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

_MAX_PATTERN_CHARS = 80


def reference_of(schema: Mapping[str, Any]) -> str | None:
    """Return the reference of a schema; ``None`` if it has none."""
    found = schema.get("$ref", schema.get("$dynamicRef", schema.get("$recursiveRef")))
    return found if isinstance(found, str) else None


def listed(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    """Return the value of a keyword that is a list; empty for any other value."""
    found = schema.get(keyword)
    return found if isinstance(found, list) else []


def is_tuple(schema: Mapping[str, Any], length: int) -> bool:
    """Return whether an array has no items after the first ones, which have their own schemas."""
    most = schema.get("maxItems")
    is_bounded = isinstance(most, int | float) and most <= length
    return is_bounded or False in (schema.get("items"), schema.get("additionalItems"))


def target_of(root: Any, reference: str) -> Any:
    """Return the schema that a JSON Pointer in a fragment leads to; ``True`` for other URIs."""
    if reference != "#" and not reference.startswith("#/"):
        return True
    found = root
    for token in unquote(reference).split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isascii() and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        elif isinstance(found, Mapping) and name in found:
            found = found[name]
        else:
            return True
    return found


_TYPES_OF_KEYWORDS = {
    "properties": "object",
    "required": "object",
    "additionalProperties": "object",
    "items": "array",
    "prefixItems": "array",
    "minItems": "array",
    "maxItems": "array",
    "format": "string",
    "pattern": "string",
    "minLength": "string",
    "maxLength": "string",
    "minimum": "number",
    "maximum": "number",
}


def types_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the types of a schema, or the type that its keywords are about."""
    types = schema.get("type")
    if types is not None:
        return types if isinstance(types, list) else [types]
    return [kind for keyword, kind in _TYPES_OF_KEYWORDS.items() if keyword in schema][:1]


def qualifiers_of(schema: Mapping[str, Any], kind: Any) -> str:
    """Return the bounds of a value of one type, in parentheses."""
    found: list[str] = []
    if kind in ("integer", "number"):
        found += _range(schema, "minimum", "maximum", "")
        for keyword, word in (("exclusiveMinimum", "above"), ("exclusiveMaximum", "below")):
            if _is_number(schema.get(keyword)):
                found.append(f"{word} {schema[keyword]}")
        if "multipleOf" in schema:
            found.append(f"a multiple of {schema['multipleOf']}")
    elif kind == "string":
        if isinstance(schema.get("format"), str):
            found.append(schema["format"])
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and len(pattern) <= _MAX_PATTERN_CHARS:
            found.append(f"matching {pattern}")
        found += _range(schema, "minLength", "maxLength", " characters")
    elif kind == "array":
        found += _range(schema, "minItems", "maxItems", " items")
        if schema.get("uniqueItems") is True:
            found.append("all different")
    return f" ({', '.join(found)})" if found else ""


def _range(schema: Mapping[str, Any], low: str, high: str, unit: str) -> list[str]:
    least, most = schema.get(low), schema.get(high)
    if not _is_number(least) and not _is_number(most):
        return []
    if not _is_number(most):
        # A lower bound of 0 says nothing about a length.
        return [f"at least {least}{unit}"] if least or not unit else []
    if not _is_number(least) or (unit and not least):
        return [f"at most {most}{unit}"]
    return [f"{least}{unit}" if least == most else f"{least} to {most}{unit}"]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
